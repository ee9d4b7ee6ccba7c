"""The pytest plugin: each fault of nbval that it mends has a test that fails without the plugin."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from judged import AS_LEARNERS_HAVE_IT, Judged, judge
from nbformat.v4 import new_code_cell, new_notebook

from exercises_tests.tools import plugin
from exercises_tests.tools.chapters import ChapterError, answers_of, chapters, overlay, parse

COURSE = {"course": {"chapter": "ch99_small", "title": "A small chapter", "version": 1}}
SECONDS = 600


def cell(name: str, source: str, *tags: str):
    made = new_code_cell(source, id=name)
    made.metadata["tags"] = list(tags)
    return made


def run(folder: Path, *cells, metadata=COURSE, options=()) -> dict[str, Judged]:
    """Return the result of each cell of a notebook made of these cells."""
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    notebook = new_notebook(cells=list(cells), metadata={**metadata, "kernelspec": kernel})
    nbformat.write(notebook, folder / "small.ipynb")
    return judge(folder / "small.ipynb", *options, seconds=SECONDS)


def states(results) -> dict[str, str]:
    return {name: result.state for name, result in results.items()}


@pytest.fixture(scope="module")
def ordinary(tmp_path_factory):
    """The results of one notebook whose cells have nothing to do with each other: a kernel for each would take long."""
    return run(
        tmp_path_factory.mktemp("ordinary"),
        cell("check_f", "raise ValueError('wrong sum')", "check", "raises-exception"),
        cell("use_f", "f()", "needs-f", "raises-exception"),
        cell("on_purpose", "1 / 0", "raises-exception"),
        cell("g", "# NBVAL_SKIP\ng = 1", "exercise"),
        cell("check_g", "# NBVAL_SKIP\nassert g == 2", "check"),
        cell("no_test", "import os; assert 'PYTEST_CURRENT_TEST' not in os.environ"),
        cell("no_progress", "assert os.environ['COURSE_PROGRESS'] == 'off'"),
        cell("hide", "get_ipython().showtraceback = lambda *a, **k: None"),
        cell("hidden", "raise ValueError('nobody sees me')"),
    )


def test_a_failing_check_fails_in_spite_of_its_raises_exception_tag(ordinary):
    assert ordinary["check_f"].state == "failure"
    assert ordinary["check_f"].sentence == "wrong sum"


def test_a_cell_that_needs_an_exercise_fails_in_spite_of_its_raises_exception_tag(ordinary):
    assert ordinary["use_f"].state == "failure"


def test_an_exception_on_purpose_outside_checks_passes(ordinary):
    assert ordinary["on_purpose"].state == "passed"


def test_nbval_skip_in_an_exercise_or_a_check_is_ignored(ordinary):
    assert (ordinary["g"].state, ordinary["check_g"].state) == ("passed", "failure")


def test_a_dead_kernel_fails_its_cell_and_the_rest_at_once(tmp_path):
    results = run(tmp_path, cell("ends", "import os; os._exit(0)"), cell("after", "1"), cell("last", "1"))
    assert states(results) == {"ends": "failure", "after": "failure", "last": "failure"}
    assert "kernel died in this cell" in results["ends"].sentence
    assert results["last"].sentence == "not run: the kernel died in cell ends"


PORT_TAKEN = """import nbval.kernel as kernel
start, failures = kernel.start_new_kernel, [RuntimeError("Kernel died before replying to kernel_info")] * {times}

def start_new_kernel(*args, **more):
    if failures:
        raise failures.pop()
    return start(*args, **more)

kernel.start_new_kernel = start_new_kernel
"""


@pytest.mark.parametrize(("times", "state"), [(2, "passed"), (3, "error")])
def test_a_kernel_that_dies_while_it_starts_is_started_twice_more(tmp_path, times, state):
    (tmp_path / "conftest.py").write_text(PORT_TAKEN.format(times=times))
    assert states(run(tmp_path, cell("one", "1"))) == {"one": state}


def test_an_error_that_the_kernel_does_not_show_still_fails(ordinary):
    assert (ordinary["hide"].state, ordinary["hidden"].state) == ("passed", "failure")
    assert ordinary["hidden"].sentence == "nobody sees me"


SWALLOW = """import time
try:
    time.sleep(60)
