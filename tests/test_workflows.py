"""Every workflow that comes with the course: its form, and what its scripts are made of."""

from __future__ import annotations

import subprocess
import sys

import pytest
import yaml

from exercises_tests.tools.chapters import ROOT

FILES = [*sorted((ROOT / "docs").glob("*-workflow.yml")), *sorted((ROOT / ".github" / "workflows").glob("*.yml"))]
SCRIPTS = {f"{path.stem}, {step['name']}": step["run"]
           for path in FILES for job in yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"].values()
           for step in job["steps"] if "run" in step and "name" in step}  # fmt: skip


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_it_is_what_githubs_schema_asks_for(path):
    pytest.importorskip("check_jsonschema", reason="check-jsonschema is not installed: pip install -e .[workflows]")
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.github-workflows", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("script", SCRIPTS.values(), ids=list(SCRIPTS))
def test_no_expression_stands_in_a_script(script):
    assert "${{" not in script  # what a learner can name would run in it


@pytest.mark.parametrize("script", SCRIPTS.values(), ids=list(SCRIPTS))
def test_every_script_is_bash(script):
    done = subprocess.run(["bash", "-n"], input=script, text=True, capture_output=True, timeout=600)
    assert done.returncode == 0, done.stderr
