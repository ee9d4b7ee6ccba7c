"""The running table: bytes, collectives and seconds of a strategy, against formulas and against the recorded rows."""

from __future__ import annotations

from dataclasses import replace

import matplotlib
import pytest
import torch
from record_rows import MEASURED

from course_lib import run
from course_lib.costs import collective_seconds, step_flops
from course_lib.lessons.running_table import (
    BATCH,
    CHANGED,
    LENGTH,
    ONE_NODE,
    Computing,
    Saved,
    data_parallel,
    measure,
    one_device,
    recorded,
    table,
)
from course_lib.memory import model_state_bytes
from course_lib.models import TINY_GPT, parameter_count

matplotlib.use("Agg")


def flat(dist, model):
    def finish():
        whole = torch.cat([parameter.grad.flatten() for parameter in model.parameters()])
        dist.all_reduce(whole)
        pieces = whole.split([parameter.numel() for parameter in model.parameters()])
        for parameter, piece in zip(model.parameters(), pieces, strict=True):
            parameter.grad = piece.view_as(parameter) / dist.get_world_size()

    return finish


def test_one_device_computes_the_flops_of_the_formula_and_holds_the_bytes_of_the_formula():
    row = measure("one device", one_device, ranks=1)
    states = model_state_bytes(parameter_count(TINY_GPT), "fp32", "adamw")
    assert row.seconds == pytest.approx(step_flops(TINY_GPT, BATCH, LENGTH) / ONE_NODE.flops, rel=0.01)
    assert (row.weights, row.gradients) == (states["weights"], states["gradients"])
    assert row.optimizer == pytest.approx(states["optimizer"], rel=1e-3)
    assert (row.sent, row.waiting, row.communicating) == (0, pytest.approx(0, abs=1e-9), 0)


def test_one_all_reduce_after_backward_costs_what_the_formula_says():
    alone, row = measure("one device", one_device, ranks=1), measure("flat", data_parallel(flat))
    gradients = 4 * parameter_count(TINY_GPT)
    talk = collective_seconds("all_reduce", 4, gradients, ONE_NODE.latency, ONE_NODE.bandwidth)
    assert row.sent == 2 * 3 * gradients // 4
    assert row.collectives_per_layer == 1 / TINY_GPT.layers
    assert row.seconds == pytest.approx(alone.seconds / 4 + talk, rel=1e-6)
    assert row.waiting == pytest.approx(talk / row.seconds, rel=1e-6)
    assert row.loss == pytest.approx(alone.loss, abs=1e-4)


def test_saved_counts_what_backward_needs_and_lets_go_of_it():
    saved, x = Saved(), torch.ones(100, requires_grad=True)
    with saved.hooks:
        y = (x * 2).exp()
        assert saved.now == 400  # the result of exp
        y.sum().backward()
        del y
    assert (saved.now, saved.most) == (0, 400)


def _product(dist):
    a = torch.ones(10, 20, requires_grad=True)
    with Computing():
        (a @ torch.ones(20, 30)).sum().backward()


def test_computing_spends_the_time_of_matrix_products_forward_and_backward():
    trace = run(_product, ranks=2, on=ONE_NODE)
    assert trace.seconds == pytest.approx(2 * 2 * 10 * 20 * 30 / ONE_NODE.flops)


def test_a_table_has_a_line_for_each_row_and_fits_a_page():
    rows = recorded("ch06")
    lines = table(rows).splitlines()
    assert len(lines) == len(rows) + 3
    assert max(map(len, lines)) <= 120
    assert all(row.strategy in line for row, line in zip(rows, lines[1:], strict=False))


def test_a_loss_that_all_rows_share_is_told_once():
    one, *more = recorded("ch05")
    shared = str(table([one, *more]))
    assert shared.count(f"{one.loss:.4f}") == 1 and "in every row" in shared
    assert str(table([one, replace(one, loss=5.0)])).splitlines()[0].endswith("loss")


