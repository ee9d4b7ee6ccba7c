"""The start page: a card for each chapter from what the notebooks say, what has passed, and what comes next."""

from __future__ import annotations

import json
import re

import nbformat
import pytest
from nbformat.v4 import new_markdown_cell
from small_course import NAME, cells, code, make_course, save

from course_lib.notebook import progress, remember
from exercises_tests import judging
from exercises_tests.__main__ import main
from exercises_tests.tools import start_page
from exercises_tests.tools.chapters import chapters
from exercises_tests.tools.course_map import builds, minutes, needs, number, question, reading
from exercises_tests.tools.start_page import page, write_start

LATER = "ch99_later"


@pytest.fixture
def course(tmp_path):
    """A course of two chapters; the second one says in its metadata what it builds and needs."""
    course = make_course(tmp_path)
    path = save(course / "notebooks" / f"{LATER}.ipynb", [
        new_markdown_cell("# Later\n\nA **bold word** stands before it.\n\n**Why `x` & *not* <y>?**", id="title"),
        code("mean", "def mean():\n    raise NotImplementedError", "exercise"),
        code("check_mean", "check_mean(mean)", "check", points=1, minutes=15, level="core"),
    ], name=LATER)
    notebook = nbformat.read(path, as_version=4)
    notebook.metadata["course"] |= {"builds": "a mean of **your** own", "needs": [98], "title": "Later & <later>"}
    nbformat.write(notebook, path)
    assert main(["lab", "--copy-only"], course) == 0
    return course


def found(course, **states: str) -> None:
    known = {name: {"state": state, "earned": 1, "points": 1} for name, state in states.items()}
    (course / "work" / ".progress.json").write_text(json.dumps({NAME: known}))


def start(course) -> str:
    write_start(course)
    return (course / "work" / "start.md").read_text()


def ahead(course) -> dict:
    return json.loads((course / "work" / ".next.json").read_text())


def test_every_chapter_has_a_card_with_a_link_its_question_and_what_it_builds(course):
    text = start(course)
    assert text.count('<a href="ch98_sums.ipynb"') == 2  # the button that leads on, and its card
    assert text.count('<a href="ch99_later.ipynb"') == 1
    assert "99 · Later &amp; &lt;later&gt;" in text and "Why <code>x</code> &amp; <em>not</em> &lt;y&gt;?" in text
    assert "You build: <code>total</code>" in text and "a mean of" in text
    assert "5 min of reading, 15&nbsp;of&nbsp;exercises<br>needs chapter&nbsp;98" in text


def test_what_has_passed_and_what_is_next(course):
    assert "Begin with chapter 98" in start(course)
    found(course, total="passed")
    text = start(course)
    assert "Continue with chapter 99" in text
    assert "<strong>1 of 2 core exercises</strong> and 0 of 1 extra." in text
    assert "1 of 1 core, 0 of 1 extra passed" in text and '✓ <a href="ch98_sums.ipynb">' in text
    told = {"passed": 1, "of": 2, "next": "99 · Later & <later>", "path": "ch99_later.ipynb"}
    assert told.items() <= ahead(course).items()


def test_at_the_beginning_it_says_what_there_is_and_not_that_nothing_has_passed(course):
    text = start(course)
    assert "2 chapters, about 0 hours of reading, and <strong>2 core exercises</strong>, about" in text
    assert "You have passed" not in text


def test_on_a_second_visit_the_button_comes_first_and_a_sentence_names_the_exercise_that_is_next(course):
    assert "You know some PyTorch" in start(course) and "It asks" not in start(course)
    found(course, total="tried")
    text = start(course)
    assert "You know some PyTorch" not in text and text.index("<p><a href") < text.index("How it works")
    assert "Next in it is the exercise <code>total</code>, about 20 minutes (estimated)." in text
    found(course, total="passed")
    assert "It asks: Why <code>x</code> &amp; <em>not</em> &lt;y&gt;?" in start(course)


def test_what_is_borrowed_leads_on_and_counts_as_borrowed(course):
    found(course, total="borrowed")
    text = start(course)
    assert "Continue with chapter 99" in text and "0 of 1 core, 0 of 1 extra passed, 1 borrowed" in text


