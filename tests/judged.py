"""What `pytest --nbval-lax` says of each cell of a notebook, in a process of its own: for the tests."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import warm

AS_LEARNERS_HAVE_IT = ("-p", "no:hypothesispytest")
"""Without the plugin of a package that learners have not: to import it takes pytest half of its start."""


@dataclass
class Judged:
    """One cell's result: `state` is passed, failure, error or skipped; `properties` are those the plugin attaches."""

    state: str
    properties: dict[str, str]

    @property
    def sentence(self) -> str | None:
        return self.properties.get("sentence")


def judge(notebook: Path, *options: str, seconds: float = 600) -> dict[str, Judged]:
    """Return the result of each code cell by its name, after running the notebook in its own folder."""
    results = notebook.parent / "results.xml"
    printed = warm.run(
        [sys.executable, "-m", "pytest", "--nbval-lax", notebook.name, "-q", "-p", "no:cacheprovider",
         *AS_LEARNERS_HAVE_IT, f"--junitxml={results}", *options],
        cwd=notebook.parent, timeout=seconds,
        env={name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")})
    assert results.exists(), printed
    return {case.get("name"): judged(case) for case in ElementTree.parse(results).iter("testcase")}


def judged(case: ElementTree.Element) -> Judged:
    states = [child.tag for child in case if child.tag in ("failure", "error", "skipped")]
    properties = {entry.get("name"): entry.get("value") for entry in case.iter("property")}
    return Judged(states[0] if states else "passed", properties)