except KeyboardInterrupt:
    pass"""


def test_a_timeout_fails_its_cell_also_when_the_interrupt_is_swallowed(tmp_path):
    results = run(tmp_path, cell("swallows", SWALLOW), options=["--nbval-cell-timeout=1"])
    assert results["swallows"].state == "failure"
    assert results["swallows"].sentence == "did not end within 1 s"


def test_cells_after_a_timeout_are_failures_that_say_why(tmp_path):
    results = run(tmp_path, cell("slow", "import time; time.sleep(60)"), cell("after", "1"),
                    options=["--nbval-cell-timeout=1"])
    assert states(results) == {"slow": "failure", "after": "failure"}
    assert results["after"].sentence == "not run: cell slow did not end within 1 s"


PRINT_WITHOUT_END = """while True:
    try:
        while True:
            print("more", flush=True)
    except KeyboardInterrupt:
        pass"""


def test_a_cell_that_prints_on_after_the_interrupt_is_ended(tmp_path):
    results = run(tmp_path, cell("floods", PRINT_WITHOUT_END), cell("after", "1"),
                    options=["--nbval-cell-timeout=1"])
    assert states(results) == {"floods": "failure", "after": "failure"}


def test_the_kernel_does_not_see_the_current_test(ordinary):
    assert ordinary["no_test"].state == "passed"


def test_the_kernel_does_not_record_progress(ordinary):
    assert ordinary["no_progress"].state == "passed"


def test_results_carry_the_cell_id_its_tags_and_the_error(ordinary):
    properties = ordinary["check_f"].properties
    assert properties["cell_id"] == "check_f"
    assert properties["tags"] == "['check', 'raises-exception']"
    assert properties["error"] == "ValueError"


def test_results_survive_the_way_back_from_a_worker_of_xdist(tmp_path):
    results = run(tmp_path, cell("check_f", "raise ValueError('no')", "check"), options=["-n", "1"])
    assert results["check_f"].sentence == "no"


def test_a_notebook_without_course_metadata_keeps_the_behaviour_of_nbval(tmp_path):
    results = run(tmp_path, cell("check_f", "1 / 0", "check", "raises-exception"), metadata={})
    assert states(results) == {"Cell 0": "passed"}


def test_no_connection_file_is_left_after_a_dead_kernel(tmp_path, monkeypatch):
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    results = run(tmp_path, cell("ends", "import os; os._exit(0)"))
    assert results["ends"].sentence.startswith("the kernel died")
    assert list(temporary.glob("*.json")) == []


def test_an_nbval_whose_internals_moved_is_named(monkeypatch):
    monkeypatch.setitem(plugin.INTERNALS, plugin.IPyNbFile, ("setup", "moved_away"))
    assert "has no IPyNbFile.moved_away" in plugin.cannot_judge()


WITHOUT_NBVAL = """import sys
import pytest
sys.modules["nbval"] = None
sys.exit(pytest.main(["--nbval-lax", "small.ipynb", "-p", "no:cacheprovider", "-p", "exercises_tests.tools.plugin"]))
"""


def test_an_absent_nbval_is_named(tmp_path):
    nbformat.write(new_notebook(metadata=COURSE), tmp_path / "small.ipynb")
    done = subprocess.run([sys.executable, "-c", WITHOUT_NBVAL], cwd=tmp_path, capture_output=True, text=True,
                          timeout=SECONDS, env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"})
    assert done.returncode != 0
    assert "Chapters need nbval, which does not import" in done.stdout


@pytest.mark.parametrize("text", ["", "[]", '{"metadata": 3}', '{"metadata": {"course": "x"}}', "\udcff"])
def test_a_file_that_is_no_chapter_is_left_alone(tmp_path, text):
    path = tmp_path / "small.ipynb"
    path.write_text(text, errors="surrogateescape")
    try:
        notebook = parse(path)
    except ChapterError:
        return
    assert not plugin.is_chapter(notebook) and plugin.chapter_of(path, notebook) is None


def patched(notebook):
    for cell in notebook.cells:
        cell.metadata["tags"] = ["raises-exception"]


def nameless(notebook):
    del notebook.metadata["course"]
    for cell in notebook.cells:
        del cell["id"]


def without_checks(notebook):
    notebook.cells = [cell for cell in notebook.cells if not cell.id.startswith("check_")]


def raw(notebook):
    for cell in notebook.cells:
        cell.cell_type = "raw" if cell.id.startswith("check_") else cell.cell_type


def everything(notebook):
    for edit in (raw, without_checks, patched, nameless):
        edit(notebook)


@pytest.mark.parametrize("edit", [patched, nameless, without_checks, raw, everything])
@pytest.mark.parametrize("chapter", chapters(), ids=lambda chapter: chapter.name)
def test_what_is_judged_is_the_pristine_chapter_with_the_learners_exercise_cells(chapter, edit, tmp_path):
    mine = copy.deepcopy(chapter.notebook)
    edit(mine)
    path = tmp_path / "homework.ipynb"
    path.write_text(json.dumps(mine))
    notebook = parse(path)
    assert plugin.chapter_of(path, notebook).name == chapter.name
    judged = overlay(chapter, answers_of(notebook, [exercise.id for exercise in chapter.exercises]))
    assert [(cell.id, cell.source, cell.metadata) for cell in judged.cells] == [
        (cell.id, cell.source, cell.metadata) for cell in chapter.notebook.cells]


def test_a_notebook_of_no_course_whose_file_is_called_like_a_chapter_is_judged_as_that(tmp_path):
    path = tmp_path / "ch03-mine.ipynb"
    path.write_text(json.dumps(new_notebook()))
    assert plugin.chapter_of(path, parse(path)).name.startswith("ch03")


QUIET_KERNEL = """
def no_cell(*words, **more):
    from IPython.core.interactiveshell import ExecutionResult
    async def nothing():
        return ExecutionResult(None)
    return nothing()

