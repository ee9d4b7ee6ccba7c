"""The workflow of learners' repositories: its rights, and all its steps run here as a runner would."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
import yaml
from workflow_runner import Job, clean_environment

from exercises_tests.tools.chapters import ROOT, find, overlay, solutions, solved

FILE = ROOT / "docs" / "classroom-workflow.yml"
WORKFLOW = yaml.safe_load(FILE.read_text(encoding="utf-8"))
STEPS = WORKFLOW["jobs"]["points"]["steps"]


def test_it_runs_for_pushes_and_pull_requests_without_a_secret_or_a_right_to_write():
    assert set(WORKFLOW[True]) == {"push", "pull_request", "workflow_dispatch"}  # YAML reads the key `on` as true
    assert WORKFLOW["permissions"] == {"contents": "read"}
    assert "secrets" not in json.dumps(WORKFLOW)
    (checkout,) = [step for step in STEPS if "checkout" in step.get("uses", "")]
    assert checkout["with"]["persist-credentials"] is False


@pytest.fixture(scope="module")
def handout(tmp_path_factory) -> tuple[str, str]:
    """Return the address of a handout's repository and the hash of its commit."""
    folder = tmp_path_factory.mktemp("handout") / "course"
    subprocess.run([sys.executable, str(ROOT / "docs" / "handout.py"), str(folder)], check=True, timeout=600,
                   capture_output=True)  # fmt: skip
    git = ["git", "-C", str(folder), "-c", "user.name=x", "-c", "user.email=x"]
    for more in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "x"]):
        subprocess.run([*git, *more], check=True, timeout=600, capture_output=True)
    commit = subprocess.run([*git, "rev-parse", "HEAD"], check=True, timeout=600, capture_output=True, text=True)
    return f"file://{folder}", commit.stdout.strip()


def installed(folder: Path) -> None:
    """Leave what setting up the course leaves: a Python that has its packages, and the stamp of make."""
    place = folder / "course" / ".venv"
    (place / "bin").mkdir(parents=True)
    (place / "bin" / "python").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    (place / "bin" / "python").chmod(0o755)
    (place / ".course-installed").touch()


def run(tmp_path: Path, handout: tuple[str, str], event: str, notebooks: dict[str, str]) -> Job:
    """Run the workflow for a learner's repository that holds these files."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "sudo").write_text('#!/bin/sh\necho "sudo $*"\n')
    (tmp_path / "bin" / "sudo").chmod(0o755)
    workspace = tmp_path / "workspace"
    workspace.mkdir()

    def checkout(folder: Path) -> None:
        for name, text in notebooks.items():
            (folder / "learner" / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / "learner" / name).write_text(text)

    workflow = WORKFLOW | {"env": WORKFLOW["env"] | dict(zip(("COURSE", "COMMIT"), handout, strict=True))}
    context = {"github.event_name": event, "github.ref": "refs/heads/main" if event == "push" else "refs/pull/1/merge"}
    environ = clean_environment(tmp_path) | {"GITHUB_EVENT_NAME": event}
    job = Job(workflow, "points", workspace, context, environ)
    job.run({"actions/checkout": checkout, "actions/setup-python": lambda folder: None},
            {"Get the course, at its commit": installed})  # fmt: skip
    return job


@pytest.mark.parametrize("event", ["push", "pull_request"])
def test_a_commit_shows_its_points_in_the_summary(tmp_path, handout, event):
    chapter = find("ch09")
    half = overlay(chapter, {name: text for name, text in solutions(chapter).items() if name != "chimera"})
    job = run(tmp_path, handout, event, {"work/renamed.ipynb": nbformat.writes(half), "notes.ipynb": "{}",
                                         "conftest.py": "raise SystemExit", "Makefile": "all:\n\tfalse"})  # fmt: skip
    assert not job.failed, job.log
    assert job.ran == [step.get("name") or step["uses"].partition("@")[0] for step in STEPS]
    points = {exercise.id: exercise.points for exercise in chapter.exercises}
    total = sum(points.values())
    assert f"**{total - points['chimera']} of {total} points**" in job.summary
    assert f"| interleaved | {points['interleaved']} | {points['interleaved']} |" in job.summary
    assert f"| chimera | 0 | {points['chimera']} |" in job.summary
    assert job.context["steps.points.outputs.points"] == str(total - points["chimera"])
    assert "What counts is graded elsewhere" in job.summary and "| ✗ chimera" in job.log


def test_a_repository_without_a_notebook_is_told_so_and_nothing_is_installed(tmp_path, handout):
    job = run(tmp_path, handout, "push", {"README.md": "later"})
    assert not job.failed and "No notebook" in job.summary
    assert not any("Install" in name for name in job.ran)


def test_what_cannot_be_fetched_fails_and_the_summary_says_so(tmp_path, handout):
    job = run(tmp_path, (handout[0], "1" * 40), "push", {"ch09.ipynb": nbformat.writes(solved(find("ch09")))})
    assert job.failed and "could not be worked out" in job.summary
    assert "Points" not in job.ran


def test_links_large_files_and_deep_folders_are_passed_over(tmp_path):
    (tmp_path / "learner" / "work" / "deep").mkdir(parents=True)
    (tmp_path / "learner" / "work" / "deep" / "a.ipynb").write_text("deep")
    (tmp_path / "learner" / "big.ipynb").write_bytes(b"x" * 2000)
    (tmp_path / "learner" / "link.ipynb").symlink_to("/etc/passwd")
    (tmp_path / "learner" / "work" / "odd 'x'\n.ipynb").write_text("odd")
    (tmp_path / "learner" / "folder.ipynb").mkdir()
    (script,) = [step["run"] for step in STEPS if step.get("id") == "find"]
    environ = clean_environment(tmp_path) | {"MOST_BYTES": "1000", "MOST_NOTEBOOKS": "20"}
    environ["GITHUB_OUTPUT"] = str(tmp_path / "output")
    subprocess.run(["bash", "-eo", "pipefail", "-c", script], cwd=tmp_path, env=environ, check=True, timeout=600)
    assert (tmp_path / "output").read_text() == "count=1\n"
    assert [path.read_text() for path in (tmp_path / "found").iterdir()] == ["odd"]


def test_the_runner_of_these_tests_refuses_an_expression_that_it_does_not_know(tmp_path):
    with pytest.raises(KeyError, match="github.actor"):
        Job(WORKFLOW, "points", tmp_path, {}, {}).value("${{ github.actor }}")