def test_new_rows_are_marked_and_what_changed_on_the_same_cluster_is_highlighted():
    old = recorded("ch05")
    new = [replace(row, strategy="same") for row in old if row.strategy == "per bucket"]
    new[1] = replace(new[1], sent=1)
    shown = table([*old, *new], new=2)
    marked = [line.startswith("→ ") for line in shown.splitlines()]
    assert marked == [False] * (1 + len(old)) + [True, True, False, False]
    heads = shown.cells[0]
    assert {(place, heads[column]) for place, column in shown.changed} == {
        (len(old) + 1, "strategy"), (len(old) + 2, "strategy"), (len(old) + 2, "sent")}
    page = shown._repr_html_()
    assert page.count(CHANGED) == 3 and page.count("<tr>") == len(old) + 3
    assert CHANGED not in table(old)._repr_html_()
    assert repr(table(old)) == str(table(old))


def test_a_table_of_a_few_columns_has_no_others():
    rows = recorded("ch05")
    shown = table(rows, only=("sent", "step"))
    assert shown.cells[0] == ["strategy", "cluster", "sent", "step"] and len(shown.cells) == 1 + len(rows)
    assert not shown.legend and len(str(shown).splitlines()) == 1 + len(rows)


def test_bars_tell_how_many_times_as_fast_as_the_first_row_and_set_new_rows_in_bold():
    from course_lib.plots import strategy_bars

    rows = recorded("ch05")
    held, spent = strategy_bars(rows, new=2)
    assert f"({rows[0].seconds / rows[-1].seconds:.2g}×)" in spent.texts[-1].get_text()
    assert [label.get_weight() for label in held.get_yticklabels()][-3:] == ["normal", "bold", "bold"]


def test_clusters_may_stand_apart_with_a_line_between_and_exact_ratios():
    from course_lib.plots import strategy_bars

    rows = sorted(recorded("ch06"), key=lambda row: row.cluster == "four nodes")
    plain, (_, spent) = strategy_bars(rows), strategy_bars(rows, apart=True)
    assert len(spent.lines) == 1 and not plain[1].lines
    assert f"({rows[0].seconds / rows[-1].seconds:.3g}×)" in spent.texts[-1].get_text()


def test_bars_of_the_state_leave_activations_out_and_compare_on_one_network():
    from course_lib.plots import strategy_bars

    rows = recorded("ch06")
    held, spent = strategy_bars(rows, state=True)
    assert len(held.patches) == 3 * len(rows) and "activations not counted" in held.get_xlabel()
    first = next(row for row in rows if row.cluster == rows[-1].cluster)
    assert f"({rows[-1].seconds / first.seconds:.2g}×)" in spent.texts[-1].get_text()


def test_bars_have_one_bar_a_row_and_name_their_units():
    from course_lib.plots import strategy_bars

    rows = recorded("ch06")
    held, spent = strategy_bars(rows)
    assert "MB" in held.get_xlabel() and "ms" in spent.get_xlabel()
    assert len(spent.patches) == 2 * len(rows)
    assert all(row.strategy in label.get_text() for row, label in zip(rows, held.get_yticklabels(), strict=True))


@pytest.mark.parametrize("chapter", MEASURED)
def test_the_recorded_rows_are_what_the_solved_chapter_measures(chapter):
    """python tests/record_rows.py writes them again."""
    number = int(chapter[2:])
    known = [row for row in recorded(f"ch{number + 1:02d}") if row not in recorded(chapter)]
    for old, new in zip(known, MEASURED[chapter](), strict=True):
        assert (old.strategy, old.cluster, old.sent, old.weights) == (new.strategy, new.cluster, new.sent, new.weights)
        assert new.seconds == pytest.approx(old.seconds, rel=1e-6)
        assert new.loss == pytest.approx(old.loss, abs=1e-4)
        assert new.activations == pytest.approx(old.activations, rel=0.01)


def test_every_row_has_the_same_loss():
    losses = [row.loss for row in recorded("ch08")]
    assert max(losses) - min(losses) < 1e-4
