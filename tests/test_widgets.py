"""Sliders with names over a picture, and what is shown where none can be."""

from __future__ import annotations

import base64
import builtins

import matplotlib
import pytest

matplotlib.use("Agg")

import ipywidgets
import matplotlib.pyplot as plt

from course_lib.plots import sliders as widgets


@pytest.fixture
def shown(monkeypatch) -> list:
    """Pretend to be in a notebook; return what is displayed."""
    displayed: list = []
    monkeypatch.setattr(widgets, "_display", lambda: lambda data, raw: displayed.append(data))
    return displayed


def picture(step: int = 0, scale: str = "small"):
    ax = plt.subplots()[1]
    ax.set_title(f"{step} {scale}")
    return ax


def panel_of(picture, **ranges):
    """Return the sliders by name, and the Output below them."""
    choices = {name: widgets.values_of(name, given) for name, given in ranges.items()}
    start = {name: values[0] for name, values in choices.items()}
    sliders, output, _ = widgets.sliders(picture, choices, start, widgets.draw(picture, start)).children
    return dict(zip(ranges, sliders.children, strict=True)), output


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
    assert widgets.values_of("step", given) == pytest.approx(values) if given != ["a", "b"] else values


def test_a_range_of_floats_without_a_step_has_21_values():
    values = widgets.values_of("share", (0.0, 1.0))
    assert (len(values), values[0], values[-1]) == (21, 0.0, pytest.approx(1.0))


@pytest.mark.parametrize("given", [(3, 1), (0, 1, 0), (0, 1, -1), [], (1,), 7, "ab", (0, float("inf"))])
def test_what_is_no_range_is_refused_with_its_name(given):
    with pytest.raises(ValueError, match="^step="):
        widgets.values_of("step", given)


# Without widgets


def test_outside_a_notebook_the_picture_at_the_middle_is_returned():
    assert widgets.explore(picture, step=(0, 6), scale=["small", "large"]).get_title() == "3 small"


def test_a_slider_starts_where_it_is_told_and_the_others_in_the_middle():
    assert widgets.explore(picture, {"step": 0}, step=(0, 6), scale=["small", "large"]).get_title() == "0 small"


def test_without_ipywidgets_the_picture_at_the_middle_is_shown(shown, monkeypatch):
    real = builtins.__import__

    def without(name, *args, **kwargs):
        if name == "ipywidgets":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    assert widgets.explore(picture, step=(0, 6)) is None
    assert list(shown[0]) == ["image/png", "text/plain", "text/html"]
    assert shown[0]["text/plain"] == "step = 3"


def test_a_page_without_widgets_finds_a_picture_and_what_it_printed_beside_the_widget(shown):
    assert widgets.explore(lambda step: print(f"this is {step}") or picture(step), step=(0, 6)) is None
    (bundle,) = shown
    assert bundle["text/plain"] == "step = 3\nthis is 3"
    assert base64.b64decode(bundle["image/png"]).startswith(b"\x89PNG")
    assert "application/vnd.jupyter.widget-view+json" in bundle


# With widgets


def test_each_slider_has_its_name_beside_it_and_starts_as_told():
    controls, _ = panel_of(picture, step=(0, 6), scale=["small", "large"])
    assert [control.description for control in controls.values()] == ["step", "scale"]
    assert isinstance(controls["step"], ipywidgets.SelectionSlider)
    assert (controls["step"].value, controls["scale"].value) == (0, "small")


def test_sliders_stand_side_by_side_where_there_is_room():
    sliders, *_ = widgets.sliders(picture, {"step": [1, 2], "scale": ["a"]}, {"step": 1, "scale": "a"}, []).children
    assert sliders.layout.flex_flow == "row wrap"


def test_underscores_of_a_name_are_shown_as_spaces():
    controls, _ = panel_of(lambda batch_size: None, batch_size=(1, 2))
    assert controls["batch_size"].description == "batch size"


def test_moving_a_slider_draws_the_picture_again():
    controls, output = panel_of(picture, step=(0, 6))
    before = output.outputs[0]["data"]["image/png"]
    controls["step"].value = 5
    (drawn,) = output.outputs
    assert drawn["data"]["text/plain"] == "step = 5"
    assert drawn["data"]["image/png"] != before


def test_a_picture_has_its_words_also_after_a_move():
    controls, output = panel_of(picture, step=(0, 6))
    controls["step"].value = 5
    assert '<img alt="5 small" width="' in output.outputs[0]["data"]["text/html"]


def test_the_panel_brings_the_script_that_names_its_sliders_and_shows_nothing_for_it():
    panel = widgets.sliders(picture, {"step": [1, 2]}, {"step": 1}, [])
    script = panel.children[-1]
    assert script.layout.display == "none"
    assert "aria-label" in script.outputs[0]["data"]["application/javascript"]


def test_what_a_picture_prints_stands_above_it():
    controls, output = panel_of(lambda step: print(f"this is {step}") or picture(step), step=(0, 6))
    controls["step"].value = 2
    printed, drawn = output.outputs
    assert printed["text"] == "this is 2\n"
    assert "image/png" in drawn["data"]


def test_an_error_is_shown_with_its_values_message_and_line_and_the_next_move_works():
    def fragile(step):
        if step == 1:
            raise ValueError("no picture of 1")
        return picture(step)

    controls, output = panel_of(fragile, step=(0, 6))
    controls["step"].value = 1
    (told,) = output.outputs
    assert told["name"] == "stderr"
    assert told["text"].startswith("with step = 1: ValueError: no picture of 1\n    line ")
    assert "in fragile" in told["text"]
    controls["step"].value = 2
    assert "image/png" in output.outputs[0]["data"]


def test_a_text_or_number_may_stand_for_a_picture():
    _, output = panel_of(lambda step: step * 2, step=(3, 6))
    assert output.outputs[0]["data"] == {"text/plain": "6"}


def test_no_figure_stays_open_so_that_none_is_shown_twice(shown):
    mine = plt.figure()
    widgets.explore(picture, step=(0, 6))
    assert plt.get_fignums() == [mine.number]
