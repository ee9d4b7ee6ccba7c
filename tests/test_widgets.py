"""Pictures under controls: which frames there are, that they can be told apart and compared, and their forms."""

from __future__ import annotations

import ast
import builtins
import io
import json
import math
import re
import threading
from types import SimpleNamespace

import matplotlib
import pytest

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from PIL import Image

from course_lib.plots import slider_widget, sliders
from course_lib.plots.slider_frames import panel_of, values_of
from exercises_tests.tools.chapters import chapters

WIDGET = "application/vnd.jupyter.widget-view+json"


@pytest.fixture
def shown(monkeypatch) -> list:
    """Pretend to be in a notebook; return what is displayed."""
    displayed: list = []
    monkeypatch.delenv("COURSE_FRAMES", raising=False)
    monkeypatch.setattr(sliders, "_display", lambda: lambda data, raw: displayed.append(data))
    return displayed


def picture(step: int = 0, scale: str = "small"):
    ax = plt.subplots(layout="constrained")[1]
    ax.plot([0, 1 + step], [0, 10])
    ax.set_title(f"{step} {scale}")
    return ax


def panel(picture=picture, at=None, fixed=None, **ranges):
    return panel_of(picture, at, fixed, ranges)


# Ranges


@pytest.mark.parametrize(
    ("given", "values"),
    [
        ((0, 3), [0, 1, 2, 3]),
        ((2, 10, 4), [2, 6, 10]),
        ((0.0, 1.0, 0.25), [0.0, 0.25, 0.5, 0.75, 1.0]),
        (["a", "b"], ["a", "b"]),
        (range(3), [0, 1, 2]),
        ((5, 5), [5]),
    ],
)
def test_a_range_is_two_or_three_numbers_or_a_list(given, values):
    assert values_of("step", given) == pytest.approx(values) if given != ["a", "b"] else values


def test_a_range_of_floats_without_a_step_has_21_values():
    values = values_of("share", (0.0, 1.0))
    assert (len(values), values[0], values[-1]) == (21, 0.0, pytest.approx(1.0))


@pytest.mark.parametrize("given", [(3, 1), (0, 1, 0), (0, 1, -1), [], (1,), 7, "ab", (0, float("inf"))])
def test_what_is_no_range_is_refused_with_its_name(given):
    with pytest.raises(ValueError, match="^step="):
        values_of("step", given)


def test_a_start_that_is_not_in_its_range_is_refused():
    with pytest.raises(ValueError, match="step cannot start at 9: it runs through 0, 1, 2"):
        panel(at={"step": 9}, step=(0, 2))


def test_a_start_or_a_fixed_name_without_a_range_is_refused():
    with pytest.raises(ValueError, match="scale has no range"):
        panel(at={"scale": "small"}, step=(0, 2))
    with pytest.raises(ValueError, match="scale has no range"):
        panel(fixed=["scale"], step=(0, 2))


# Controls


@pytest.mark.parametrize(
    ("name", "given", "kind"),
    [
        ("step", (0, 6), "steps"),
        ("half_step", (0, 6), "steps"),
        ("stages", (1, 8), "slider"),
        ("order", ["1F1B", "GPipe"], "buttons"),
        ("ranks", [2, 4], "buttons"),
        ("recompute", ["none", "selective", "full"], "buttons"),
        ("gpu", list("abcdef"), "choice"),
    ],
)
def test_a_control_looks_as_its_values_ask(name, given, kind):
    assert panel(lambda **_: None, **{name: given}).controls[0].kind == kind


def test_underscores_of_a_name_are_shown_as_spaces_and_numbers_with_commas():
    (control,) = panel(lambda batch_size: None, batch_size=[1, 2048]).controls
    assert (control.label, control.texts) == ("batch size", ["1", "2,048"])


# Frames


def test_a_frame_has_its_words_and_what_was_printed():
    found = panel(lambda step: print(f"this is {step}") or picture(step), step=(0, 6)).frame((2,))
    assert (found.words.partition(";")[0], found.said, found.failed) == ("2 small", "this is 2", "")


def test_few_frames_are_equally_large_and_have_the_same_axes():
    some = panel(step=(0, 6))
    frames = [some.frame(key) for key in some.settings()]
    assert len({Image.open(io.BytesIO(frame.image)).size for frame in frames}) == 1
    figures = [some._figure(key)[0] for key in some.settings()]
    assert len({figure.axes[0].get_xlim() for figure in figures}) == 1
    assert figures[0].axes[0].get_xlim()[1] > 7  # the widest of all


def test_of_many_frames_only_those_in_fixed_have_the_same_axes():
    some = panel(step=(0, 20), scale=["small", "large"], fixed=["scale"])
    limits = {key: some._figure(key)[0].axes[0].get_xlim() for key in [(0, 0), (0, 1), (9, 0)]}
    assert limits[0, 0] == limits[0, 1] != limits[9, 0]


def test_axes_that_run_downwards_still_do():
    def downwards(step):
        ax = picture(step)
        ax.set_ylim(10 + step, 0)
        return ax

    some = panel(downwards, step=(0, 3))
    assert some._figure((1,))[0].axes[0].get_ylim() == (13, 0)


