"""The tiny GPT: that it is the model its shape describes, and that it can be cut where later chapters cut it."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch.distributed.tensor.debug import CommDebugMode

from course_lib.gpt import GPT, next_token_loss, pipeline_stage
from course_lib.models import MODELS, TINY_GPT, parameter_count

WIDE = replace(TINY_GPT, hidden=48, ffn=100, layers=3, heads=6, kv_heads=6, vocabulary=37, positions=16)


def tokens(batch=2, sequence=16, vocabulary=37, seed=0):
    return torch.randint(0, vocabulary, (batch, sequence), generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("bias", ["none", "qkv", "mlp", "all"])
@pytest.mark.parametrize("shape", [TINY_GPT, WIDE], ids=["tiny", "wide"])
def test_the_module_has_as_many_parameters_as_its_shape_says(shape, bias):
    """`parameter_count(shape)` is the number of elements of the torch module, to the unit."""
    shape = replace(shape, bias=bias)
    assert sum(p.numel() for p in GPT(shape).parameters()) == parameter_count(shape)


def test_gpt2_with_a_free_head_has_gpt2s_parameters_and_one_more_table():
    """The same module at GPT-2's sizes: 124,439,808 parameters beside the head that GPT-2 ties."""
    with torch.device("meta"):
        model = GPT(replace(MODELS["GPT-2"], tied=False))
    assert sum(p.numel() for p in model.parameters()) - model.head.weight.numel() == 124_439_808


def test_no_token_sees_the_future():
    """Changing token 9 leaves the logits of tokens 0 to 8 as they were, and changes those after."""
    model, before = GPT(WIDE).double(), tokens()
    after = before.clone()
    after[:, 9] = (after[:, 9] + 1) % 37
    was, now = model(before), model(after)
    assert torch.equal(was[:, :9], now[:, :9])
    assert not torch.isclose(was[:, 9:], now[:, 9:]).all(-1).any()


def test_every_token_sees_the_past():
    """The last logits depend on the first token."""
    model, first = GPT(WIDE).double(), tokens()
    other = first.clone()
    other[:, 0] = (other[:, 0] + 1) % 37
    assert not torch.equal(model(first)[:, -1], model(other)[:, -1])


def test_the_first_loss_is_that_of_a_blind_guess():
    """An untrained model spreads its guesses evenly: log(vocabulary) nats within 2 %."""
    torch.manual_seed(0)
    x = tokens(8, 64, 256)
    loss = next_token_loss(GPT()(x), tokens(8, 64, 256, seed=1))
    assert loss.item() == pytest.approx(math.log(256), rel=0.02)


def test_it_learns():
    """Thirty steps on one batch bring the loss below a third of the blind guess."""
    torch.manual_seed(0)
    model, x, y = GPT(WIDE), tokens(), tokens(seed=1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for _ in range(30):
        optimizer.zero_grad()
        loss = next_token_loss(model(x), y)
        loss.backward()
        optimizer.step()
    assert loss.item() < math.log(37) / 3


def test_no_key_has_a_bias():
    """A key's bias has no true gradient (it shifts all scores of a query alike), so the tiny GPT has none."""
    names = [name for name, _ in GPT().named_parameters()]
    assert "blocks.0.attention.k.weight" in names
    assert "blocks.0.attention.k.bias" not in names
    assert "blocks.0.mlp.down.bias" in names


@pytest.mark.filterwarnings("ignore:Full backward hook")  # token numbers have no gradient
def test_comm_debug_mode_can_watch_it():
    """torch's CommDebugMode fails on a model that calls one module twice; this one can be watched through a step."""
    with CommDebugMode() as counter:
        next_token_loss(GPT(WIDE)(tokens()), tokens()).backward()
    assert counter.get_total_counts() == 0


def test_dropout_only_when_asked():
    """Two forwards of the default model agree to the bit; with dropout they differ in training and agree in eval."""
    x = tokens()
    model, dropping = GPT(WIDE), GPT(WIDE, dropout=0.5)
    assert torch.equal(model(x), model(x))
    assert not torch.equal(dropping(x), dropping(x))
    dropping.eval()
    assert torch.equal(dropping(x), dropping(x))


@pytest.mark.parametrize("stages", [1, 2, 3])
def test_stages_in_a_row_are_the_model(stages):
    """The logits of the stages one after another are the whole model's, to the bit."""
    model, x = GPT(WIDE), tokens()
    y = x
    for index in range(stages):
        y = pipeline_stage(model, index, stages)(y)
    assert torch.equal(y, model(x))


@pytest.mark.parametrize("stages", [2, 3])
def test_stages_share_nothing_and_keep_names(stages):
    """Every parameter of the model is in exactly one stage, under the same name, in memory of its own."""
    model = GPT(WIDE)
    names = [name for i in range(stages) for name, _ in pipeline_stage(model, i, stages).named_parameters()]
    assert sorted(names) == sorted(name for name, _ in model.named_parameters())
    part = pipeline_stage(model, 0, stages)
    assert part.embed.token.weight.data_ptr() != model.embed.token.weight.data_ptr()


def test_attention_by_heads_adds_up():
    """Half of the heads, with their columns of q, k, v and rows of out, gives one of two summands: ready to split."""
    whole = GPT(WIDE).double().blocks[0].attention
    x = torch.randn(2, 16, 48, dtype=torch.float64)
    total = 0
    for half in (slice(0, 24), slice(24, 48)):
        part = GPT(WIDE).double().blocks[0].attention
        for name in "qkv":
            getattr(part, name).weight = torch.nn.Parameter(getattr(whole, name).weight[half])
        part.out.weight = torch.nn.Parameter(whole.out.weight[:, half])
        total = total + part(x)
    torch.testing.assert_close(total, whole(x))


def test_too_long_a_sequence_is_a_sentence():
    """More tokens than positions: ValueError with both numbers."""
    with pytest.raises(ValueError, match="sequence = 17: at most positions = 16"):
        GPT(WIDE)(tokens(sequence=17))


@pytest.mark.parametrize("name", ["Llama-3-8B", "GPT-2", "Mixtral-8x7B"])
def test_another_kind_of_model_is_refused(name):
    """GPT builds its own kind only, and says so before it allocates anything."""
    with pytest.raises(ValueError, match="must be of GPT-2's kind"):
        GPT(MODELS[name])


@pytest.mark.parametrize(("index", "stages"), [(0, 0), (2, 2), (-1, 2), (0, 4)])
def test_an_impossible_stage_is_refused(index, stages):
    """No stage without a layer, no index outside the stages."""
    words = f"index = {index}, stages = {stages}: must be 0 <= index < stages <= layers = 3"
    with pytest.raises(ValueError, match=words):
        pipeline_stage(GPT(WIDE), index, stages)
