"""Chapter 5: a stub of a class is not written yet, like that of a function."""

from __future__ import annotations

import pytest
import torch

from exercises_tests import ch05_tensor_parallel as checks


@pytest.mark.parametrize("check", [checks.check_CopyToRanks, checks.check_ReduceFromRanks])
def test_a_stub_of_a_class_is_not_written_yet(check):
    class Stub(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, dist):
            raise NotImplementedError

        @staticmethod
        def backward(ctx, grad):
            raise NotImplementedError

    outcome = check.outcome(Stub)
    assert (outcome.sentence, outcome.code, outcome.earned) == ("not written yet", "not-written", 0)