def test_a_frame_keeps_the_colours_of_the_picture():
    def coloured(step):
        ax = picture(step)
        ax.axhspan(0, 10, color="#A9CBE8")
        return ax

    image = Image.open(io.BytesIO(panel(coloured, step=(0, 1)).frame((0,)).image)).convert("RGB")
    found = {colour for _, colour in image.getcolors(2**20)}
    assert {(255, 255, 255), (0xA9, 0xCB, 0xE8)} <= found


def test_an_error_is_told_with_its_values_message_and_line_and_other_frames_are_drawn():
    def fragile(step):
        if step == 1:
            raise ValueError("no picture of 1")
        return picture(step)

    some = panel(fragile, step=(0, 6))
    failed = some.frame((1,))
    assert failed.failed.startswith("with step = 1: ValueError: no picture of 1\n    line ")
    assert "in fragile" in failed.failed and not failed.image
    assert some.frame((2,)).image


def test_a_text_or_number_may_stand_for_a_picture():
    assert panel(lambda step: step * 2, step=(3, 6)).frame((0,)).said == "6"


def test_no_figure_stays_open_so_that_none_is_shown_twice(shown):
    mine = plt.figure()
    sliders.explore(picture, step=(0, 6))
    assert plt.get_fignums() == [mine.number]


# Fewer frames, for a page


def test_a_thinned_panel_keeps_both_ends_and_the_start():
    some = panel(lambda step, scale: None, at={"step": 7}, step=(0, 100), scale=["small", "large"]).thinned(20)
    step, scale = (control.values for control in some.controls)
    assert some.count() <= 20 and scale == ["small", "large"]
    assert {0, 7, 100} <= set(step) and len(step) == 10
    assert some.values(some.start) == {"step": 7, "scale": "large"} or some.values(some.start)["scale"] == "small"


def test_what_does_not_fit_is_fixed_where_it_starts():
    ranges = {"model": list("abcde"), "stages": (1, 8), "gpu": list("abcdefgh"), "batch": [1, 2]}
    some = panel(lambda **_: None, at={"gpu": "c"}, **ranges).thinned(30)
    assert [control.name for control in some.controls] == ["model", "stages"]
    assert some.count() <= 30 and some.fixed == {"gpu": "c", "batch": 1}
    assert some.values(some.start) == {"model": "c", "stages": 4, "gpu": "c", "batch": 1}


# Forms


def test_outside_a_notebook_the_picture_at_the_middle_is_returned():
    assert sliders.explore(picture, step=(0, 6), scale=["small", "large"]).get_title() == "3 small"


def test_a_control_starts_where_it_is_told_and_the_others_in_the_middle():
    assert sliders.explore(picture, {"step": 0}, step=(0, 6), scale=["small", "large"]).get_title() == "0 small"


def test_without_anywidget_the_picture_at_the_middle_is_shown(shown, monkeypatch):
    real = builtins.__import__

    def without(name, *args, **kwargs):
        if name == "anywidget":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    assert sliders.explore(picture, step=(0, 6)) is None
    assert sorted(shown[0]) == ["image/png", "text/html", "text/plain"]
    assert shown[0]["text/plain"] == "step = 3"


def test_a_still_picture_with_what_it_printed_is_an_output_before_the_widget(shown):
    pytest.importorskip("anywidget")
    assert sliders.explore(lambda step: print(f"this is {step} <") or picture(step), step=(0, 6)) is None
    still, live = shown
    assert still["text/plain"] == "step = 3\nthis is 3 <"
    told, said = still["text/html"], f'<p class="course-still">{slider_widget.ASLEEP}</p>'
    assert told.startswith(f'{said}<img alt="3 small') and "<pre>this is 3 &lt;</pre>" in told  # the sentence above it
    assert list(live) == [WIDGET]


def test_a_picture_that_fails_at_the_start_raises_as_any_function_does(shown):
    def stub(step):
        raise NotImplementedError

    with pytest.raises(NotImplementedError):
        sliders.explore(stub, step=(0, 6))
    assert shown == []


def test_the_widget_draws_the_frame_that_is_wanted():
    pytest.importorskip("anywidget")
    some = panel(step=(0, 6))
    data, _ = slider_widget.first_frame(some)
    widget, sent = slider_widget.widget(some, data), []
    widget.send = lambda told, buffers: sent.append((told, buffers))
    widget._handle_custom_msg({"want": "5"}, [])
    ((told, (image,)),) = sent
    assert told["key"] == "5" and told["words"].startswith("5 small") and image.startswith(b"\x89PNG")


def test_on_a_dark_page_the_frame_is_drawn_for_it_and_the_first_one_is_there_for_both():
    pytest.importorskip("anywidget")
    some = panel(step=(0, 6))
    data, first = slider_widget.first_frame(some)
    assert first.image != first.dark and {"src", "dark"} <= set(data["frames"]["3"])
    widget, sent = slider_widget.widget(some, data), []
    widget.send = lambda told, buffers: sent.append((told["dark"], buffers[0]))
    for dark in (False, True):
        widget._handle_custom_msg({"want": "3", "dark": dark}, [])
    assert sent == [(False, first.image), (True, first.dark)]


