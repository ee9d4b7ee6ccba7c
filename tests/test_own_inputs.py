"""Each learner's own inputs: a table of another learner's numbers is refused, and a right answer never is."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from exercises_tests import seeds
from exercises_tests.judging import check
from exercises_tests.tools.chapters import ROOT, chapters

PLAIN = {
    "ch01": "parameter_count model_state_bytes training_days activation_bytes is_memory_bound total_and_active",
    "ch03": "which_is_the_ring",
    "ch04": "plan_buckets best_bucket_bytes linear_backward",
    "ch05": "matmul_row_split sequence_parallel_bytes",
    "ch06": "bubble_fraction gpipe one_f_one_b why_one_f_one_b split_layers",
    "ch07": "shard communication_bytes",
    "ch08": "kv_cache_bytes decode_lower_bound fill_row continuous_batches adaptive_batches",
    "ch09": "interleaved zero_bubble chimera read_the_table",
    "ch10": "fit_alpha_beta choose_protocol rails_seconds collective_seconds crossover_bytes in_network_seconds "
            "congested diagnose",
    "ch11": "balance_bias node_limited_routing all_to_all_bytes which_layout",
    "ch12": "mesh_groups place_axes zigzag rank_memory step_seconds",
    "ch13": "best_checkpoint_interval find_culprit find_straggler goodput spare_nodes",
}
"""The exercises whose answers take plain data and return it: the only ones that a table of copied values can answer.

In all others ranks have to send: what they sum is drawn from the seed, and their bytes and messages are counted; or the
answer is a class, takes a model, keeps gradients, or hands out a function. `plan` is not drawn: its cases are models
that there are, and a table of them is eleven layouts and two sentences.
"""
NOT_KEPT = ("continuous_batches", "which_layout", "mesh_groups", "split_layers")
"""Of these a table cannot be copied whole: they refuse, are given a function, or have a case in another process."""
ALL = [(chapter, name) for chapter, names in PLAIN.items() for name in names.split()]
MODULES = {chapter.name[:4]: chapter.name for chapter in chapters()}


def told(value: object) -> str:
    """Return what an answer was given, as text that another process would write, too."""
    if isinstance(value, torch.Tensor | np.ndarray):
        return f"{value.dtype} {value.tolist()}"
    if isinstance(value, dict):
        return f"{[(key, told(one)) for key, one in value.items()]}"
    return f"{[told(one) for one in value]}" if isinstance(value, list | tuple) else repr(value)


def table_of(answer: Callable, values: dict) -> Callable:
    """Return the answer, which writes down what it returns for each case."""

    def kept(*case, **more):
        key = told([*case, more])
        values[key] = answer(*case, **more)
        return values[key]

    return kept


def copied(values: dict, name: str) -> Callable:
    """Return what a learner hands in who has only a table of values: for an unknown case any of them."""

    def answer(*case, **more):
        return values.get(told([*case, more]), next(iter(values.values())))

    answer.__name__ = answer.__qualname__ = name
    return answer


def judged(chapter: str, name: str, seed: int, answer: Callable, monkeypatch) -> object:
    monkeypatch.setenv("COURSE_SEED", str(seed))
    return getattr(importlib.import_module(f"exercises_tests.{MODULES[chapter]}"), f"check_{name}").outcome(answer)


def test_the_page_on_grading_says_how_many_of_the_exercises_these_are():
    page = " ".join((ROOT / "docs" / "grading.md").read_text(encoding="utf-8").split())
    assert f"({len(ALL) + 1} of {sum(len(chapter.exercises) for chapter in chapters())})" in page  # with `plan`


@pytest.mark.parametrize(("chapter", "name"), ALL, ids=[f"{chapter}-{name}" for chapter, name in ALL])
def test_a_table_of_anothers_numbers_is_refused_and_the_answer_itself_is_not(chapter, name, monkeypatch):
    answer = getattr(importlib.import_module(f"solutions.{MODULES[chapter]}"), name)
    values: dict = {}
    assert judged(chapter, name, 2025, table_of(answer, values), monkeypatch).code == ""
    again = judged(chapter, name, 2025, copied(values, name), monkeypatch)
    assert again.code == "" or name in NOT_KEPT
    found = judged(chapter, name, 31337, copied(values, name), monkeypatch)
    assert found.code and found.earned < found.total and len(found.sentence) > 20
    for seed in (0, 1, 2, 31337):
        assert judged(chapter, name, seed, answer, monkeypatch).earned == found.total


# Who learns here


@check(value=1)
def check_the_drawn(answer, part):
    part("value")
    return f"drew {seeds.drawn('x').randint(0, 10**9)} with {os.environ.get('COURSE_SEED')}"


@pytest.fixture(autouse=True)
def nobody(tmp_path, monkeypatch):
    if "COURSE_LEARNER" in os.environ:
        monkeypatch.delenv("COURSE_LEARNER")
    monkeypatch.chdir(tmp_path)


def drew(capsys) -> str:
    check_the_drawn(len)
    return capsys.readouterr().out


def test_a_learner_named_in_the_folder_always_has_the_same_numbers_and_another_one_others(capsys, tmp_path):
    default = drew(capsys)
    (tmp_path / "learner.txt").write_text("ada\n")
    ada = drew(capsys)
    assert ada == drew(capsys) != default
    (tmp_path / "learner.txt").write_text("bob")
    assert drew(capsys) not in (ada, default)
    assert "COURSE_SEED" not in os.environ


def test_the_variable_counts_before_the_file_and_a_graders_seed_before_both(capsys, tmp_path, monkeypatch):
    (tmp_path / "learner.txt").write_text("ada")
    ada = drew(capsys)
    monkeypatch.setenv("COURSE_LEARNER", "bob")
    assert drew(capsys) != ada
    monkeypatch.setenv("COURSE_SEED", "7")
    assert "with 7" in drew(capsys) and os.environ["COURSE_SEED"] == "7"


@pytest.mark.parametrize("text", [b"", b"\n\n", b"\xef\xbb\xbfada\r\nmore", b"\xff\xfe", b"a" * 10_000])
def test_whatever_stands_in_the_file_a_check_is_judged(capsys, tmp_path, text):
    (tmp_path / "learner.txt").write_bytes(text)
    assert "Drew" in drew(capsys)
    assert len(seeds.learner()) <= 200


def test_a_mark_at_the_beginning_and_more_lines_are_no_part_of_the_name(tmp_path):
    (tmp_path / "learner.txt").write_bytes(b"\xef\xbb\xbf ada \r\nmore")
    assert seeds.learner() == "ada"


def test_no_check_reads_the_seed_but_by_name_of_an_exercise_or_as_it_was():
    """`integers` and `draw` read it themselves: so in a notebook, outside of a check, all learners see the same."""
    for path in Path(ROOT, "exercises_tests").glob("ch*.py"):
        assert "COURSE_LEARNER" not in path.read_text()
