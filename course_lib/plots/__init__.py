"""Pictures: each function takes a result or plain data, draws it, and returns the matplotlib Axes."""

from course_lib.plots.answer import one_answer
from course_lib.plots.canvas import (
    ACTIVATIONS,
    BACKWARD,
    BLUE,
    COLLECTIVE,
    COMPUTE,
    FACES,
    FORWARD,
    GRADIENTS,
    GREEN,
    GREY,
    INK,
    LIMIT,
    OPTIMIZER,
    ORANGE,
    PURPLE,
    RECEIVED,
    RED,
    SENT,
    SERIES,
    SKY,
    SMALLEST,
    TITLE,
    WAITING,
    WEIGHTS,
    WIDTH,
    YELLOW,
    Picture,
    arrow,
    as_html,
    box,
    legend_below,
    new_axes,
    say,
    sheet,
    words_of,
)
from course_lib.plots.chunks import cut_product, shards, shards_text
from course_lib.plots.collectives import (
    all_reduce_costs,
    bandwidth,
    before_after,
    before_after_text,
    bytes_text,
    seconds_over_size,
)
from course_lib.plots.fits import activation_growth, store_serve_train
from course_lib.plots.four_traces import four_traces
from course_lib.plots.kv_cache import block_tables, token_passes
from course_lib.plots.layer import layer_matrices
from course_lib.plots.memory import ladder, ladder_text, memory_bars, memory_timeline, strategy_bars
from course_lib.plots.messages import messages
from course_lib.plots.nodes import node_groups, two_levels
from course_lib.plots.number_formats import number_formats
from course_lib.plots.patterns import call_order, doubling, owners, who_talks
from course_lib.plots.race import race
from course_lib.plots.ranks import many_copies, one_model, separate_memories, who_to_whom
from course_lib.plots.ring import chunk_journey, ring_step, star_and_ring
from course_lib.plots.routes import split_backward, stage_routes
from course_lib.plots.scaling import seconds_over_ranks
from course_lib.plots.sizes import message_sizes
from course_lib.plots.sliders import explore
from course_lib.plots.speed import latencies, roofline, trade_off
from course_lib.plots.time import KINDS, OTHER, PIPELINE, time_unit, timeline
from course_lib.plots.timelines import timelines
from course_lib.plots.traces import traces
from course_lib.plots.tree import tree_rounds
from course_lib.plots.waiting import batch_gain, bill, knees, slots_in_time, stall

__all__ = [
    "ACTIVATIONS",
    "BACKWARD",
    "BLUE",
    "COLLECTIVE",
    "COMPUTE",
    "FACES",
    "FORWARD",
    "GRADIENTS",
    "GREEN",
    "GREY",
    "INK",
    "KINDS",
    "LIMIT",
    "OPTIMIZER",
    "ORANGE",
    "OTHER",
    "PIPELINE",
    "PURPLE",
    "Picture",
    "RECEIVED",
    "RED",
    "SENT",
    "SERIES",
    "SKY",
    "SMALLEST",
    "TITLE",
    "WAITING",
    "WEIGHTS",
    "WIDTH",
    "YELLOW",
    "activation_growth",
    "all_reduce_costs",
    "arrow",
    "as_html",
    "bandwidth",
    "batch_gain",
    "before_after",
    "before_after_text",
    "block_tables",
    "bill",
    "box",
    "bytes_text",
    "call_order",
    "chunk_journey",
    "cut_product",
    "doubling",
    "explore",
    "four_traces",
    "knees",
    "ladder",
    "ladder_text",
    "latencies",
    "layer_matrices",
    "legend_below",
    "many_copies",
    "memory_bars",
    "memory_timeline",
    "message_sizes",
    "messages",
    "new_axes",
    "node_groups",
    "number_formats",
    "one_answer",
    "one_model",
    "owners",
    "race",
    "ring_step",
    "roofline",
    "say",
    "seconds_over_ranks",
    "seconds_over_size",
    "separate_memories",
    "shards",
    "shards_text",
    "sheet",
    "slots_in_time",
    "split_backward",
    "stage_routes",
    "stall",
    "star_and_ring",
    "store_serve_train",
    "strategy_bars",
    "time_unit",
    "timeline",
    "timelines",
    "token_passes",
    "traces",
    "trade_off",
    "tree_rounds",
    "two_levels",
    "who_talks",
    "who_to_whom",
    "words_of",
]
