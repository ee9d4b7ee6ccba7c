"""The workflow that grades in CI: its rights, and its steps, run here against a hostile repository."""

from __future__ import annotations

import json
import os
import re
import subprocess

import pytest
import yaml

from exercises_tests.tools.chapters import ROOT

WORKFLOW = yaml.safe_load((ROOT / "docs" / "grade-workflow.yml").read_text(encoding="utf-8"))
STEPS = [step for job in WORKFLOW["jobs"].values() for step in job["steps"]]


def script(words: str) -> str:
    (found,) = [step["run"] for step in STEPS if words in step.get("name", "")]
    return found


def bash(text: str, folder, **environ: str) -> subprocess.CompletedProcess:
    return subprocess.run(["bash", "-c", text], cwd=folder, env=os.environ | environ, capture_output=True, text=True,
                          timeout=600)


def test_nothing_that_a_learner_does_starts_it():
    assert set(WORKFLOW[True]) == {"workflow_dispatch", "schedule"}  # YAML reads the key `on` as true


def test_the_token_can_do_nothing_but_read_and_the_job_that_grades_holds_no_secret():
    assert WORKFLOW["permissions"] == {}
    assert {name: job["permissions"] for name, job in WORKFLOW["jobs"].items()} == {
        "fetch": {"contents": "read"}, "grade": {}}
    assert "secrets" not in json.dumps(WORKFLOW)
    (checkout,) = [step for step in STEPS if "checkout" in step.get("uses", "")]
    assert checkout["with"]["persist-credentials"] is False


def test_the_sandbox_is_asked_for_before_the_notebooks_arrive():
    names = [step.get("name") or step["uses"] for step in WORKFLOW["jobs"]["grade"]["steps"]]
    arrive = [name.startswith("actions/download") for name in names].index(True)
    assert names.index("A sandbox, or nothing is graded") < arrive
    assert 'Grading(ROOT, "probe")' in script("A sandbox")
    assert not any("unprotected" in step.get("run", "") for step in STEPS)


@pytest.fixture
def hostile(tmp_path):
    """A learner's repository: two notebooks, and all that should not be taken."""
    home = tmp_path / "learner"
    (home / "work").mkdir(parents=True)
    (home / "work" / "ch03.ipynb").write_text("three")
    (home / "ch00 'x'\n.ipynb").write_text("zero")
    (home / "big.ipynb").write_bytes(b"x" * 2000)
    (home / "link.ipynb").symlink_to("/etc/passwd")
    (home / "conftest.py").write_text("raise SystemExit")
    (home / ".gitattributes").write_text("*.ipynb filter=evil")
    (home / "folder.ipynb").mkdir()
    (home / "folder.ipynb" / "inside.ipynb").write_text("deep")
    (home / ".github" / "workflows").mkdir(parents=True)
    (home / ".github" / "workflows" / "grade.yml").write_text("on: push")
    git = "git -c user.name=x -c user.email=x -c init.defaultBranch=main"
    assert bash(f"{git} init -q && git add -A && {git} commit -qm x", home).returncode == 0
    return home


def fetch(folder, learners: str, **environ: str) -> subprocess.CompletedProcess:
    (folder / "learners.txt").write_text(learners)
    text = script("Take the notebooks").replace("GIT_ALLOW_PROTOCOL=https", "GIT_ALLOW_PROTOCOL=file")
    return bash(text, folder, **{"MOST_BYTES": "1000", "MOST_NOTEBOOKS": "20"} | environ)


def test_only_plain_notebooks_are_taken_and_under_names_of_our_own(tmp_path, hostile):
    done = fetch(tmp_path, f"# name address\nada file://{hostile}\n")
    assert done.returncode == 0, done.stderr
    found = {path.name: path.read_text() for path in (tmp_path / "submissions" / "ada").iterdir()}
    assert sorted(found) == ["1.ipynb", "2.ipynb"]
    assert sorted(found.values()) == ["three", "zero"]


def test_a_learner_may_hand_in_so_many_notebooks_and_no_more(tmp_path, hostile):
    fetch(tmp_path, f"ada file://{hostile}\n", MOST_NOTEBOOKS="1")
    assert len(list((tmp_path / "submissions" / "ada").iterdir())) == 1


def test_a_repository_that_is_not_there_does_not_stop_the_others(tmp_path, hostile):
    done = fetch(tmp_path, f"gone file://{tmp_path}/nothing\nada file://{hostile}\n")
    assert done.returncode == 0
    assert "gone could not be fetched" in done.stdout
    assert (tmp_path / "submissions" / "ada" / "1.ipynb").exists()


@pytest.mark.parametrize("line", ["../up file:///x", "a/b file:///x", "$(id) file:///x"])
def test_a_name_that_is_a_path_or_a_command_is_refused(tmp_path, line):
    assert fetch(tmp_path, line + "\n").returncode != 0


def test_another_protocol_is_refused(tmp_path):
    done = fetch(tmp_path, "ada ext::sh -c 'touch owned'\n")
    assert "ada could not be fetched" in done.stdout
    assert not (tmp_path / "owned").exists()


def test_the_summary_is_a_table_that_learners_cannot_write_in(tmp_path):
    (tmp_path / "grades").mkdir()
    evil = "ada | 100 |\n# <script>`![x](http://y)"
    records = [{"learner": evil, "chapter": "ch03_ring_all_reduce", "earned": 3, "points": 5}]
    (tmp_path / "grades" / "grades.json").write_text(json.dumps({"submissions": records}))
    done = bash(script("Summary"), tmp_path, GITHUB_STEP_SUMMARY=str(tmp_path / "summary"))
    assert done.returncode == 0, done.stderr
    lines = (tmp_path / "summary").read_text().splitlines()
    assert len(lines) == 3 and lines[2].endswith("| ch03_ring_all_reduce | 3 | 5 |")
    assert lines[2].count("|") == 5 and not re.search(r"[<`\[(]", lines[2])
