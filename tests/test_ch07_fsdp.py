"""Chapter 7: every stage ends where one device ends, holds and sends what the formulas say, and is drawn so."""

from __future__ import annotations

import re

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import pytest
import torch
from record_rows import definitions

from course_lib import Cluster, bytes_held, run
from course_lib.engine.storages import Alive
from course_lib.hardware import DGX_H100
from course_lib.lessons import stage_3
from course_lib.lessons.prefetch import layer_weights
from course_lib.lessons.running_table import recorded
from course_lib.lessons.torch_wrappers import observe
from course_lib.lessons.zero_stages import far_from_one_device, train_stage, units_of, zero_0, zero_1, zero_2, zero_3
from course_lib.memory import model_state_bytes
from course_lib.models import MODELS, TINY_GPT, parameter_count
from course_lib.plots import ladder, words_of
from course_lib.training import adamw, new_model, new_optimizer
from exercises_tests.tools.chapters import find
from solutions import ch07_fsdp as solutions


def test_adamw_of_a_tensor_is_torchs():
    model = torch.nn.Linear(5, 3, dtype=torch.float64)
    mine, states, optimizer = [p.detach().clone() for p in model.parameters()], [{}, {}], new_optimizer(model)
    for step in range(5):
        for parameter, weight, state in zip(model.parameters(), mine, states, strict=True):
            parameter.grad = torch.full_like(parameter, 0.3 * step - 0.5)
            adamw(weight, parameter.grad, state)
        optimizer.step()
    for parameter, weight in zip(model.parameters(), mine, strict=True):
        assert torch.allclose(parameter, weight, rtol=0, atol=1e-15)


STAGES = (
    zero_0,
    zero_1(solutions.sharded_adamw_step),
    zero_2(solutions.reduce_scatter_gradients, solutions.shard, solutions.unshard),
    zero_3(solutions.fully_sharded_step, solutions.shard),
)


@pytest.mark.parametrize("ranks", [2, 3, 4])
@pytest.mark.parametrize("stage", range(4))
def test_ten_steps_of_the_tiny_gpt_end_where_adamw_on_one_device_ends(stage, ranks):
    assert far_from_one_device(STAGES[stage], ranks, Cluster(), steps=10) <= 1e-9


@pytest.mark.parametrize("stage", [1, 2, 3])
def test_so_they_do_on_real_ranks(stage):
    assert far_from_one_device(STAGES[stage], 2, steps=10) <= 1e-9


@pytest.mark.parametrize("ranks", [3, 4])
@pytest.mark.parametrize("stage", range(4))
def test_a_rank_holds_and_sends_what_the_formulas_say(stage, ranks):
    """Padding of 3 ranks included, within 2 %."""
    trace = run(train_stage, STAGES[stage], 2, ranks=ranks, on=Cluster())
    count = parameter_count(TINY_GPT)
    for held in (result["held"] for result in trace):
        for part, size in model_state_bytes(count, "fp32", "adamw", stage, ranks).items():
            assert held[part] == pytest.approx(size, rel=0.02), part
    want = solutions.communication_bytes(stage, count, ranks, element_bytes=4)
    assert max(trace.bytes_sent) / 2 == pytest.approx(want, rel=0.02)


def test_the_peak_of_stage_3_is_the_formula_and_the_largest_unit():
    counts = [rows * columns for rows, columns in stage_3.UNITS]
    formula, largest = 8 * 4 * sum(counts) / 4, 8 * max(counts)
    moments = stage_3.during(solutions.fully_sharded_step).moments
    assert len(moments) == 5 * len(counts)  # two gathers, two forwards and a backward of each unit
    assert max(held for _, held in moments) <= formula + largest


def test_the_published_ladder_of_a_model_of_7_5_billion_on_64_ranks():
    gigabytes = [sum(model_state_bytes(7.5e9, "bf16 mixed", "adamw", stage, 64).values()) / 1e9 for stage in range(4)]
    assert gigabytes == pytest.approx([120, 31.4, 16.6, 1.9], abs=0.05)