def test_a_frame_wanted_ahead_is_drawn_a_step_a_message_and_a_touched_one_comes_between():
    pytest.importorskip("anywidget")
    some = panel(step=(0, 6))
    widget, sent = slider_widget.widget(some, slider_widget.first_frame(some)[0]), []
    widget.send = lambda told, buffers=(): sent.append((told["key"], "begun" in told, len(buffers)))
    for want, ahead in (("4", True), ("0", False), ("4", True), ("4", True)):
        widget._handle_custom_msg({"want": want, "ahead": ahead}, [])
    assert sent == [("4", True, 0), ("0", False, 1), ("4", True, 0), ("4", False, 1)]


def test_a_frame_that_was_begun_ahead_is_finished_at_once_where_it_is_touched():
    pytest.importorskip("anywidget")
    called = []
    some = panel(lambda step: called.append(step) or picture(step), step=(0, 40))
    widget, sent = slider_widget.widget(some, slider_widget.first_frame(some)[0]), []
    widget.send = lambda told, buffers=(): sent.append(told["key"])
    widget._handle_custom_msg({"want": "4", "ahead": True}, [])
    widget._handle_custom_msg({"want": "4", "ahead": False}, [])
    assert sent == ["4", "4"] and called.count(4) == 1


def test_a_message_that_comes_on_another_thread_is_handled_where_cells_run(monkeypatch):
    pytest.importorskip("anywidget")
    import IPython

    later, threads = [], []
    loop = SimpleNamespace(add_callback=lambda act, *given: later.append((act, given)))
    told = SimpleNamespace(trigger=lambda event: threads.append(threading.current_thread()), register=lambda *_: None)
    shell = SimpleNamespace(kernel=SimpleNamespace(io_loop=loop), events=told)
    monkeypatch.setattr(IPython, "get_ipython", lambda: shell)
    some = panel(lambda step: threads.append(threading.current_thread()) or picture(step), step=(0, 40))
    widget, sent = slider_widget.widget(some, slider_widget.first_frame(some)[0]), []
    widget.send = lambda told, buffers=(): sent.append(told["key"])
    threads.clear()
    message = {"content": {"data": {"method": "custom", "content": {"want": "4"}}}, "buffers": []}
    asks = threading.Thread(target=widget.comm.handle_msg, args=[message])
    asks.start()
    asks.join()
    assert (threads, sent, len(later)) == ([], [], 1)
    ((act, given),) = later
    act(*given)
    assert set(threads) == {threading.main_thread()} and len(threads) == 3 and sent == ["4"]


def test_for_a_book_all_frames_are_in_the_page(shown, monkeypatch):
    monkeypatch.setenv("COURSE_FRAMES", "4")
    sliders.explore(picture, {"step": 1}, step=(0, 6))
    (bundle,) = shown
    assert WIDGET not in bundle
    assert set(bundle[sliders.FRAMES]["frames"]) == {"0", "1", "2", "3"}
    assert bundle["text/html"].count("data:image/png;base64,") == 9  # light, dark; one where scripts are off


def test_a_page_is_not_broken_by_what_a_learner_wrote():
    evil = "</script><b>&"
    html, _ = slider_widget.page(panel(lambda name: evil + name, name=["<i>", "b"]))
    assert html.count("</script>") == 1 and "<i>" not in html and "</script><b>" not in html
    text = re.search(r"getElementById\('[\w-]+'\), (.*)\);\n", html)[1]
    assert json.loads(text)["frames"]["0"]["said"] == evil + "<i>"


def test_the_images_of_a_page_may_be_files():
    data = panel(step=(0, 1)).data()
    html = slider_widget.player(data, {"0": {"src": "a.png", "dark": "c.png"}, "1": {"src": "b.png", "dark": "d.png"}})
    assert "data:image" not in html and html.count("a.png") == 2 and html.count("b.png") == 1 and "c.png" in html


# What the chapters give


def test_every_chapters_frames_can_all_be_drawn_ahead():
    """Where they cannot (ALL in player.js), a slider that is grabbed right after another one waits for the kernel."""
    script = slider_widget.script()
    most = int(re.search(r"\bALL = (\d+)", script)[1])
    counts = {}
    for chapter in chapters():
        for cell in chapter.notebook.cells:
            for call in _explores(cell.source) if cell.cell_type == "code" else ():
                ranges = {k.arg: k.value for k in call.keywords if k.arg and k.arg != "fixed"}
                sizes = [len(values_of(name, _evaluated(value))) for name, value in ranges.items()]
                counts[chapter.name, cell.id] = math.prod(sizes)
    assert len(counts) >= 5 and {name: count for name, count in counts.items() if count > most} == {}


def _explores(source: str) -> list[ast.Call]:
    return [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)
            and ast.unparse(node.func).rpartition(".")[2] == "explore"]  # fmt: skip


def _evaluated(node: ast.expr):
    steps = range(7)  # what a chapter's ring has
    return eval(ast.unparse(node), {"len": len, "steps": steps, "own": steps})
