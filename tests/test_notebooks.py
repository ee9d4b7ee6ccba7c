"""Every chapter in notebooks/: its shape (unsolved and solved), its exercises, and what nbval says of it."""

from __future__ import annotations

import ast
import importlib
import math
import re
import shutil
import statistics
from pathlib import Path

import nbformat
import pytest
from caught_up import LONG, half_borrowed, learners_folder
from judged import judge
from unsolved import fails

from exercises_tests.tools.chapters import ROOT, Chapter, chapters, solutions, solved, tagged, tags

CHAPTERS = chapters()
RUN_SECONDS = 900
QUIET = Path(__file__).with_name("quiet.py")
every_chapter = pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda chapter: chapter.name)


@pytest.fixture(params=["unsolved", "solved"])
def notebook(request, chapter):
    """The chapter as it is published, and with its answers."""
    return chapter.notebook if request.param == "unsolved" else solved(chapter)


def code_cells(notebook) -> list:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def lines(source: str) -> int:
    """Return the number of lines that hold something."""
    return sum(bool(line.strip()) for line in source.splitlines())


def prose(cell) -> str:
    """Return a text cell without blocks of code."""
    return re.sub(r"^```.*?^```", "", cell.source, flags=re.MULTILINE | re.DOTALL)


def words(text: str) -> int:
    return len(re.sub(r"<[^>]*>|[#*|>`·-]", " ", text).split())


def section(notebook, title: str) -> str:
    """Return the text below the last heading that holds the words of `title`, up to the next heading."""
    texts = "\n\n".join(prose(cell) for cell in notebook.cells if cell.cell_type == "markdown")
    parts = re.split(r"^#+ +(.*)$", texts, flags=re.MULTILINE)
    found = [body for heading, body in zip(parts[1::2], parts[2::2], strict=True) if title in heading.lower()]
    assert found, f"no heading with the words {title!r}"
    return found[-1]


def bullets(text: str) -> int:
    return len(re.findall(r"^(?:[-*]|\d+\.) ", text, flags=re.MULTILINE))


# Shape: unsolved and solved -------------------------------------------------------------------------------------------

@every_chapter
def test_a_chapter_has_35_to_90_cells(chapter):
    assert 35 <= len(chapter.notebook.cells) <= 90


@every_chapter
def test_half_of_the_code_cells_have_at_most_5_lines(notebook):
    assert statistics.median(lines(cell.source) for cell in code_cells(notebook)) <= 5


@every_chapter
def test_nine_of_ten_code_cells_have_at_most_15_lines(notebook):
    lengths = sorted(lines(cell.source) for cell in code_cells(notebook))
    assert lengths[math.ceil(0.9 * len(lengths)) - 1] <= 15


@every_chapter
def test_no_code_cell_has_more_than_25_lines(notebook):
    assert {cell.id: lines(cell.source) for cell in code_cells(notebook) if lines(cell.source) > 25} == {}


@every_chapter
def test_a_text_cell_has_at_most_300_words_in_sight_and_in_each_fold(chapter):
    counts = {}
    for cell in chapter.notebook.cells:
        if cell.cell_type == "markdown":
            in_sight, *folds = re.split(r"<details>", prose(cell))
            in_sight += "".join(fold.partition("</details>")[2] for fold in folds)
            counts[cell.id] = max(map(words, [in_sight, *(fold.partition("</details>")[0] for fold in folds)]))
    assert {name: count for name, count in counts.items() if count > 300} == {}


@every_chapter
def test_a_chapter_names_only_chapters_that_exist(chapter):
    text = " ".join(prose(cell) for cell in chapter.notebook.cells if cell.cell_type == "markdown")
    named = re.findall(r"[Cc]hapter \d+|[Cc]hapters \d+(?:(?:, | and | or | to )\d+)*", text)
    there = {int(other.name[2:4]) for other in CHAPTERS}
    assert {int(number) for number in re.findall(r"\d+", " ".join(named))} <= there


@every_chapter
def test_a_chapter_has_at_most_7000_words_of_which_some_are_folded(chapter):
    assert sum(words(prose(cell)) for cell in chapter.notebook.cells if cell.cell_type == "markdown") <= 7000


