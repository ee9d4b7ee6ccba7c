"""The planner: its parts against the simulator and the replay, its memory against course_lib.memory, published runs."""

from __future__ import annotations

import importlib.util
import itertools
import time
from statistics import median

import pytest
import torch

from course_lib import Cluster, run
from course_lib.hardware import DGX_H100, GB200_NVL72, H100, V100, Link
from course_lib.memory import training_memory
from course_lib.models import MODELS, TINY_GPT
from course_lib.planning import (
    REACHED,
    Layout,
    NothingFits,
    Recipe,
    check_fits_model,
    groups,
    layout_memory,
    layout_time,
    plan,
    published_runs,
)
from course_lib.planning import step as stepping
from course_lib.planning.layout import span
from course_lib.planning.recipe import reached
from course_lib.planning.search import layouts
from course_lib.schedules import interleaved, one_f_one_b, play
from exercises_tests.tools.chapters import ROOT

LLAMA, SMALL = MODELS["Llama-3-405B"], MODELS["Llama-3-8B"]
META = Layout(8, 1, 16, 128, chunks=8, zero=2)


def table():
    spec = importlib.util.spec_from_file_location("published", ROOT / "docs" / "published_runs.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# Layouts


@pytest.mark.parametrize("sizes", [(2, 3, 4), (8, 1, 2), (1, 1, 1), (5, 2, 2)])
def test_groups_are_the_ranks_that_differ_in_one_coordinate(sizes):
    axes = list(zip(("tp", "pp", "dp"), sizes, strict=True))
    found = groups(sizes[0] * sizes[1] * sizes[2], axes)
    place = {c + sizes[0] * (b + sizes[1] * a): (c, b, a)
             for a, b, c in itertools.product(*map(range, reversed(sizes)))}  # fmt: skip
    for at, (axis, _) in enumerate(axes):
        others = {}
        for rank, coordinates in sorted(place.items()):
            others.setdefault(coordinates[:at] + coordinates[at + 1:], []).append(rank)
        assert sorted(found[axis]) == sorted(others.values())


def test_groups_whose_product_is_not_the_ranks_are_refused_in_a_sentence():
    with pytest.raises(ValueError, match=r"tp 4 x dp 3 = 12 ranks: there are 16; the product of the axes must be that"):
        groups(16, [("tp", 4), ("dp", 3)])


@pytest.mark.parametrize(("size", "stride", "want"), [(8, 1, (1, 8)), (16, 1, (2, 8)), (4, 8, (4, 1)), (4, 4, (2, 2)),
                                                      (2, 2, (1, 2)), (6, 2, (2, 3))])  # fmt: skip
def test_the_span_of_a_group_counts_nodes_and_ranks_in_each(size, stride, want):
    ranks = [place * stride for place in range(size)]
    nodes = [rank // 8 for rank in ranks]
    assert span(size, stride, 8) == want
    if size % len(set(nodes)) == 0 and len({nodes.count(node) for node in nodes}) == 1:
        assert want == (len(set(nodes)), nodes.count(nodes[0]))


def test_metas_order_puts_tensor_ranks_on_nvlink_and_all_others_on_ports():
    assert META.link("tp", DGX_H100) is H100.link
    assert META.link("pp", DGX_H100) is META.link("dp", DGX_H100) is DGX_H100.nic
    turned = Layout(8, 1, 16, 128, order=("dp", "pp", "cp", "tp"))
    assert turned.link("tp", DGX_H100) is DGX_H100.nic


@pytest.mark.parametrize(("layout", "words"), [
    (Layout(3, 1, 1, 8), "tp = 3: must divide the 128 attention heads"),
    (Layout(8, 1, 128, 16, chunks=2), "126 layers, an embedding and a head to deal out to 256 chunks"),
    (Layout(8, 3, 1, 8), "cp = 3: sequences of 8,192 tokens must be cut into 2 x cp equal pieces"),
    (Layout(8, 1, 1, 7), "a batch of 2048 sequences must be cut into dp x micro = 7 equal parts"),
    (Layout(8, 1, 16, 256), "too small for this pipeline: pp = 16 ranks share 8 micro-batches; give at least 4096"),
    (Layout(8, 1, 3, 32, chunks=2), "64 micro-batches must be a multiple of pp"),
    (Layout(8, 1, 1, 8, ep=4), "ep = 4: must divide the 0 experts"),
])  # fmt: skip
def test_what_does_not_divide_is_a_sentence(layout, words):
    with pytest.raises(ValueError, match=words):
        check_fits_model(layout, LLAMA, 2048, 8192)


def test_a_layout_of_another_number_of_ranks_is_a_sentence():
    with pytest.raises(ValueError, match="tp 8 x cp 1 x pp 16 x dp 128 = 16,384 ranks: there are 8,192"):
        check_fits_model(META, LLAMA, 2048, 8192, ranks=8192)


@pytest.mark.parametrize(("field", "words"), [({"tp": 0}, "tp = 0"), ({"zero": 4}, "zero = 4"),
                                              ({"order": ("tp",)}, "must hold each of tp, cp, pp, dp once"),
                                              ({"recompute": "some"}, "recompute = 'some'")])  # fmt: skip
def test_an_impossible_layout_is_a_sentence(field, words):
    with pytest.raises(ValueError, match=words):
        Layout(**field)


# Memory


@pytest.mark.parametrize("settings", [
    {}, {"tp": 4}, {"dp": 8, "zero": 1}, {"dp": 8, "zero": 2, "tp": 2}, {"recompute": "full"}, {"pp": 4},
    {"pp": 4, "chunks": 2}, {"tp": 8, "pp": 2, "dp": 4, "zero": 1},
])  # fmt: skip
def test_the_parts_are_those_of_training_memory(settings):
    layout = Layout(**({"zero": 0} | settings))
    recipe = Recipe(fused_mlp=False)
    mine = layout_memory(SMALL, layout, 64, 8192, recipe)
    names = {name: settings[name] for name in ("tp", "dp", "pp", "chunks", "zero") if name in settings}
    there = training_memory(
        SMALL, 1, 8192, precision="bf16 mixed, fp32 gradients", sequence_parallel=True, flash=True,
        recompute=settings.get("recompute", "selective"), microbatches=64 // layout.dp, **names,
    ).parts  # fmt: skip
    for part in ("weights", "gradients", "optimizer", "activations"):
        assert getattr(mine, part) == pytest.approx(there[part], rel=2e-3), part


def test_context_ranks_cut_activations_but_not_weights():
    one, four = (layout_memory(SMALL, Layout(cp=cp, zero=0), 8, 32768) for cp in (1, 4))
    assert four.activations == one.activations / 4 and four.weights == one.weights


# Seconds: against the replay of schedules, and against the simulator


@pytest.mark.parametrize(("pp", "chunks", "count"), [(4, 1, 8), (4, 2, 8), (8, 1, 16), (4, 4, 12)])
def test_the_bubble_is_that_of_the_replayed_schedule(pp, chunks, count):
    order = one_f_one_b(pp, count) if chunks == 1 else interleaved(pp, count, chunks)
    played = play(order, forward=1 / chunks, backward=1 / chunks, weight=1 / chunks).seconds
    shape = MODELS["Llama-3-8B"]
    step = layout_time(shape, Layout(pp=pp, chunks=chunks), DGX_H100, count, 8192)
    busy = step.seconds - step.bubble - step.pipeline - step.optimizer
    assert (busy + step.bubble) / busy == pytest.approx(played / (3 * count), rel=1e-9)


PLAIN = Link("fast", 100e9, 2e-6, "of this test"), Link("slow", 10e9, 5e-6, "of this test")


def on_two_nodes() -> Cluster:
    fast, slow = PLAIN
    return Cluster(bandwidth=fast.bandwidth, latency=fast.latency, nodes=2, gpus_per_node=4,
                   nic_bandwidth=slow.bandwidth, nic_latency=slow.latency)  # fmt: skip


def gather_along(dist, every, elements):
    made = [(ranks, dist.new_group(ranks)) for ranks in every]
    ranks, group = next(one for one in made if dist.get_rank() in one[0])
    mine = torch.zeros(elements)
    dist.all_gather([torch.empty_like(mine) for _ in ranks], mine, group=group)


@pytest.mark.parametrize(("axis", "sizes"), [("tp", (4, 1, 2)), ("tp", (2, 2, 2)), ("dp", (4, 1, 2)), ("pp", (4, 2, 1)),
                                             ("dp", (2, 2, 2))])  # fmt: skip
def test_a_collective_along_an_axis_takes_what_the_simulator_takes(axis, sizes):
    """All groups of an axis at once, each over its own ports, on two nodes of four ranks."""
    axes = list(zip(("tp", "pp", "dp"), sizes, strict=True))
    every, elements = groups(8, axes)[axis], 60_000
    layout = Layout(tp=sizes[0], pp=sizes[1], dp=sizes[2])
    nodes, inside = layout.span(axis, 4)
    fast, slow = PLAIN
    node = type(DGX_H100)("two", type(H100)("gpu", 1e9, 1e12, fast, "test"), 4, slow, 4, "test")
    mine = stepping.collective("all_gather", nodes, inside, len(every[0]) * elements * 4, node)
    assert min(nodes, inside) == 1  # of one level: what the built-in ring of the simulator does, too
    assert run(gather_along, every, elements, ranks=8, on=on_two_nodes()).seconds == pytest.approx(mine, rel=1e-9)


def pass_on(dist, ranks, elements):
    """A ring of context ranks: each passes keys and values on, P - 1 times."""
    mine, rank = torch.zeros(elements), dist.get_rank()
    for _ in range(ranks - 1):
        handle = dist.isend(mine, (rank + 1) % ranks)
        there = torch.empty_like(mine)
        dist.recv(there, (rank - 1) % ranks)
        handle.wait()
        mine = there


def test_the_ring_of_keys_and_values_takes_what_the_simulator_takes():
    shape, tokens, cp = SMALL, 512, 4
    bare = Link("bare", 50e9, 5e-6, "of this test")
    node = type(DGX_H100)("n", type(H100)("H100 x", 80e9, 3e12, bare, "t", bf16=1e30, fp8=1e30), 8, bare, 8, "t")
    layer = stepping.layer_seconds(shape, 1, tokens, tokens * cp, 1, "none", Recipe(), node.gpu)
    mine = stepping._context(shape, Layout(cp=cp), node, tokens, layer)  # backward sends twice the bytes
    numbers = tokens * shape.kv_heads * 2 * shape.head_size * 2 // 4
    forward, backward = (run(pass_on, cp, size, ranks=cp, on=Cluster()).seconds for size in (numbers, 2 * numbers))
    assert mine == pytest.approx(forward + backward + 3 * 5e-6, rel=1e-6)  # a latency more


def test_a_step_is_the_sum_of_its_parts_and_more_gpus_are_never_slower_per_gpu():
    half = Layout(8, 1, 16, 64, chunks=8, zero=2)
    step, slower = (layout_time(LLAMA, layout, DGX_H100, 2048, 8192) for layout in (META, half))
    assert step.seconds == pytest.approx(sum(step))
    assert slower.seconds / 2 < step.seconds < slower.seconds


def test_an_uncalibrated_gpu_is_a_sentence():
    with pytest.raises(ValueError, match="V100.*calibrated for A100, H100"):
        reached(V100)


# Published runs


def test_the_median_error_over_published_runs_is_below_15_percent():
    rows = published_runs()
    predictions = [abs(row.error) for row in rows if not row.calibrates]
    assert len(predictions) >= 20 and len({row.source for row in rows}) == 7
    assert median(predictions) <= 0.12
    assert [row.shape.name for row in rows if row.calibrates] == ["GPT 1.7B", "Llama-3-8B", "Llama-3-8B"]
    assert len(REACHED) == 3 and all(abs(row.error) < 0.01 for row in rows if row.calibrates)


def test_every_row_names_a_source_and_its_layout_suits_the_model():
    for row in published_runs():
        check_fits_model(row.layout, row.shape, row.batch, row.sequence)
        assert row.source and row.measured > 0


def test_the_printed_table_names_the_worst_row_and_the_calibrated_ones():
    module = table()
    text = "\n".join(module.lines())
    assert "worst: Qwen3-30B-A3B on 16 H100 SXM" in text and text.count("*GPT") + text.count("*Llama") == 3
    assert module.summary(published_runs())["all rows"][1] < 0.15


def test_unbalanced_causal_work_would_explain_torchtitans_long_rows():
    found = table().unbalanced(published_runs())
    assert len(found) == 6 and median(abs(error) for _, error in found) < 0.09
    assert median(abs(row.error) for row, _ in found) > 0.35


# The plan


def test_the_plan_of_405b_on_16384_gpus_takes_less_than_a_second():
    begin = time.process_time()
    found = plan(LLAMA, DGX_H100, 16384, 2048, 8192)
    assert time.process_time() - begin < 1.0 * 2  # twice: a busy machine
    assert found.tried > 5000 and found.best.layout.ranks == 16384
    assert all(one.room.total <= 0.94 * H100.memory for one in found.fitting)
    assert found.best.seconds < found.of(META).seconds and 1 < found.place(META) < len(found.fitting) / 10
    assert found.place(found.best.layout) == 1


def test_the_memory_of_a_gpu_can_be_told():
    less, as_told = (plan(SMALL, DGX_H100, 64, 64, 8192, memory=memory) for memory in (20e9, H100.memory))
    assert as_told.fitting == plan(SMALL, DGX_H100, 64, 64, 8192).fitting and less.node.gpu.memory == 20e9
    assert len(less.fitting) < len(as_told.fitting) and max(one.room.total for one in less.fitting) <= 0.94 * 20e9


def test_the_plan_is_the_best_of_all_layouts():
    everything = []
    for layout in layouts(SMALL, DGX_H100, 16, 64, 8192, ("none", "full"), (1, 2, 4, 8)):
        if layout_memory(SMALL, layout, 64, 8192).total <= 0.94 * H100.memory:
            everything.append(layout_time(SMALL, layout, DGX_H100, 64, 8192).seconds)
    found = plan(SMALL, DGX_H100, 16, 64, 8192)
    assert found.best.seconds == min(everything) and len(found.fitting) == len(everything)


def test_no_layout_is_both_faster_and_smaller_than_one_of_the_pareto_line():
    found = plan(SMALL, DGX_H100, 64, 64, 8192)
    line = {(one.seconds, one.room.total) for one in found.pareto}
    for seconds, size in line:
        assert not any(one.seconds < seconds and one.room.total < size for one in found.fitting)


def test_what_does_not_fit_says_by_how_much_and_how_many_gpus_would():
    words = r"needs \d+\.\d GB of 75\.2 GB on each, \d+\.\d GB too much.*at least 104 GPUs are needed"
    with pytest.raises(NothingFits, match=words) as told:
        plan(LLAMA, DGX_H100, 64, 64, 8192)
    assert "Llama-3-405B does not fit on 64 x H100 SXM" in str(told.value)
    assert plan(LLAMA, DGX_H100, 128, 128, 8192).fitting


def test_activations_that_do_not_fit_are_told_apart():
    with pytest.raises(NothingFits, match="are activations, which more data ranks do not cut"):
        plan(SMALL, DGX_H100, 1, 8, 1 << 20)


def test_a_batch_that_nobody_can_cut_is_a_sentence():
    with pytest.raises(ValueError, match="batch = 7: no layout of 16,384 GPUs can use it"):
        plan(LLAMA, DGX_H100, 16384, 7, 8192)


def test_experts_are_spread_over_the_ranks_of_a_stage():
    found = plan(MODELS["DeepSeek-V3"], GB200_NVL72, 144, 2880, 4096, Recipe("fp8"))
    assert found.best.layout.ep > 1


def test_a_tiny_model_needs_no_model_parallelism():
    best = plan(TINY_GPT, DGX_H100, 4, 16, 128).best.layout
    assert (best.tp, best.cp, best.pp, best.dp) == (1, 1, 1, 4)
