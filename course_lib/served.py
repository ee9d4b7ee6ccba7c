"""A table of the models that people serve in 2026: heads of their own width, many experts, windows, latent attention.

It stands beside `course_lib.models.MODELS`, whose heads are all hidden / heads wide. Every count is a sum of matrix
sizes, and `tests/test_served.py` compares it with the published one.
"""

from __future__ import annotations

from course_lib.models import LatentAttention, ModelShape

_QWEN3 = "2505.09388, Table 1 and 2; config.json of Qwen/Qwen3-*"
_GPT_OSS = "2508.10925, Table 1; config.json of openai/gpt-oss-*"
_KIMI = "2507.20534; config.json of moonshotai/Kimi-K2-Instruct"
_LLAMA4 = "config.json of meta-llama/Llama-4-*, the part that reads text"
_GEMMA = "2503.19786, Table 1; config.json of google/gemma-3-*, the part that reads text"


def _qwen3(name: str, hidden: int, ffn: int, layers: int, heads: int, kv_heads: int, **more: object) -> ModelShape:
    """Qwen3: heads of 128 whatever the hidden size, and a norm over each query and key."""
    return ModelShape(
        *(name, hidden, ffn, layers, heads, kv_heads, 151936, _QWEN3), head_width=128, qk_norm=True, **more
    )


def _gpt_oss(name: str, layers: int, experts: int) -> ModelShape:
    """gpt-oss: heads of 64, biases everywhere, a sink a head, every second layer with a window of 128 tokens."""
    sizes = (name, 2880, 2880, layers, 64, 8, 201088, _GPT_OSS)
    return ModelShape(
        *sizes, bias="all", head_width=64, sinks=True, experts=experts, experts_per_token=4, expert_ffn=2880,
        router_bias=True, window=128, full_layers=layers // 2,
    )  # fmt: skip


def _llama4(name: str, experts: int, dense_layers: int) -> ModelShape:
    """Llama 4: one expert of many and a shared one; three layers of four attend within chunks of 8,192 tokens.

    Maverick's dense layers are every second one; they are counted as if they stood first.
    """
    return ModelShape(
        *(name, 5120, 16384, 48, 40, 8, 202048, _LLAMA4), experts=experts, experts_per_token=1, expert_ffn=8192,
        shared_experts=1, dense_layers=dense_layers, window=8192, full_layers=12,
    )  # fmt: skip


def _gemma3(
    name: str, hidden: int, ffn: int, layers: int, heads: int, kv_heads: int, head: int, window: int, vocabulary: int
) -> ModelShape:
    """Gemma 3: four norms a layer; five layers with a window, then one that attends to everything."""
    return ModelShape(
        *(name, hidden, ffn, layers, heads, kv_heads, vocabulary, _GEMMA), tied=True, head_width=head, qk_norm=True,
        layer_norms=4, window=window, full_layers=layers // 6,
    )  # fmt: skip


# name, hidden, ffn, layers, heads, kv_heads
SERVED = {
    shape.name: shape
    for shape in (
        _qwen3("Qwen3-0.6B", 1024, 3072, 28, 16, 8, tied=True),
        _qwen3("Qwen3-1.7B", 2048, 6144, 28, 16, 8, tied=True),
        _qwen3("Qwen3-4B", 2560, 9728, 36, 32, 8, tied=True),
        _qwen3("Qwen3-8B", 4096, 12288, 36, 32, 8),
        _qwen3("Qwen3-14B", 5120, 17408, 40, 40, 8),
        _qwen3("Qwen3-32B", 5120, 25600, 64, 64, 8),
        _qwen3("Qwen3-30B-A3B", 2048, 6144, 48, 32, 4, experts=128, experts_per_token=8, expert_ffn=768),
        _qwen3("Qwen3-235B-A22B", 4096, 12288, 94, 64, 4, experts=128, experts_per_token=8, expert_ffn=1536),
        _gpt_oss("gpt-oss-20b", 24, 32),
        _gpt_oss("gpt-oss-120b", 36, 128),
        ModelShape(
            *("Kimi-K2", 7168, 18432, 61, 64, 64, 163840, _KIMI),
            experts=384,
            experts_per_token=8,
            expert_ffn=2048,
            shared_experts=1,
            dense_layers=1,
            router_bias=True,
            latent=LatentAttention(q_rank=1536, kv_rank=512, rotary=64, plain=128, value=128),
        ),
        _llama4("Llama-4-Scout", 16, 0),
        _llama4("Llama-4-Maverick", 128, 24),
        _gemma3("Gemma-3-1B", 1152, 6912, 26, 4, 1, 256, 512, 262144),
        _gemma3("Gemma-3-4B", 2560, 10240, 34, 8, 4, 256, 1024, 262208),
        _gemma3("Gemma-3-12B", 3840, 15360, 48, 16, 8, 256, 1024, 262208),
        _gemma3("Gemma-3-27B", 5376, 21504, 62, 32, 16, 128, 1024, 262208),
    )
}