@every_chapter
def test_at_most_three_code_cells_stand_in_a_row(chapter):
    kinds = "".join("c" if cell.cell_type == "code" else "t" for cell in chapter.notebook.cells)
    assert "cccc" not in kinds


@every_chapter
def test_a_chapter_opens_with_its_question_and_then_two_lines_that_draw_its_picture(chapter):
    question, picture = chapter.notebook.cells[:2]
    assert question.cell_type == "markdown" and re.search(r"\*\*[^*]+\?\*\*", question.source)
    assert picture.cell_type == "code" and lines(picture.source) <= 3
    assert "from course_lib.plots import" in picture.source


@every_chapter
def test_a_chapter_ends_with_the_learners_progress(chapter):
    assert chapter.notebook.cells[-1].source == "progress()"


@every_chapter
def test_links_lead_to_other_chapters_or_to_the_web(chapter):
    texts = " ".join(cell.source for cell in chapter.notebook.cells if cell.cell_type == "markdown")
    links = re.findall(r"\]\(([^)\s]+)\)", texts)
    names = {f"{other.name}.ipynb" for other in CHAPTERS}
    assert [link for link in links if not link.startswith(("https://", "#")) and link not in names] == []


@every_chapter
def test_a_chapter_has_one_first_level_heading(chapter):
    texts = [prose(cell) for cell in chapter.notebook.cells if cell.cell_type == "markdown"]
    assert sum(len(re.findall(r"^# ", text, flags=re.MULTILINE)) for text in texts) == 1


@every_chapter
def test_a_chapter_installs_and_downloads_nothing_and_sets_no_address(notebook):
    unwanted = re.compile(r"^\s*!|^\s*%(?:run|pip|conda)\b|\burlopen\b|\burlretrieve\b|\brequests\.|MASTER_ADDR", re.M)
    assert [cell.id for cell in code_cells(notebook) if unwanted.search(cell.source)] == []


@every_chapter
def test_a_chapter_ends_with_lessons_paper_problems_and_reading(chapter):
    assert 1 <= bullets(section(chapter.notebook, "learned")) <= 5
    assert 3 <= section(chapter.notebook, "paper").count("<details>") <= 5
    assert 1 <= bullets(section(chapter.notebook, "further reading")) <= 5


# The file -------------------------------------------------------------------------------------------------------------

@every_chapter
def test_a_chapter_is_a_valid_notebook_of_format_4_5(notebook):
    nbformat.validate(notebook)
    assert (notebook.nbformat, notebook.nbformat_minor) == (4, 5)


@every_chapter
def test_a_chapter_is_committed_without_outputs(chapter):
    assert [cell.id for cell in code_cells(chapter.notebook) if cell.outputs or cell.execution_count is not None] == []


@every_chapter
def test_the_metadata_name_the_chapter_its_title_and_version(chapter):
    course = chapter.notebook.metadata.course
    assert course.chapter == chapter.path.stem
    assert course.title and isinstance(course.version, int)
    assert set(course) - {"needs"} == {"chapter", "title", "version", "builds"}
    assert isinstance(course.builds, str) and all(isinstance(one, int) for one in course.get("needs", []))
    assert chapter.notebook.metadata.kernelspec.name == "python3"


@every_chapter
def test_cell_ids_are_unique_names(chapter):
    names = [cell.get("id", "") for cell in chapter.notebook.cells]
    assert len(names) == len(set(names))
    random = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){0,3}(-[0-9a-f]{12})?")
    assert [name for name in names if not re.match(r"[A-Za-z]", name) or random.fullmatch(name)] == []


@every_chapter
def test_a_chapter_has_a_cell_of_imports(chapter):
    assert tagged(chapter.notebook, "imports")


# Exercises ------------------------------------------------------------------------------------------------------------

@every_chapter
def test_an_exercise_cell_is_one_stub_named_as_its_id(chapter):
    for cell in tagged(chapter.notebook, "exercise"):
        (stub,) = ast.parse(cell.source).body
        assert (stub.name, bool(ast.get_docstring(stub))) == (cell.id, True)
        assert cell.source.rstrip().endswith("raise NotImplementedError"), cell.id


