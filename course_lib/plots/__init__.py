"""Pictures: each function takes a result or plain data, draws it, and returns the matplotlib Axes."""

from course_lib.plots.canvas import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    RED,
    SERIES,
    SKY,
    SMALLEST,
    WIDTH,
    YELLOW,
    legend_below,
    new_axes,
)
from course_lib.plots.chunks import shards, shards_text
from course_lib.plots.collectives import all_reduce_costs, before_after, before_after_text, seconds_over_size
from course_lib.plots.cuts import cut_product
from course_lib.plots.ladder import ladder, ladder_text
from course_lib.plots.memory import memory_bars, memory_timeline
from course_lib.plots.roof import roofline
from course_lib.plots.serving import latencies, trade_off
from course_lib.plots.sizes import bandwidth, bytes_text
from course_lib.plots.time import KINDS, OTHER, PIPELINE, WAITING, time_unit, timeline
from course_lib.plots.words import Picture, as_html, say, words_of

__all__ = [
    "BLUE",
    "GREEN",
    "GREY",
    "KINDS",
    "ORANGE",
    "OTHER",
    "PIPELINE",
    "PURPLE",
    "Picture",
    "RED",
    "SERIES",
    "SKY",
    "SMALLEST",
    "WAITING",
    "WIDTH",
    "YELLOW",
    "all_reduce_costs",
    "as_html",
    "bandwidth",
    "before_after",
    "before_after_text",
    "bytes_text",
    "ladder",
    "ladder_text",
    "cut_product",
    "latencies",
    "legend_below",
    "memory_bars",
    "memory_timeline",
    "new_axes",
    "roofline",
    "say",
    "seconds_over_size",
    "shards",
    "shards_text",
    "time_unit",
    "timeline",
    "trade_off",
    "words_of",
]
