"""What one rank of a layout holds while it trains: weights, gradients, optimizer, activations, logits.

The bytes of each part are those of `course_lib.memory`; context parallelism cuts the sequence, and layers may be dealt
out so that the embedding and the head count as one each.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from course_lib.memory.parts import (
    LOGIT_BYTES,
    layer_activation_bytes,
    model_state_bytes,
    parameters_on_rank,
)
from course_lib.memory.training import forwards_in_flight
from course_lib.models import ModelShape
from course_lib.planning.layout import Layout, microbatches
from course_lib.planning.recipe import Recipe


class Room(NamedTuple):
    """The bytes of each part on the rank that holds most."""

    weights: float
    gradients: float
    optimizer: float
    activations: float
    logits: float
    working: float

    @property
    def total(self) -> float:
        """Return the sum of the parts."""
        return sum(self)


@cache
def layers_on_rank(layers: int, pp: int, chunks: int) -> int:
    """Return the layers of the fullest pipeline rank; the embedding and the head count as a layer each if need be.

    As many to each chunk as evenly as can be: 126 layers in 16 x 8 chunks are one each, and two chunks hold the
    embedding and the head only.
    """
    return -(-layers // (pp * chunks)) * chunks if layers >= pp * chunks else chunks


@cache
def parameters(shape: ModelShape, tp: int, pp: int, chunks: int, ep: int) -> tuple[float, float]:
    """Return (all but the experts, experts) of the parameters on the fullest pipeline rank.

    Where the embedding counts as a layer, its rank has a layer less: the fullest is the larger of two ranks.
    """
    whole = parameters_on_rank(shape, tp=tp, ep=ep)
    if pp == 1:
        return whole["shared"], whole["experts"] * tp
    embedding = shape.vocabulary * shape.hidden / tp
    layer = (whole["shared"] - (1 if shape.tied else 2) * embedding) / shape.layers
    layers = layers_on_rank(shape.layers, pp, chunks)
    first = layers * layer + embedding - (0 if layers * pp == shape.layers else layer)
    return max(layers * layer, first), whole["experts"] * tp * layers / shape.layers


@cache
def layer_bytes(
    shape: ModelShape, micro: int, tokens: int, sequence: int, tp: int, recompute: str, recipe: Recipe
) -> float:
    """Return the bytes that one layer saves of one micro-batch (of its `tokens` a sequence on this rank)."""
    kept = "full" if recompute == "full" else "selective" if recipe.flash or recompute == "selective" else "none"
    mask = int(recipe.dropout)
    parts = layer_activation_bytes(
        shape, micro, tokens, kept, mask=mask, tp=tp, sequence_parallel=recipe.sequence_parallel, moe=shape.experts > 0
    )
    saved = parts["attention"] + parts["scores"] * sequence / tokens + parts["mlp"]
    if recipe.fused_mlp and shape.gated and kept != "full":
        used = shape.experts_per_token + shape.shared_experts
        saved -= 2 * micro * tokens * (used * shape.expert_ffn if shape.experts else shape.ffn) / tp
    return saved / 2 if recompute == "half" else saved


def layout_memory(
    shape: ModelShape, layout: Layout, batch: int, sequence: int, recipe: Recipe = Recipe()  # noqa: B008 - frozen
) -> Room:
    """Return the bytes of each part on the fullest rank: the first pipeline stage, with the most micro-batches alive.

    As in `training_memory`: 1F1B or interleaved, mixed precision with a copy of the weights in fp32 and Adam. ZeRO
    shards over data x context ranks (experts over those of them that hold the same experts). "working": what one layer
    needs while it is computed again, a fresh gradient before it is scattered, with ZeRO-3 two gathered layers. Not
    counted: gaps of the allocator, buffers of the communication library, the framework; they add some GB.
    """
    shared, experts = parameters(shape, layout.tp, layout.pp, layout.chunks, layout.ep)
    precision = "bf16 mixed, fp32 gradients" if recipe.gradient_bytes == 4 else "bf16 mixed"
    state = model_state_bytes(shared, precision, "adamw", layout.zero, layout.shards)
    more = model_state_bytes(experts, precision, "adamw", layout.zero, max(1, layout.tp * layout.shards // layout.ep))
    layers = layers_on_rank(shape.layers, layout.pp, layout.chunks)
    tokens = sequence // layout.cp
    place = (shape, layout.micro, tokens, sequence, layout.tp)
    layer = layer_bytes(*place, layout.recompute, recipe)
    ends = 4 * layout.micro * tokens * shape.hidden / (layout.tp if recipe.sequence_parallel else 1) * (layout.pp == 1)
    alive = forwards_in_flight(layout.pp, 0, layout.chunks, microbatches(layout, batch))
    again = layer_bytes(*place, "none", recipe) if layout.recompute in ("half", "full") else 0
    gathered = 2 * 2 * (shared + experts) / layers if layout.zero == 3 and layout.shards > 1 else 0
    # a chunk's gradient is whole until it is scattered
    fresh = recipe.gradient_bytes * (shared + experts) / layers if layout.zero >= 2 and layout.shards > 1 else 0
    fresh *= layers / layout.chunks if layout.zero == 2 and layout.chunks > 1 else 1
    logits = LOGIT_BYTES * layout.micro * tokens * shape.vocabulary / layout.tp * (2 if layout.pp == 1 else 0)
    return Room(
        *(state[part] + more[part] for part in ("weights", "gradients", "optimizer")),
        activations=layers * layer * alive + ends,  # of the last norm and the head
        logits=logits,
        working=again + gathered + fresh,
    )
