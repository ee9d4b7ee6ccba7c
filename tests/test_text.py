"""The text and the trained weights: where they are from, that batches are fair, and that the GPT beats the bigram."""

from __future__ import annotations

import math

import torch

from course_lib import text
from course_lib.training import WEIGHTS, held_out_loss, learning_rate, new_model, train, trained_model, write_on


def test_the_text_is_ascii_and_at_most_1_mb():
    data = text.FILE.read_bytes()
    assert 500_000 < len(data) <= 1_000_000
    assert set(data) <= {10, *range(32, 127)}
    assert data.startswith(b"CHAPTER 1. Loomings.")


def test_a_small_file_beside_the_text_names_source_and_licence():
    told = (text.FILE.parent / "README.md").read_text()
    for word in (
        text.FILE.name,
        f"{text.FILE.stat().st_size:,} bytes",
        "Melville",
        "public domain",
        "CC0",
        WEIGHTS.name,
    ):
        assert word in told


def test_a_batch_depends_on_step_and_seed_only_and_its_targets_are_the_next_bytes():
    torch.manual_seed(5)
    tokens, targets = text.batch(3, 4, 16)
    torch.manual_seed(6)
    again, _ = text.batch(3, 4, 16)
    other, _ = text.batch(4, 4, 16)
    assert torch.equal(tokens, again) and not torch.equal(tokens, other)
    assert torch.equal(tokens[:, 1:], targets[:, :-1])
    assert not torch.equal(tokens, text.batch(3, 4, 16, seed=1)[0])


def test_nothing_held_out_is_trained_on():
    assert len(text.training_text()) + len(text.held_out_text()) == len(text.corpus())


def test_the_unigram_loss_is_the_entropy_of_the_bytes():
    """On the text it was counted on, the loss of the unigram is the entropy; on the held-out tenth nearly so."""
    shares = torch.bincount(text.training_text(), minlength=256).double() / len(text.training_text())
    entropy = -(shares[shares > 0] * shares[shares > 0].log()).sum().item()
    assert abs(text.unigram_loss() - entropy) < 0.05
    assert text.bigram_loss() < text.unigram_loss() - 0.5


def test_the_learning_rate_rises_and_falls_to_zero():
    rates = [learning_rate(step, 100) for step in range(100)]
    top = rates.index(max(rates))
    assert rates[: top + 1] == sorted(rates[: top + 1]) and rates[top:] == sorted(rates[top:], reverse=True)
    assert rates[-1] < 0.02 * max(rates)


def test_twenty_steps_lower_the_loss_from_a_blind_guess():
    losses = train(new_model(), 20, batch=4, length=32)
    assert abs(losses[0] - math.log(256)) < 0.2
    assert losses[-1] < losses[0] - 1


def test_the_trained_weights_are_clearly_below_the_bigram():
    assert held_out_loss(trained_model()) < text.bigram_loss() - 0.3


def test_the_trained_model_writes_text():
    written = write_on(trained_model(), "The whale", 20)
    assert written.startswith("The whale") and len(written) == 29