def test_a_chapter_with_a_borrowed_answer_has_a_mark_of_its_own(course):
    found(course, total="borrowed")
    text = start(course)
    assert '◐ <a href="ch98_sums.ipynb">' in text and start_page.BORROWED in text and "✓ <a" not in text


def test_the_chapter_that_was_begun_is_the_one_to_go_on_with(course):
    def left(state: str) -> str:
        (course / "work" / ".progress.json").write_text(json.dumps({LATER: {"mean": {"state": state}}}))
        return start(course)

    assert "Continue with chapter 99" in left("tried")
    assert "Continue with chapter 98" in left("unwritten")  # Run All in a chapter is not yet work on it
    assert "Continue with chapter 98" in left("passed")


def test_the_chapter_to_go_on_with_is_the_one_begun_last_or_the_next_that_is_not_done():
    known = chapters()[:4]
    core = [one.id for one in known[0].exercises if one.level == "core"]
    whole = {known[0].name: {name: {"state": "passed"} for name in core}}
    begun = {known[2].name: {known[2].exercises[0].id: {"state": "tried"}}}
    assert start_page.next_of(known, {}) is known[0]
    assert start_page.next_of(known, {known[0].name: {core[0]: {"state": "passed"}}}) is known[0]
    assert start_page.next_of(known, whole | begun) is known[2] and start_page.next_of(known, whole) is known[1]
    assert start_page.next_of(known, begun | whole) is known[2]  # begun before the first was done
    third = {known[2].name: {one.id: {"state": "passed"} for one in known[2].exercises}}
    assert start_page.next_of(known, third) is known[3]  # not back to the first


def test_a_chapter_begun_and_not_done_is_marked_and_named_beside_the_one_worked_on_last(course):
    save(course / "notebooks" / f"{NAME}.ipynb", [*cells(), code("more", "def more():\n    ...", "exercise"), code(
        "check_more", "check_more(more)", "check", points=1, minutes=5, level="core")])
    (course / "work" / ".progress.json").write_text(json.dumps({
        NAME: {"total": {"state": "passed"}}, LATER: {"mean": {"state": "tried"}}}))
    text = start(course)
    assert re.search(r'◔ <a href="ch98_sums.ipynb">.*</a></div>', text) and text.count("1 of 2 core") == 1
    assert "Continue with chapter 99" in text
    assert re.search(r"You worked on chapter 99 last. Also begun: <a [^>]*>98: .*</a> \(1&nbsp;of&nbsp;2\)\.", text)


def test_the_chapter_worked_on_last_stands_last_in_what_was_found(course, monkeypatch):
    monkeypatch.delenv("COURSE_PROGRESS", raising=False)
    monkeypatch.chdir(course / "work")
    for chapter, state in ((NAME, "tried"), (LATER, "tried"), (NAME, "passed")):
        remember(chapter, "total", state, 0, 1)
    assert list(json.loads((course / "work" / ".progress.json").read_text())) == [LATER, NAME]


def test_when_all_is_done_nothing_is_next(course):
    (course / "work" / ".progress.json").write_text(json.dumps({
        NAME: {"total": {"state": "passed"}, "Counter": {"state": "passed"}}, LATER: {"mean": {"state": "passed"}}}))
    text = start(course)
    assert "Every core exercise is done." in text and "1 of 1 core, 1 of 1 extra passed" in text
    assert ahead(course)["next"] == ""


@pytest.mark.parametrize("text", ["{", "[]", '{"ch98_sums": 3}', '{"ch98_sums": {"total": null}}'])
def test_a_damaged_record_of_progress_counts_as_none(course, text):
    (course / "work" / ".progress.json").write_text(text)
    assert "<strong>2 core exercises</strong>" in start(course) and "You have passed" not in start(course)


def test_an_edited_page_is_left_alone_and_said(course, capsys):
    path = course / "work" / "start.md"
    path.write_text(path.read_text() + "\nmy own notes\n")
    assert main(["lab", "--copy-only"], course) == 0
    assert path.read_text().endswith("my own notes\n")
    assert "work/start.md was edited and is left alone" in capsys.readouterr().out


