"""How many bytes a GPU must hold to train or serve a model; GB = 1e9 bytes everywhere."""

from course_lib.memory.parts import (
    OPTIMIZERS,
    PRECISIONS,
    Precision,
    activation_bytes,
    check_layout,
    kv_cache_bytes,
    layer_activation_bytes,
    layers_of_stage,
    logit_bytes,
    model_state_bytes,
    parameters_on_rank,
)
from course_lib.memory.training import Breakdown, forwards_in_flight, largest_model_that_fits, readable, training_memory

__all__ = [
    "OPTIMIZERS",
    "PRECISIONS",
    "Breakdown",
    "Precision",
    "activation_bytes",
    "check_layout",
    "forwards_in_flight",
    "kv_cache_bytes",
    "largest_model_that_fits",
    "layer_activation_bytes",
    "layers_of_stage",
    "logit_bytes",
    "model_state_bytes",
    "parameters_on_rank",
    "readable",
    "training_memory",
]
