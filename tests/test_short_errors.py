"""What a notebook shows of a call of the course that goes wrong: one sentence and the learner's line, in a kernel."""

from __future__ import annotations

import pytest
from jupyter_client.manager import start_new_kernel

from course_lib import borrow
from exercises_tests.tools.chapters import ChapterError, find

IMPORTS = """import torch
from course_lib import Cluster, Event, borrow, compare, models, plots, run
from course_lib.models import MODELS
from course_lib.plots import explore, timeline
from exercises_tests.ch00_start_here import check_exchange
def total(dist):
    return dist.get_rank()
def shifted(dist, by):
    return dist.get_rank() + by
mine = torch.ones(1)
def own(number):
    return number.missing
"""
SECONDS = 60
SHORT = {
    "timeline(5)": ["TypeError: timeline(5) does not work: ", "it takes timeline(result, ", "Draw what each rank did"],
    "Cluster(bandwith=1)": ["TypeError: Cluster does not take bandwith=: did you mean bandwidth?"],
    "compare(3, 4, units='s')": ["TypeError: compare does not take units=: did you mean unit?"],
    "compare(3)": ["compare() missing 1 required positional argument: 'measured': it takes compare(guess, measured, "],
    "check_exchange()": ["TypeError: check_exchange judges your function, given by name: check_exchange(exchange)"],
    "total()": ["TypeError: total runs on ranks, and run gives each rank its dist: run(total, ranks=4)"],
    "shifted(3)": ["run(shifted, by, ranks=4)"],
    "borrow('exchnge')": ["LookupError: there is no exercise 'exchnge'; did you mean exchange?"],
    "timelin(3)": ["NameError: name 'timelin' is not defined: did you mean timeline?"],
    "Results": ["NameError: name 'Results' is not defined: from course_lib import Results"],
    "plots.timelin": ["AttributeError: course_lib.plots has no 'timelin': did you mean timeline?"],
    "run(total, ranks=2, on=Cluster()).second": ["AttributeError: Results has no 'second': did you mean seconds?"],
    "run(total, ranks=2, on=Cluster())[7]": ["IndexError: rank 7 of 2: ranks are numbered from 0 to 1"],
    "from course_lib import Clustr": ["ImportError: course_lib has no 'Clustr': did you mean Cluster?"],
    "import course_lib.modles": ["course_lib has no module 'modles': did you mean models?"],
    "from course_lib import Runn": ["ImportError: course_lib has no 'Runn': did you mean run?"],
    "MODELS['Llama-3-8b']": ["KeyError: MODELS has no 'Llama-3-8b': did you mean Llama-3-8B?"],
    "models.MODELS['Llama']": ["MODELS has no 'Llama': did you mean Llama-2-7B or ", "Llama-3-405B?"],
    "models.parameter_count('Llama-3-8B')": ["; did you mean MODELS['Llama-3-8B']?"],
    "check_gpipe(3)": ["NameError: name 'check_gpipe' is not defined: run the cell with the imports first"],
    "from exercises_tests.ch00_start_here import check_qqqqqqqqq": ["has no 'check_qqqqqqqqq': it has check_e"],
    "check_exchange(exchange)": ["`exchange` is an exercise that is not written or not run yet: write it, or borrow "],
    "Event(3)": ["'start', 'end', and 'posted': it takes Event(rank, kind, start, end, posted, "],
    "borrow(total)": ["TypeError: an exercise is named in quotes, as in borrow('total')"],
    "borrow('ch03')": ["LookupError: 'ch03' is a chapter: borrow one of its exercises, reduce_scatter_ring, "],
    "borrow('zzzz')": ["there is no exercise 'zzzz'; it is the name of the function to write"],
    "compare(3, '4')": ["TypeError: compare your guess with a number, not with '4': compare(guess, measured)"],
    "run(total, ranks=2, on=Cluster())['0']": ["TypeError: '0' is no rank: give its number, from 0 to 1"],
    "run(total, ranks=2, on=Cluster()).valus": ["Results has no 'valus': it has bytes_charged, bytes_received, "],
    "run(lambda dist: dist.sent(mine, 0), ranks=2)": ["has no attribute 'sent'; did you mean send?"],
    "run(lambda dist: dist.sent(mine, 0), ranks=2, on=Cluster())": ["has no sent; did you mean send?"],
    "run(lambda dist: torch.distributed.barrier(), ranks=2, on=Cluster())": ["call dist, the argument of your func"],
    "run(lambda dist: mine.clne(), ranks=1)": ["'Tensor' object has no attribute 'clne'; did you mean clone?"],
    "run(lambda dist, rank=0: rnak, ranks=1)": ["name 'rnak' is not defined; did you mean rank?"],
    "run(lambda dist: toatl, ranks=1)": ["name 'toatl' is not defined; did you mean total?"],
    "pair = (mine, 2); pair[0] += 1": ["the tuple pair stay as they are", ": pair[0].add_(1), or mine = pair[0]"],
    "explore(lambda a: None, a=(3, 1))": ["ValueError: a=(3, 1) holds no value"],
}  # fmt: skip


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """Run a cell in a kernel; return what it shows of its error, and its reply."""
    manager, client = start_new_kernel(cwd=str(tmp_path_factory.mktemp("work")))

    def run(source: str) -> tuple[str, dict]:
        shown: list[str] = []

        def keep(message):
            content = message["content"]
            shown.extend(content.get("traceback") or filter(None, [content.get("data", {}).get("text/plain")]))

        reply = client.execute_interactive(source, output_hook=keep, timeout=SECONDS)
        return "\n".join(shown), reply["content"]

    assert run(IMPORTS)[1]["status"] == "ok"
    yield run
    client.stop_channels()
    manager.shutdown_kernel(now=True)