def test_a_copy_under_another_name_is_what_the_card_leads_to(course):
    (course / "work" / f"{NAME}.ipynb").rename(course / "work" / "my sums.ipynb")
    assert '<a href="my%20sums.ipynb"' in start(course)


def test_a_check_that_finds_something_new_writes_the_page_anew(course, monkeypatch):
    monkeypatch.delenv("COURSE_PROGRESS", raising=False)
    monkeypatch.setattr(start_page, "ROOT", course)
    monkeypatch.chdir(course / "work")
    def check_total(answer, part):
        part("value")
        return "right"

    check_total.__module__ = NAME
    check = judging.check(value=5)(check_total)
    check(lambda: 3)
    assert "You have passed <strong>1 of 2 core exercises</strong>" in (course / "work" / "start.md").read_text()
    monkeypatch.setattr(start_page, "draw", lambda *_: pytest.fail("written again without news"))
    check(lambda: 3)


def test_outside_of_work_no_page_is_written(course, monkeypatch, tmp_path):
    monkeypatch.setattr(start_page, "ROOT", course)
    monkeypatch.chdir(tmp_path)
    start_page.renew()
    assert not (tmp_path / "start.md").exists()


def test_progress_ends_with_what_comes_next(course, monkeypatch, capsys):
    monkeypatch.chdir(course / "work")
    found(course, total="passed")
    write_start(course)
    progress()
    said = capsys.readouterr().out
    assert said.endswith("1 of 2 core exercises of the course passed. "
                         "Continue with: 99 · Later & <later> (ch99_later.ipynb)\n")


def test_progress_names_the_exercise_that_is_open_in_a_chapter_that_was_begun(course, monkeypatch, capsys):
    monkeypatch.chdir(course / "work")
    found(course, total="tried")
    write_start(course)
    progress()
    assert capsys.readouterr().out.endswith("Continue with: total in chapter 98 (ch98_sums.ipynb)\n")


def test_progress_counts_the_exercises_that_were_never_tried(course, monkeypatch, capsys):
    monkeypatch.chdir(course / "work")
    found(course, total="passed")
    write_start(course)
    progress()
    said = capsys.readouterr().out
    assert "1 of 1 core exercise passed, 0 of 1 extra" in said and said.count("not tried yet") == 1


def test_jupyterlab_keeps_every_style_and_no_blank_line_ends_the_cards(course):
    """Its sanitizer knows colours as rgb() and rgba(), and takes style sheets, scripts and drawings out."""
    text = page(chapters(course), {NAME: "a", LATER: "b"}, {})
    assert not re.search(r"<(style|script|svg|button)|#[0-9a-f]{3}|var\(", text)
    grid = text.index('<div style="display: grid')
    html = text[grid:text.index('\n\n<div style="max-width', grid)]
    assert "\n\n" not in html
    assert html.count("<div") == html.count("</div>")


def test_the_real_chapters_say_what_the_map_needs():
    for chapter in chapters():
        asked = question(chapter)
        assert asked.endswith("?") and "**" not in asked and builds(chapter) and minutes(chapter) > 0, chapter.name
        assert all(place < number(chapter) for place in needs(chapter)), chapter.name


@pytest.mark.parametrize(("said", "read"), [
    ("Plan about 30 minutes for reading and 40 for the exercises.", 30),
    ("The chapter takes about 25 minutes to read.", 25),
    ("Reading to *What we learned* takes about 35 minutes, the core exercises 50.", 35),
    ("word " * 760, 10),
])
def test_the_minutes_of_reading_are_those_that_a_chapter_names_or_its_words(course, said, read):
    save(course / "notebooks" / f"{NAME}.ipynb", [new_markdown_cell(f"# Sums\n\n{said}", id="title"), *cells()[1:]])
    assert reading(chapters(course)[0]) == read


def test_needs_are_read_from_the_first_text_where_the_metadata_do_not_say(course):
    save(course / "notebooks" / f"{NAME}.ipynb", [
        new_markdown_cell("# Sums\n\nYou need the ring of [chapter 3](x.ipynb), chapters 4 and 5. Chapter 7 goes on.",
                          id="title"), *cells()[1:]])
    assert [needs(chapter) for chapter in chapters(course)] == [[3, 4, 5], [98]]
