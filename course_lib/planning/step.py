"""How long one training step of a layout takes: kernels, what communication is not hidden, and the bubble.

    seconds = (m + (pp - 1) / chunks) x (one micro-batch on the slowest pipeline rank) + gradients + optimizer

Each term is a formula of an earlier chapter; `tests/test_planning.py` holds them against the simulator.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import NamedTuple

from course_lib.costs import all_to_all_seconds, combine_bytes, rails_seconds
from course_lib.hardware import GPU, Link, Node
from course_lib.models import ModelShape, attention_weights, mlp_weights
from course_lib.planning.layout import Layout, check_fits_model, microbatches
from course_lib.planning.recipe import PASSES, Recipe, reached
from course_lib.planning.room import layer_bytes, layers_on_rank, parameters

STEP_BYTES = 30  # a parameter's optimizer step: 4 + 4 + 4 + 4 bytes read, 12 + 2 written


class Step(NamedTuple):
    """Seconds of one step by what the slowest rank does; their sum is the step."""

    products: float
    """Matrix products of layers and head, those that are computed again among them."""
    attention: float
    memory: float
    """Norms, activation functions and the like: bytes through the GPU's own memory."""
    tensor: float
    context: float
    experts: float
    pipeline: float
    bubble: float
    gradients: float
    """Those of the data and context ranks, as far as backward does not hide them."""
    weights: float
    """New weights of the data and context ranks, as far as forward does not hide them."""
    optimizer: float

    @property
    def data(self) -> float:
        """Return the seconds of gradients and weights together."""
        return self.gradients + self.weights

    @property
    def seconds(self) -> float:
        """Return the seconds of the step."""
        return sum(self)


class Layer(NamedTuple):
    """One layer, one micro-batch, one rank: seconds of forward and backward, and what is computed again."""

    forward: float
    """Products of forward; backward has twice as much."""
    attention: float
    """Attention kernels of forward."""
    again: float
    """Forward's products that are computed again."""
    attention_all: float
    memory: float


@cache
def carried(link: Link) -> float:
    """Return the bytes/s with which NCCL reckons on a link: its Simple protocol's, or the data sheet's."""
    return next((one.bandwidth for one in link.protocols if one.name == "Simple"), link.bandwidth)


@cache
def quick(link: Link) -> Link:
    """Return the link with the bandwidth that NCCL reckons with, and the latency of its quickest protocol."""
    latency = min((one.latency for one in link.protocols), default=link.latency)
    return Link(link.name, carried(link), latency, link.source)


def with_ports(node: Node, share: float) -> Node:
    """Return a node whose ports carry a share of what their data sheet says, such as 0.8."""
    protocols = tuple(replace(one, bandwidth=one.bandwidth * share) for one in node.nic.protocols)
    return replace(node, nic=replace(node.nic, bandwidth=node.nic.bandwidth * share, protocols=protocols))


@cache
def collective(kind: str, nodes: int, inside: int, size: float, node: Node) -> float:
    """Return the seconds of a collective of `nodes` x `inside` ranks, by rings on every rail."""
    if nodes * inside == 1:
        return 0.0
    return rails_seconds(nodes, inside, size, quick(node.gpu.link), quick(node.nic), kind)


@cache
def layer_seconds(
    shape: ModelShape, micro: int, tokens: int, sequence: int, tp: int, recompute: str, recipe: Recipe, gpu: GPU
) -> Layer:
    """Return the seconds of one layer's kernels for one micro-batch."""
    share, rows = reached(gpu), micro * tokens
    used = shape.experts_per_token + shape.shared_experts
    mlp = used * mlp_weights(shape, shape.expert_ffn) + shape.hidden * shape.experts if shape.experts else mlp_weights(
        shape
    )
    forward = 2 * rows * (attention_weights(shape) + mlp) / tp / (share * gpu.peak(recipe.dtype))
    scores = 2 * rows * sequence * shape.heads * (shape.head_size + shape.value_size) / tp
    kernel = recipe.attention_share or share
    attention = scores / (2 if recipe.flash else 1) / (kernel * gpu.peak("bf16"))
    # backward's attention is twice forward's, and flash computes the scores once more
    times = 3.5 if recipe.flash else 3 if recompute == "none" else 4
    full = recompute == "full"
    part = {"full": 1.0, "half": 0.5}.get(recompute, 0.0)
    saved = layer_bytes(shape, micro, tokens, sequence, tp, "none", recipe)
    memory = (PASSES + 2 * (part > 0)) * saved / gpu.memory_bandwidth
    return Layer(forward, attention, part * forward, (times + (full and recipe.flash)) * attention, memory)


