"""Who does what on a cluster: layouts, what they hold, how long a step takes, the best one, and published runs beside.

    found = plan(MODELS["Llama-3-405B"], DGX_H100, gpus=16384, batch=2048, sequence=8192)
    found.best.layout, found.best.seconds, found.best.room
"""

from course_lib.planning.layout import AXES, Layout, check_fits_model, groups, microbatches
from course_lib.planning.published import Published, published_runs
from course_lib.planning.recipe import REACHED, Recipe
from course_lib.planning.room import Room, layout_memory
from course_lib.planning.search import NothingFits, Plan, Planned, plan
from course_lib.planning.step import Step, layout_time, with_ports

__all__ = [
    "AXES",
    "REACHED",
    "Layout",
    "NothingFits",
    "Plan",
    "Planned",
    "Published",
    "Recipe",
    "Room",
    "Step",
    "check_fits_model",
    "groups",
    "layout_memory",
    "layout_time",
    "microbatches",
    "plan",
    "published_runs",
    "with_ports",
]