def test_alive_counts_storages_as_they_are_now():
    alive = Alive()
    with alive:
        whole = torch.zeros(100)
        view = whole[3:4]
        del whole
        assert alive.bytes() == 400  # a view keeps all of its storage
        x = torch.ones(10, requires_grad=True)
        y = (2 * x).exp().sum()
        assert alive.bytes() == 400 + 40 + 40 + 4  # autograd keeps what exp returned
        view.untyped_storage().resize_(0)
        del y
        assert alive.bytes() == alive.bytes(x) == 40
        assert alive.bytes(whole := torch.ones(5)) == alive.bytes() == 60
        del whole
    kept = torch.ones(1000)  # not watched, so it counts only where it is named
    assert (alive.bytes(), alive.bytes(kept)) == (40, 4040)


def test_alive_looks_away_while_a_collective_works():
    def gather(dist):
        alive = Alive()
        with alive:
            into, mine = torch.empty(4, 10), torch.ones(10)
            alive.beside(dist).all_gather(list(into), mine)
            return alive.bytes()

    assert list(run(gather, ranks=4, on=Cluster())) == [200] * 4


def test_the_ladder_draws_what_is_held_and_sent_and_says_so():
    held = {"one": ({"weights": 4e6, "gradients": 2e6}, {"weights": 4e6, "gradients": 1e6}),
            "two": ({"weights": 1e6, "gradients": 1e6}, {"weights": 1e6, "gradients": 1e6})}  # fmt: skip
    sent = {"one": (5e6, 5e6), "two": (6e6, 3e6)}
    left, right = ladder(held, sent)
    assert [round(bar.get_width(), 6) for bar in left.patches] == [4, 2, 1, 1]
    assert [round(bar.get_width(), 6) for bar in right.patches] == [5, 6]
    shown = [text.get_text() for text in left.texts + right.texts]
    assert shown.count("measured") == shown.count("formula") == 2 and {"weights", "gradients", "1.2 ×"} <= set(shown)
    assert {"kB a rank holds", "6,000", "5,000", "3,000"} <= set(shown)  # measured, and by formula
    assert "one: measured 6,000, by formula 5,000" in words_of(left.figure)
    left, right = ladder(held, {"one": (5e6, 5e6), "two": (6e6, 6e6)})
    once = "kB it sends a step: measured = formula"
    assert once in [text.get_text() for text in right.texts]  # equal: told once
    assert [text.get_text() for text in right.texts].count("6,000") == 1
    plt.close("all")


def _fully_sharded(dist):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    model = torch.nn.Sequential(*(torch.nn.Linear(8, 8, bias=False) for _ in range(3)), torch.nn.Linear(8, 4))
    for unit in (*model[:3], model):
        fully_shard(unit, mesh=init_device_mesh("cpu", (dist.get_world_size(),)))
    seen = observe(model, lambda model: model(torch.ones(2, 8)).sum())
    kinds = [[part.get(kind, 0) for kind in ("all_gather", "reduce_scatter")] for part in (seen.forward, seen.backward)]
    grads = bytes_held([parameter.grad for parameter in model.parameters()])
    return kinds, seen.whole_forward, seen.whole_between, bytes_held(model), grads