@every_chapter
def test_an_exercise_is_a_text_a_stub_its_check_and_folded_hints(chapter):
    cells = chapter.notebook.cells
    for place, cell in enumerate(cells):
        if "exercise" in tags(cell):
            text, check, hints = cells[place - 1], cells[place + 1], cells[place + 2]
            assert text.cell_type == "markdown", f"{cell.id} has no text before it"
            assert check.id == f"check_{cell.id}"
            assert hints.cell_type == "markdown" and 3 <= hints.source.count("<details>") <= 4, f"hints of {cell.id}"
            assert f'{cell.id} = borrow("{cell.id}")' in hints.source


@every_chapter
def test_the_text_of_an_exercise_names_its_points_minutes_and_level(chapter):
    texts = {after.get("id"): cell.source for cell, after in zip(chapter.notebook.cells, chapter.notebook.cells[1:],
                                                                 strict=False)}
    for exercise in chapter.exercises:
        for fact in (f"{exercise.points} point", f"{exercise.minutes} min", exercise.level):
            assert fact in texts[exercise.id], f"{exercise.id}: its text does not say {fact!r}"


@every_chapter
def test_a_check_cell_calls_the_check_of_its_exercise_and_nothing_else(chapter):
    checks = tagged(chapter.notebook, "check")
    assert {cell.id for cell in checks} == {f"check_{exercise.id}" for exercise in chapter.exercises}
    for cell in checks:
        assert cell.source == f"{cell.id}({cell.id.removeprefix('check_')})"
        assert set(tags(cell)) == {"check", "raises-exception"}


@every_chapter
def test_points_minutes_and_levels_make_sense(chapter):
    for exercise in chapter.exercises:
        assert exercise.points > 0 and exercise.minutes > 0, exercise
        assert exercise.level in ("core", "extra"), exercise


@every_chapter
def test_core_exercises_are_at_most_five_and_75_minutes(chapter):
    core = [exercise.minutes for exercise in chapter.exercises if exercise.level == "core"]
    assert 1 <= len(core) <= 5
    assert sum(core) <= 75


@every_chapter
def test_a_cell_that_uses_an_exercise_says_that_it_needs_it(chapter):
    exercises, known = {exercise.id for exercise in chapter.exercises}, set()
    for cell in code_cells(chapter.notebook):
        if "exercise" in tags(cell):
            known.add(cell.id)
        elif "check" not in tags(cell):
            needs = {tag.removeprefix("needs-") for tag in tags(cell) if tag.startswith("needs-")}
            used = {node.id for node in ast.walk(ast.parse(cell.source)) if isinstance(node, ast.Name)} & exercises
            assert used <= needs <= known, cell.id
            assert not needs or "raises-exception" in tags(cell), cell.id


@every_chapter
def test_with_one_exercise_unsolved_a_cell_that_fails_says_so_by_its_tags_and_misses_no_name(chapter):
    cells = code_cells(solved(chapter))
    assert list(fails(cells, exercise="")) == []
    for exercise in chapter.exercises:
        found = list(fails(cells, exercise.id))
        assert f"check_{exercise.id}" in [cell.id for cell, _ in found]
        for cell, missing in found:
            assert missing == [], f"{cell.id}, with {exercise.id} alone unsolved"
            assert any(tag == "check" or tag.startswith("needs-") for tag in tags(cell)), f"{cell.id}: {exercise.id}"


@every_chapter
def test_a_chapter_asks_for_at_least_three_predictions(chapter):
    guesses = tagged(chapter.notebook, "prediction")
    assert len(guesses) >= 3
    for cell in guesses:
        assert cell.id.startswith("guess_")
        assert re.fullmatch(rf"{cell.id} = None  # .+", cell.source), cell.id


def shows(statement: ast.stmt) -> bool:
    """Whether a statement prints or draws; what it says of a failure tells no answer."""
    if isinstance(statement, (ast.FunctionDef, ast.ExceptHandler)):
        return False
    call = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(call, ast.Call) and ast.unparse(call.func).startswith(("print", "plots.")) or any(
        shows(inner) for inner in ast.iter_child_nodes(statement)
    )


