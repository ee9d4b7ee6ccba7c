"""Chapter 9: what a learner is told to run shows the mistake."""

from __future__ import annotations

import pytest

from exercises_tests import ch09_more_schedules as checks
from solutions import ch09_more_schedules as solutions


def test_what_a_learner_is_told_to_run_for_chimera_runs():
    from course_lib.schedules import ScheduleError, both_ways, validate

    def chimera(stages, microbatches):
        return [row[:-2] for row in solutions.chimera(stages, microbatches)]

    see = checks.check_chimera.outcome(chimera).see
    with pytest.raises(ScheduleError, match="sum them"):
        eval(see, {"validate": validate, "both_ways": both_ways, "chimera": chimera})


def test_a_short_warm_up_is_named_because_the_text_is_about_the_long_one():
    from wrong_answers.ch09_more_schedules import with_a_shorter_warm_up

    assert "short warm-up" in str(checks.check_interleaved.outcome(with_a_shorter_warm_up))
    assert "short warm-up" not in str(checks.check_interleaved.outcome(solutions.interleaved))