@pytest.mark.parametrize("source", SHORT)
def test_a_call_that_goes_wrong_is_told_in_a_few_lines_with_the_learners_own(told, source):
    said, reply = told(source)
    assert reply["status"] == "error"
    assert [words for words in SHORT[source] if words not in said] == []
    assert len(said.splitlines()) <= 3 and "course_lib/" not in said and "---" not in said
    assert said.splitlines()[-1].startswith("    line 1 of cell [") or "check_exchange" in source


@pytest.mark.parametrize("source", ["own(3)", "[1][5]", "explore(lambda a: own(a), a=(1, 3))", "1 / 0"])
def test_what_goes_wrong_in_the_learners_own_code_keeps_its_traceback(told, source):
    assert "Traceback (most recent call last)" in told(source)[0]


def test_all_lines_can_still_be_seen(told):
    told("timeline(5)")
    said, _ = told("%tb")
    assert "course_lib/plots/time.py" in said and "Traceback" in said


def test_a_refused_answer_is_shown_as_a_card_and_fails_its_cell(told):
    said, reply = told("def exchange(*anything):\n    raise NotImplementedError\ncheck_exchange(exchange)")
    assert said.startswith("✗ exchange   Not written yet")
    assert (reply["status"], reply["ename"], reply["traceback"]) == ("error", "CheckFailed", [said])


def test_a_guess_that_cannot_be_read_ends_its_cell_before_a_picture_tells_the_answer_and_once(told):
    cell = "compare((1, 5), 3)\nprint('drawn')"
    said, reply = told(cell)
    assert said.startswith("(1, 5) is two numbers") and "The answer is not shown yet." in said
    assert (reply["status"], reply["ename"], reply["traceback"]) == ("error", "Waits", [said])
    said, reply = told(cell)
    assert said.endswith("measured 3") and reply["status"] == "ok"


def test_a_name_that_is_nearly_an_exercise_is_asked_for():
    with pytest.raises(LookupError, match="no exercise 'ring_all_reduc'; did you mean ring_all_reduce?"):
        borrow("ring_all_reduc")


@pytest.mark.parametrize("name", ["ch3", "3", "ch03", "ch03_ring_all_reduce"])
def test_a_chapter_is_found_by_its_number_in_any_form(name):
    assert find(name).name == "ch03_ring_all_reduce"


@pytest.mark.parametrize("name", ["ring", "ch03_ring", "ch3_ring_all_reduce", "ch03-ring-all-reduce"])
def test_a_name_that_is_nearly_a_chapter_is_asked_for(name):
    with pytest.raises(ChapterError, match="did you mean ch03_ring_all_reduce?"):
        find(name)


@pytest.mark.parametrize("name", ["ch77", "", "no such thing", "ch²"])
def test_a_name_that_is_no_chapter_lists_them(name):
    with pytest.raises(ChapterError, match="this course has ch00_"):
        find(name)