@every_chapter
def test_a_cell_shows_nothing_before_it_compares_a_guess(chapter):
    """A guess that cannot be read ends its cell there, and holds the answer back."""
    for cell in code_cells(chapter.notebook):
        body = [] if "compare(" not in cell.source else ast.parse(cell.source).body
        asks = [ast.unparse(one).startswith("compare(") for one in body]
        assert not any(map(shows, body[: asks.index(True)] if any(asks) else [])), cell.id


@every_chapter
def test_a_solution_has_at_most_25_lines(chapter):
    assert {name: lines(source) for name, source in solutions(chapter).items() if lines(source) > 25} == {}


@every_chapter
def test_the_three_folders_share_the_name_of_the_chapter(chapter):
    assert (ROOT / "exercises_tests" / f"{chapter.name}.py").exists()
    assert (ROOT / "solutions" / f"{chapter.name}.py").exists()


# Runs -----------------------------------------------------------------------------------------------------------------

@every_chapter
def test_the_solved_chapter_passes_under_nbval_without_a_warning(chapter: Chapter, tmp_path, monkeypatch):
    """In a folder work/, as learners have it. In chapters that train for long every other answer is borrowed."""
    monkeypatch.delenv("PYTHONPATH", raising=False)
    work = learners_folder(tmp_path) / "work"
    notebook = half_borrowed(chapter) if chapter.name.startswith(LONG) else solved(chapter)
    path = work / f"{chapter.name}.ipynb"
    nbformat.write(notebook, path)
    shutil.copy(QUIET, work / "conftest.py")
    results = judge(path, seconds=RUN_SECONDS)
    assert {name: result.sentence for name, result in results.items() if result.state != "passed"} == {}
    assert len(results) == len(code_cells(chapter.notebook))


def test_a_warning_in_a_solved_chapter_is_found(tmp_path):
    sources = {"fine": "print('Warnings are rare')", "stderr": "import sys; print('oh', file=sys.stderr)",
               "warned": "import warnings; warnings.warn('old')", "printed": "print('rank 1 | UserWarning: old')"}
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text, id=name)
                                               for name, text in sources.items()])
    notebook.metadata["course"] = {"chapter": "ch99_small"}
    nbformat.write(notebook, tmp_path / "small.ipynb")
    shutil.copy(QUIET, tmp_path / "conftest.py")
    found = judge(tmp_path / "small.ipynb")
    assert {name: result.properties.get("error") for name, result in found.items()} == {
        "fine": None, "stderr": "Warned", "warned": "Warned", "printed": "Warned"}


@every_chapter
def test_every_check_tells_a_stub_that_it_is_not_written(chapter: Chapter):
    """With the proof above, that is all that running the unsolved chapter could show: no other cell needs an answer."""
    namespace: dict = {"__name__": "__main__"}
    for cell in tagged(chapter.notebook, "imports") + tagged(chapter.notebook, "exercise"):
        exec(compile(cell.source, f"<{cell.id}>", "exec"), namespace)
    checks = importlib.import_module(f"exercises_tests.{chapter.name}")
    found = {one.id: getattr(checks, f"check_{one.id}").outcome(namespace[one.id]) for one in chapter.exercises}
    assert {name: outcome.code for name, outcome in found.items()} == dict.fromkeys(found, "not-written")
    assert all(outcome.sentence.endswith(" yet") for outcome in found.values())
    assert sum(outcome.earned for outcome in found.values()) == 0


def test_in_an_unsolved_chapter_every_check_fails_and_else_only_cells_that_need_an_answer(tmp_path):
    chapter = CHAPTERS[0]
    path = tmp_path / f"{chapter.name}.ipynb"
    nbformat.write(chapter.notebook, path)
    results = judge(path, seconds=RUN_SECONDS)
    checks = {cell.id for cell in tagged(chapter.notebook, "check")}
    assert {name: results[name].properties.get("error") for name in checks} == dict.fromkeys(checks, "CheckFailed")
    may_fail = {cell.id for cell in code_cells(chapter.notebook) if any(t.startswith("needs-") for t in tags(cell))}
    others = {name: result.sentence for name, result in results.items() if name not in checks | may_fail}
    assert {name: others[name] for name in others if results[name].state != "passed"} == {}