def layout_time(
    shape: ModelShape, layout: Layout, node: Node, batch: int, sequence: int, recipe: Recipe = Recipe()  # noqa: B008
) -> Step:
    """Return the seconds of one step over `batch` sequences of `sequence` tokens, part by part.

    Raises ValueError as a sentence where the layout does not suit the model or the batch.
    """
    check_fits_model(layout, shape, batch, sequence)
    return _step(shape, layout, node, batch, sequence, recipe)


def _step(shape: ModelShape, layout: Layout, node: Node, batch: int, sequence: int, recipe: Recipe) -> Step:
    gpu, tp, cp, pp = node.gpu, layout.tp, layout.cp, layout.pp
    tokens, count = sequence // cp, microbatches(layout, batch)
    layers, rows = layers_on_rank(shape.layers, pp, layout.chunks), layout.micro * sequence // cp
    layer = layer_seconds(shape, layout.micro, tokens, sequence, tp, layout.recompute, recipe, gpu)
    head = 6 * rows * shape.hidden * shape.vocabulary / tp / (reached(gpu) * gpu.peak("bf16"))
    head += 4 * 4 * rows * shape.vocabulary / tp / gpu.memory_bandwidth  # logits in fp32, there and back
    own_head = head if pp == 1 or layers * pp == shape.layers else 0.0  # else the last rank has a layer less

    tensor = _tensor(shape, layout, node, rows, recipe, layer)
    context = _context(shape, layout, node, tokens, layer)
    experts = _experts(shape, layout, node, rows) if layout.ep > 1 else 0.0
    products = layers * (3 * layer.forward + layer.again) + own_head
    one = products + layers * (layer.attention_all + layer.memory + tensor + context + experts)
    message = rows * shape.hidden * 2 / (tp if recipe.sequence_parallel else 1)
    hop = _hop(layout, node, message)
    # 1F1B waits for a message each way of every micro-batch; chunks send while others are computed
    pipeline = (2 * hop * count if layout.chunks == 1 else 2 * hop * (pp - 1)) if pp > 1 else 0.0
    bubble = one * (pp - 1) / layout.chunks
    gradients, weights = _data(shape, layout, node, recipe, layers, one, count)
    shared, of_experts = parameters(shape, tp, pp, layout.chunks, layout.ep)
    mine = shared / (layout.shards if layout.zero else 1)
    mine += of_experts / (max(1, layout.tp * layout.shards // layout.ep) if layout.zero else 1)
    return Step(
        products=count * products,
        attention=count * layers * layer.attention_all,
        memory=count * layers * layer.memory,
        tensor=count * layers * tensor,
        context=count * layers * context,
        experts=count * layers * experts,
        pipeline=pipeline,
        bubble=bubble,
        gradients=gradients,
        weights=weights,
        optimizer=STEP_BYTES * mine / gpu.memory_bandwidth,
    )


def _tensor(shape: ModelShape, layout: Layout, node: Node, rows: int, recipe: Recipe, layer: Layer) -> float:
    """Seconds of a layer's four all-reduces (each a gather and a reduce-scatter, where the sequence is split), not
    hidden. Overlapped, of tp pieces the first cannot hide, and the rest only as far as there is something to compute.
    """
    if layout.tp == 1:
        return 0.0
    nodes, inside = layout.span("tp", node.gpus)
    kind = "all_gather" if recipe.sequence_parallel else "all_reduce"
    pairs = 2 if recipe.sequence_parallel else 1
    one = pairs * collective(kind, nodes, inside, rows * shape.hidden * 2, node)
    times = 4 + (2 if layout.recompute == "full" else 0)
    if not recipe.overlap_tp:
        return times * one
    work = 3 * layer.forward + layer.again
    return times * one / layout.tp + max(0.0, times * one * (1 - 1 / layout.tp) - work)


def _context(shape: ModelShape, layout: Layout, node: Node, tokens: int, layer: Layer) -> float:
    """Seconds for which a ring of keys and values is not hidden behind the blocks of attention that it brings.

    Forward passes keys and values on cp - 1 times, backward them and their gradients: three times as many bytes.
    """
    if layout.cp == 1:
        return 0.0
    nodes, _ = layout.span("cp", node.gpus)
    link = quick(node.nic if nodes > 1 else node.gpu.link)
    keys = max(shape.kv_heads / layout.tp, 1) * (shape.head_size + shape.value_size)
    hop = link.latency + layout.micro * tokens * keys * 2 / link.bandwidth
    work = layer.attention / layout.cp
    return (layout.cp - 1) * (max(0.0, hop - work) + max(0.0, 2 * hop - 2.5 * work))


def _experts(shape: ModelShape, layout: Layout, node: Node, rows: int) -> float:
    """Seconds of the four all-to-alls of a mixture layer: dispatch and combine, and both backward; nothing hidden."""
    share = shape.moe_layers / shape.layers
    size = rows / layout.tp * combine_bytes(shape)
    per_node = min(node.gpus, layout.ep)
    while layout.ep % per_node:
        per_node -= 1
    return 4 * share * all_to_all_seconds(layout.ep, per_node, size, quick(node.gpu.link), quick(node.nic))


def _hop(layout: Layout, node: Node, message: float) -> float:
    """Seconds of one message between pipeline neighbours."""
    link = quick(layout.link("pp", node)) if layout.pp > 1 else None
    return link.latency + message / link.bandwidth if link else 0.0


def scatters_of(layout: Layout, count: int) -> int:
    """Return how often a step scatters gradients: once, or with ZeRO-2 as soon as one is there.

    That is after every micro-batch; with chunks, which work on pp micro-batches in a row (2104.04473, section 2.2),
    after each such round.
    """
    return 1 if layout.zero < 2 else count // layout.pp if layout.chunks > 1 else count


def _data(
    shape: ModelShape, layout: Layout, node: Node, recipe: Recipe, layers: int, one: float, count: int
) -> tuple[float, float]:
    """Seconds for which gradients, and for which weights, of the data and context ranks are not hidden.

    One all-reduce, or a reduce-scatter of gradients and a gather of weights; overlapped with two thirds and one third
    of a micro-batch. ZeRO-2 scatters gradients more often: see `scatters_of`. ZeRO-3 gathers each layer twice for every
    micro-batch, too; a layer is gathered while the one before it computes, and backward's gather counts as gradients.
    """
    ranks = layout.shards
    if ranks == 1:
        return 0.0, 0.0
    # context ranks lie between tensor and data ranks; the group is as far spread as both together
    nodes, inside = layout.span("dp", node.gpus) if layout.dp > 1 else (1, 1)
    if layout.cp > 1:
        more = layout.span("cp", node.gpus)
        nodes, inside = nodes * more[0], inside * more[1]
    shared, experts = parameters(shape, layout.tp, layout.pp, layout.chunks, layout.ep)
    own = shared + (experts if layout.ep < ranks else 0)
    gathers = collective("all_gather", nodes, inside, 2 * own, node)
    scatters = collective("reduce_scatter", nodes, inside, recipe.gradient_bytes * own, node)
    if layout.zero == 3:
        forward, backward = one / layers / 3, 2 * one / layers / 3
        gather, scatter = gathers / layers, scatters / layers
        if not recipe.overlap_dp:
            return count * (gathers + scatters), count * gathers
        late = layers * max(0.0, gather + scatter - backward)
        return count * late, count * (layers * max(0.0, gather - forward) + gather)
    if not recipe.overlap_dp:
        return scatters, gathers if layout.zero else collective("all_gather", nodes, inside, 4 * own, node)
    early = (scatters_of(layout, count) - 1) * max(0.0, scatters - 2 * one / 3)
    return early + max(scatters - 2 * one / 3, scatters / layers), max(gathers - one / 3, gathers / layers)