def test_observe_counts_what_fully_shard_says_and_the_weights_that_are_whole():
    """Three layers of 256 bytes and a root of 144: the root stays whole, and is gathered once."""
    kinds, forward, between, held, grads = run(_fully_sharded, ranks=2)[0]
    assert kinds == [[4, 0], [3, 4]]
    assert (forward, between) == (256 + 144, 144)
    assert (held, grads) == (2 * (3 * 256 + 144) // 2, (3 * 256 + 144) // 2)  # shards of weights and gradients


def test_units_compute_what_the_model_computes():
    model, tokens = new_model(dtype=torch.float64), torch.arange(12).view(2, 6)
    want, (units, weights) = model(tokens), units_of(model)
    x = tokens
    for (forward, _), weight in zip(units, weights, strict=True):
        x = forward(weight, x)
    assert torch.equal(x, want)
    assert sum(map(torch.numel, weights)) == parameter_count(TINY_GPT)


@pytest.mark.parametrize("stage", [1, 2, 3])
def test_the_row_of_a_stage_holds_and_sends_what_the_formula_says(stage):
    """All of 4 ranks' shards divide, but for a bias or two: within 2 %."""
    row = next(row for row in recorded("ch08") if row.strategy == f"ZeRO-{stage}")
    want = model_state_bytes(parameter_count(TINY_GPT), "fp32", "adamw", zero=stage, ranks=4)
    for part, size in want.items():
        assert getattr(row, part) == pytest.approx(size, rel=0.02), part
    assert row.sent == pytest.approx((3 if stage == 3 else 2) * 3 / 4 * 4 * parameter_count(TINY_GPT), rel=0.02)


REPAIRS = {  # of each cell of scripts that run and are wrong: words, and what stands in their place when it is right
    "script_1": {'GradScaler("cpu")': 'GradScaler("cpu", enabled=False)'},
    "script_2": {
        "model = torch_sharded()\n": "model = torch_sharded()\n"
        "    whole = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True))\n",
        "{name: parameter.to_local() for name, parameter in model.named_parameters()}": "whole",
        "torch.initial_seed()": "0",
    },
    "script_4": {
        "    optimizer = new_optimizer(model)\n": "",
        "    losses = []\n": "    optimizer, losses = new_optimizer(model), []\n",
    },
}


def printed_by(script, repairs, capsys):
    """Return the numbers that a cell of the chapter prints, with these words replaced."""
    source = next(cell.source for cell in find("ch07").notebook.cells if cell.id == script)
    for wrong, right in repairs.items():
        assert source.count(wrong) == 1
        source = source.replace(wrong, right)
    exec(compile(source, script, "exec"), definitions("ch07"))
    return [float(n.replace(",", "")) for n in re.findall(r"\d+(?:,\d{3})*(?:\.\d+)?", capsys.readouterr().out)]


def reaches_its_target(script, numbers):
    """Return whether a script printed what the chapter says that it should."""
    total = 4 * sum(map(torch.numel, new_model().parameters()))
    if script == "script_1":
        return numbers[-1] < 3.5
    if script == "script_4":
        return numbers[0] > numbers[1] > numbers[2] and numbers[3:] == [total / 4, total / 4]
    return numbers[0] == numbers[1] == 240_000 and numbers[2] == numbers[3] == 16


@pytest.mark.parametrize("script", REPAIRS)
def test_a_repaired_script_reaches_its_target(script, capsys):
    assert reaches_its_target(script, printed_by(script, REPAIRS[script], capsys))


def test_the_units_decide_what_is_whole_at_once(capsys):
    """The numbers of the first three rows of section 9's table that the chapter's text tells."""
    names = definitions("ch07")
    source = next(cell.source for cell in find("ch07").notebook.cells if cell.id == "torch_measured")
    exec(compile(source, "torch_measured", "exec"), names)
    lines = capsys.readouterr().out.splitlines()
    rows = {line[:19].strip(): line[19:].replace(",", "").split() for line in lines[1:]}
    model = new_model()
    block, whole = (sum(map(torch.numel, part.parameters())) for part in (model.blocks[0], model))
    root = whole - len(model.blocks) * block
    want = {"only the root": whole, "blocks and root": block + root, "nothing for root": block}
    assert {name: rows[name][1] for name in want} == {name: f"{4 * n / 1e3:.0f}" for name, n in want.items()}
    assert [int(rows[name][3]) for name in want] == [1, 9, 12]


def test_the_1_200_tokens_that_hide_a_gather_are_derived():
    """Section 5 works them out for Llama-3-70B in words, before it asks for Llama-3-8B."""
    text = next(cell.source for cell in find("ch07").notebook.cells if cell.id == "ratio_why").partition("Take the")[2]
    small, large = (layer_weights(MODELS[name]) for name in ("Llama-3-8B", "Llama-3-70B"))
    gather = 31 / 32 * 2 * large / (8 * DGX_H100.nic.bandwidth)
    token = 2 * large / (DGX_H100.gpu.peak() / 2)
    assert DGX_H100.nics == 8
    told = [f"{2 * large / 1e9:.1f} GB", f"{DGX_H100.nic.bandwidth / 1e9:.0f} GB/s", f"{gather * 1e3:.2f} ms",
            f"{token * 1e6:.2f} µs", f"{round(gather / token, -2):,.0f} tokens",
            f"{large / small:.1f} times"]  # fmt: skip
    assert [words for words in told if words not in text] == []
