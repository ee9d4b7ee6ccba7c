"""Pipeline orders as data, the rules they must keep, and a replay that times them. Imports neither torch nor processes.

    schedule = one_f_one_b(stages=4, microbatches=8)
    schedule                          # a line per rank: F0 F1 F2 F3 B0 F4 ...
    validate(schedule)                # raises ScheduleError, which names the first broken rule
    play(schedule, forward=1, backward=1, weight=1).seconds

`course_lib.schedules.executor` runs a schedule with real tensors (it needs torch).
"""

from course_lib.schedules.actions import (
    Action,
    Schedule,
    ScheduleError,
    as_schedule,
    both_ways,
    looped,
    split_backward,
    v_shaped,
    whole_backward,
)  # fmt: skip
from course_lib.schedules.orders import (
    chimera,
    dual_pipe_v,
    gpipe,
    interleaved,
    one_f_one_b,
    pipedream,
    zb_h1,
    zb_h2,
    zb_v,
)  # fmt: skip
from course_lib.schedules.replay import Played, Span, measured, play, validate
from course_lib.schedules.table import comparison, comparison_text, row_of

__all__ = [
    "Action", "Played", "Schedule", "ScheduleError", "Span", "as_schedule", "both_ways", "chimera",
    "comparison", "comparison_text", "dual_pipe_v", "gpipe", "interleaved", "looped", "measured", "one_f_one_b",
    "pipedream", "play", "row_of", "split_backward", "v_shaped", "validate",
    "whole_backward", "zb_h1", "zb_h2", "zb_v",
]  # fmt: skip