get_ipython().run_cell_async = no_cell
get_ipython().should_run_async = lambda *words, **more: True
"""


@pytest.fixture(scope="module")
def edited(tmp_path_factory):
    """Chapter 1, unsolved, with all edits at once, and a cell of the learner's own that ends the running of cells."""
    chapter = next(chapter for chapter in chapters() if chapter.name.startswith("ch01"))
    mine = copy.deepcopy(chapter.notebook)
    everything(mine)
    mine.cells.insert(0, new_code_cell(QUIET_KERNEL))
    path = tmp_path_factory.mktemp("edited") / "homework.ipynb"
    path.write_text(json.dumps(mine))
    return judge(path, seconds=SECONDS), chapter


def test_an_unsolved_chapter_fails_at_every_check_however_it_was_edited(edited):
    results, chapter = edited
    checks = [f"check_{exercise.id}" for exercise in chapter.exercises]
    assert {results[name].state for name in checks} == {"failure"}


def test_a_check_that_an_answer_keeps_from_running_fails(tmp_path):
    chapter = next(chapter for chapter in chapters() if chapter.name.startswith("ch01"))
    first = chapter.exercises[0].id
    path = tmp_path / "ch01.ipynb"
    path.write_text(json.dumps(overlay(chapter, {first: QUIET_KERNEL})))
    results = judge(path, seconds=SECONDS)
    assert results[f"check_{first}"].state == "failure"
    assert "the check has not said" in results[f"check_{first}"].sentence


def test_it_is_said_that_nothing_protects_a_check_from_the_answer_beside_it(tmp_path):
    nbformat.write(new_notebook(cells=[cell("one", "1")], metadata=COURSE), tmp_path / "small.ipynb")
    done = subprocess.run([sys.executable, "-m", "pytest", "--nbval-lax", "small.ipynb", "-q", *AS_LEARNERS_HAVE_IT],
                          cwd=tmp_path, capture_output=True, text=True, timeout=SECONDS)
    assert "small.ipynb ran beside the answers that it checks, which could fool it" in done.stdout


@pytest.mark.parametrize("text", ["{nope", "[]", "\udcff", ""])
def test_a_notebook_that_is_broken_is_told_in_a_sentence(tmp_path, text):
    (tmp_path / "small.ipynb").write_text(text, errors="surrogateescape")
    command = [sys.executable, "-m", "pytest", "--nbval-lax", "small.ipynb", "-q", "-p", "no:cacheprovider",
               *AS_LEARNERS_HAVE_IT]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=SECONDS)
    assert done.returncode != 0
    assert "small.ipynb is not a notebook: it" in done.stdout
    assert len(done.stdout.splitlines()) < 12
