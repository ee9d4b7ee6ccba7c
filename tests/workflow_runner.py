"""Runs the steps of a workflow as GitHub's runner does, as far as our workflows go: bash, env files, conditions.

What `uses` names is not run: a test puts in its place what the action would have left. An expression that is not known
here is an error, so that no test passes by overlooking one.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

SHELL = ["bash", "--noprofile", "--norc", "-eo", "pipefail"]  # the runner's, where a step names bash


class Job:
    """One job in a workspace of its own."""

    def __init__(self, workflow: dict, name: str, folder: Path, context: Mapping[str, str], environ: Mapping[str, str]):
        self.steps, self.folder, self.context = workflow["jobs"][name]["steps"], folder, dict(context)
        self.environ = dict(environ) | workflow.get("env", {}) | workflow["jobs"][name].get("env", {})
        self.environ |= {"GITHUB_WORKSPACE": str(folder), "CI": "true", "GITHUB_ACTIONS": "true"}
        self.failed, self.summary, self.log, self.ran = False, "", "", []

    def value(self, text: str) -> str:
        """Return a text with its expressions replaced; an output that no step has set is empty, as it is there."""

        def of(found: re.Match) -> str:
            name = found[1].strip()
            if name not in self.context and not re.fullmatch(r"steps\.\w+\.outputs\.\w+", name):
                raise KeyError(f"the expression {name!r} is not known")
            return self.context.get(name, "")

        return re.sub(r"\$\{\{(.*?)\}\}", of, text)

    def wanted(self, condition: str) -> bool:
        """Return whether a step runs: `always()`, or a comparison with a text; after a failure only the first."""
        if condition == "always()":
            return True
        left, sign, right = re.fullmatch(r"([\w.]+) (==|!=) '(\w*)'", condition).groups() if condition else ("", "", "")
        holds = not condition or (self.value("${{ " + left + " }}") == right) is (sign == "==")
        return holds and not self.failed

    def run(self, actions: Mapping[str, Callable[[Path], None]], after: Mapping[str, Callable[[Path], None]]) -> None:
        """Run all steps; `actions` stand for what is used, by name; `after` are called when a step is done."""
        for number, step in enumerate(self.steps):
            name = step.get("name") or step["uses"].partition("@")[0]
            if not self.wanted(step.get("if", "")):
                continue
            self.ran.append(name)
            if "uses" in step:
                actions[name](self.folder)
            else:
                self._script(step, self.folder.parent / f"step{number}")
            if name in after:
                after[name](self.folder)

    def _script(self, step: dict, files: Path) -> None:
        files.mkdir()
        outputs, summary, script = files / "output", files / "summary", files / "script.sh"
        outputs.touch()
        script.write_text(self.value(step["run"]))
        environ = self.environ | {name: self.value(text) for name, text in step.get("env", {}).items()}
        environ |= {"GITHUB_OUTPUT": str(outputs), "GITHUB_STEP_SUMMARY": str(summary)}
        place = self.folder / step.get("working-directory", ".")
        done = subprocess.run(
            [*SHELL, str(script)], cwd=place, env=environ, capture_output=True, text=True, timeout=600,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
        self.failed |= done.returncode != 0
        self.log += f"## {step['name']}: {done.returncode}\n{done.stdout}{done.stderr}"
        for line in outputs.read_text().splitlines():
            key, equals, value = line.partition("=")
            assert equals, f"{line!r} is no output"
            self.context[f"steps.{step.get('id')}.outputs.{key}"] = value
        self.summary += summary.read_text() if summary.exists() else ""


def clean_environment(folder: Path) -> dict[str, str]:
    """Return the variables that a runner's machine has, with a home and programs of the test's own first."""
    return {"PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}", "HOME": str(folder), "LANG": "C.UTF-8"}
