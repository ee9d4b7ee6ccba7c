"""Pictures: each function takes a result or plain data, draws it, and returns the matplotlib Axes."""

from course_lib import short_errors
from course_lib.plots.active import layer_by_width, rates_by_length, total_and_active
from course_lib.plots.agents import agents_and_workers
from course_lib.plots.answer import one_answer
from course_lib.plots.arrivals import arrivals
from course_lib.plots.bills import bill
from course_lib.plots.buckets import bucket_plan
from course_lib.plots.busiest import busiest_rank
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
from course_lib.plots.chunk_strips import chunk_strips
from course_lib.plots.chunks import cut_product, shards, shards_text
from course_lib.plots.collectives import bandwidth, before_after, before_after_text, bytes_text, seconds_over_size
from course_lib.plots.comb import comb
from course_lib.plots.commits import crash_points, save_beside, two_phases
from course_lib.plots.copies import copies_on_gpus
from course_lib.plots.cut_costs import layer_times, token_times, toy_beside_real
from course_lib.plots.cut_layers import cut_layer, sequence_parallel, ways_to_cut
from course_lib.plots.drift import drift
from course_lib.plots.experts import expert_layer
from course_lib.plots.failures import failing_day, goodput_over_interval, interruptions
from course_lib.plots.fits import activation_growth, store_serve_train
from course_lib.plots.flattered import flattered
from course_lib.plots.float_bits import float_bits
from course_lib.plots.fullest import fullest_moment
from course_lib.plots.fused_cuts import cut_gate_and_up, cut_heads, saved_by_a_layer, shared_heads
from course_lib.plots.goodput import goodput_over_rate
from course_lib.plots.kept_tensors import kept_tensors
from course_lib.plots.kernel_traces import kernel_traces, trace_of
from course_lib.plots.kv_cache import block_tables, token_passes
from course_lib.plots.lanes import gradients_leave, hook_lanes, lanes
from course_lib.plots.late_rank import four_ranks, late_barrier, late_rank, slow_rank
from course_lib.plots.late_runs import late_runs
from course_lib.plots.launches import launch_order
from course_lib.plots.layer import layer_matrices
from course_lib.plots.layouts import predicted_and_measured, step_parts, under_way
from course_lib.plots.lifetimes import lifetimes
from course_lib.plots.loads import load_maps, seats
from course_lib.plots.long_sequences import (
    causal_work,
    hidden_rounds,
    ring_of_keys,
    shrinking_sum,
    zigzag_blocks,
)
from course_lib.plots.losses import fault_losses, smoothed_losses
from course_lib.plots.marks import mark_idle, mark_put_off, mark_span, mark_stairs, mark_way
from course_lib.plots.measured_step import memory_timeline, memory_timelines
from course_lib.plots.memory import ladder, memory_bars, strategy_bars
from course_lib.plots.mesh import mesh_of_ranks
from course_lib.plots.message_cost import message_cost
from course_lib.plots.messages import messages
from course_lib.plots.mixed_precision import mixed_step
from course_lib.plots.nodes import node_groups, two_levels
from course_lib.plots.number_formats import number_formats
from course_lib.plots.orders import orders_of_adding
from course_lib.plots.overlap import overlapped_block
from course_lib.plots.passes import link_over_time, tokens_over_nodes, walk_round_nodes
from course_lib.plots.patterns import call_order, doubling, owners, who_talks
from course_lib.plots.pipelines import count_waiting, held_over_time, on_one_axis, round_trip
from course_lib.plots.plans import plans_that_fit
from course_lib.plots.port_rates import faulty_network, suspects, times_between_nodes
from course_lib.plots.promises import promised_blocks
from course_lib.plots.protocols import flags_beside_data, one_shot_times, protocol_flags, protocol_lines
from course_lib.plots.quarters import cut_all_reduce, gather_use_free
from course_lib.plots.race import race
from course_lib.plots.ranks import many_copies, one_model, separate_memories, who_to_whom
from course_lib.plots.rates import rates_over_size
from course_lib.plots.recorders import recorder_dumps
from course_lib.plots.replicas import replicas
from course_lib.plots.resharding import resharded
from course_lib.plots.ring import chunk_journey, ring_step, star_and_ring
from course_lib.plots.roofs import roofline
from course_lib.plots.routes import split_backward, stage_routes
from course_lib.plots.rows import rectangle_and_row, rows_of_steps, static_batch
from course_lib.plots.sawtooth import sawtooth
from course_lib.plots.scaling import seconds_over_ranks
from course_lib.plots.sizes import message_sizes
from course_lib.plots.slices import exposed_gradients, slices
from course_lib.plots.sliders import explore
from course_lib.plots.small_ring import ring_pieces
from course_lib.plots.speed import latencies
from course_lib.plots.splits import latency_and_bytes
from course_lib.plots.stages import cut_model, one_cut, pipeline_of_nodes, price_of_cuts
from course_lib.plots.staleness import stale_gradient
from course_lib.plots.states import three_states
from course_lib.plots.stragglers import straggler_trace
from course_lib.plots.streams import streams
from course_lib.plots.teeth import sawtooth_measured
from course_lib.plots.time import KINDS, OTHER, PIPELINE, time_unit, timeline
from course_lib.plots.timelines import timelines
from course_lib.plots.traces import traces
from course_lib.plots.tree import tree_rounds
from course_lib.plots.trips import once_per_node, token_trips, uneven_pieces
from course_lib.plots.twin_trees import two_trees
from course_lib.plots.typed import typed_layout
from course_lib.plots.units import peaks
from course_lib.plots.waiting import batch_gain, longest_gap, stall
from course_lib.plots.ways import rails, rings_and_ports, switch_adds, way_between_gpus
from course_lib.plots.winners import seconds_over_nodes

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
    "agents_and_workers",
    "arrivals",
    "arrow",
    "as_html",
    "bandwidth",
    "batch_gain",
    "before_after",
    "before_after_text",
    "bill",
    "block_tables",
    "box",
    "bucket_plan",
    "busiest_rank",
    "bytes_text",
    "call_order",
    "causal_work",
    "chunk_journey",
    "chunk_strips",
    "comb",
    "copies_on_gpus",
    "count_waiting",
    "crash_points",
    "cut_all_reduce",
    "cut_gate_and_up",
    "cut_heads",
    "cut_layer",
    "cut_model",
    "cut_product",
    "doubling",
    "drift",
    "expert_layer",
    "explore",
    "exposed_gradients",
    "failing_day",
    "fault_losses",
    "faulty_network",
    "flags_beside_data",
    "flattered",
    "float_bits",
    "four_ranks",
    "fullest_moment",
    "gather_use_free",
    "goodput_over_interval",
    "goodput_over_rate",
    "gradients_leave",
    "hidden_rounds",
    "hook_lanes",
    "held_over_time",
    "interruptions",
    "kept_tensors",
    "kernel_traces",
    "ladder",
    "lanes",
    "late_barrier",
    "late_rank",
    "late_runs",
    "latencies",
    "latency_and_bytes",
    "launch_order",
    "layer_by_width",
    "layer_matrices",
    "layer_times",
    "legend_below",
    "lifetimes",
    "link_over_time",
    "load_maps",
    "longest_gap",
    "many_copies",
    "mark_idle",
    "mark_put_off",
    "mark_span",
    "mark_stairs",
    "mark_way",
    "memory_bars",
    "memory_timeline",
    "memory_timelines",
    "mesh_of_ranks",
    "message_cost",
    "message_sizes",
    "messages",
    "mixed_step",
    "new_axes",
    "node_groups",
    "number_formats",
    "on_one_axis",
    "once_per_node",
    "one_answer",
    "one_cut",
    "one_model",
    "one_shot_times",
    "orders_of_adding",
    "overlapped_block",
    "owners",
    "pipeline_of_nodes",
    "peaks",
    "plans_that_fit",
    "predicted_and_measured",
    "price_of_cuts",
    "promised_blocks",
    "protocol_flags",
    "protocol_lines",
    "race",
    "rails",
    "rates_by_length",
    "rates_over_size",
    "recorder_dumps",
    "rectangle_and_row",
    "replicas",
    "resharded",
    "ring_of_keys",
    "ring_pieces",
    "ring_step",
    "rings_and_ports",
    "roofline",
    "round_trip",
    "rows_of_steps",
    "save_beside",
    "saved_by_a_layer",
    "sawtooth",
    "sawtooth_measured",
    "say",
    "seats",
    "seconds_over_nodes",
    "seconds_over_ranks",
    "seconds_over_size",
    "separate_memories",
    "sequence_parallel",
    "shards",
    "shards_text",
    "shared_heads",
    "sheet",
    "shrinking_sum",
    "slices",
    "slow_rank",
    "smoothed_losses",
    "split_backward",
    "stage_routes",
    "stale_gradient",
    "stall",
    "star_and_ring",
    "static_batch",
    "step_parts",
    "store_serve_train",
    "straggler_trace",
    "strategy_bars",
    "streams",
    "suspects",
    "switch_adds",
    "three_states",
    "time_unit",
    "timeline",
    "timelines",
    "times_between_nodes",
    "tokens_over_nodes",
    "token_passes",
    "token_times",
    "token_trips",
    "total_and_active",
    "toy_beside_real",
    "trace_of",
    "traces",
    "tree_rounds",
    "typed_layout",
    "two_levels",
    "two_phases",
    "two_trees",
    "under_way",
    "uneven_pieces",
    "walk_round_nodes",
    "way_between_gpus",
    "ways_to_cut",
    "who_talks",
    "who_to_whom",
    "words_of",
    "zigzag_blocks",
]

short_errors.install()  # a chapter begins with a picture
