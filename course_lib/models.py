"""A table of real model shapes, and the number of parameters that follows from a shape.

No count is typed in: each is a sum of matrix sizes, and `tests/test_models.py` compares it with the published one.
"""

from __future__ import annotations

from dataclasses import dataclass

BIASES = ("none", "qkv", "mlp", "all")


def check_whole(**fields: int | None) -> None:
    """Raises ValueError for the first field that is not a whole number of at least 1 (None is let through)."""
    for field, value in fields.items():
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
            raise ValueError(f"{field} = {value!r}: must be a whole number, at least 1")


def check_choice(field: str, value: object, allowed) -> None:
    """Raises ValueError when `value` is not one of `allowed`."""
    if value not in tuple(allowed):
        raise ValueError(f"{field} = {value!r}: must be one of {', '.join(map(repr, allowed))}")


@dataclass(frozen=True)
class LatentAttention:
    """DeepSeek's latent attention (2405.04434): the ranks of its two compressions, and the widths a head is made of."""

    q_rank: int
    kv_rank: int
    rotary: int
    plain: int
    value: int


@dataclass(frozen=True)
class ModelShape:
    """The sizes of one decoder-only transformer, in the order of the table below.

    `positions` is the length of a learned position table (0: rotary, no parameters). `bias` says which linear layers
    have one: "none", "qkv", "mlp" or "all". `layer_norm`: LayerNorm with a bias, else RMSNorm. `gated`: SwiGLU's three
    matrices, else two. `tied`: the head is the token embedding. With `experts` > 0 every layer after the first
    `dense_layers` holds that many MLPs of width `expert_ffn`, of which each token uses `experts_per_token`, and
    `shared_experts` that all tokens use. `router_bias`: DeepSeek's correction, one number per expert, which checkpoints
    hold. `head_width` is a head's where it is not hidden / heads; `qk_norm`: a norm over each query and each key;
    `sinks`: one learned score a head; `layer_norms`: norms in a layer. Where `window` > 0 only `full_layers` of the
    layers attend to everything, the others to the last `window` tokens. An impossible shape is a ValueError that names
    the field, its value and what is allowed.
    """

    name: str
    hidden: int
    ffn: int
    layers: int
    heads: int
    kv_heads: int
    vocabulary: int
    source: str = ""
    positions: int = 0
    bias: str = "none"
    layer_norm: bool = False
    gated: bool = True
    tied: bool = False
    experts: int = 0
    experts_per_token: int = 0
    expert_ffn: int = 0
    shared_experts: int = 0
    dense_layers: int = 0
    router_bias: bool = False
    latent: LatentAttention | None = None
    head_width: int = 0
    qk_norm: bool = False
    sinks: bool = False
    layer_norms: int = 2
    window: int = 0
    full_layers: int = 0

    def __post_init__(self) -> None:
        sizes = ("hidden", "ffn", "layers", "heads", "kv_heads", "vocabulary")
        check_whole(**{field: getattr(self, field) for field in sizes})
        check_choice("bias", self.bias, BIASES)
        for field in ("head_width", "window", "full_layers"):
            check_whole(**{field: getattr(self, field) or None})
        if not self.latent and not self.head_width and self.hidden % self.heads:
            raise ValueError(f"heads = {self.heads}: must divide hidden = {self.hidden}")
        if self.heads % self.kv_heads:
            raise ValueError(f"kv_heads = {self.kv_heads}: must divide heads = {self.heads}")
        if self.full_layers > self.layers or (self.full_layers and not self.window):
            raise ValueError(f"full_layers = {self.full_layers}: at most layers = {self.layers}, with a window only")
        if self.positions < 0:
            raise ValueError(f"positions = {self.positions}: must be 0 (no learned positions) or more")
        if self.experts:
            check_whole(experts=self.experts, experts_per_token=self.experts_per_token, expert_ffn=self.expert_ffn)
            if self.experts_per_token > self.experts:
                raise ValueError(f"experts_per_token = {self.experts_per_token}: at most experts = {self.experts}")
            if not 0 <= self.dense_layers < self.layers:
                raise ValueError(f"dense_layers = {self.dense_layers}: must be below layers = {self.layers}")

    @property
    def head_size(self) -> int:
        """Return the width of one query head."""
        if self.latent:
            return self.latent.plain + self.latent.rotary
        return self.head_width or self.hidden // self.heads

    @property
    def value_size(self) -> int:
        """Return the width of one value head (the same as `head_size` but in latent attention)."""
        return self.latent.value if self.latent else self.head_size

    @property
    def moe_layers(self) -> int:
        """Return the number of layers that hold experts."""
        return self.layers - self.dense_layers if self.experts else 0


def attention_weights(shape: ModelShape) -> int:
    """Return the elements of one layer's attention matrices, without biases."""
    h, a = shape.hidden, shape.heads
    if m := shape.latent:
        queries = h * m.q_rank + m.q_rank * a * (m.plain + m.rotary)
        keys_values = h * (m.kv_rank + m.rotary) + m.kv_rank * a * (m.plain + m.value)
        return queries + keys_values + a * m.value * h
    return 2 * h * (a + shape.kv_heads) * shape.head_size


def attention_parameters(shape: ModelShape) -> int:
    """Return the parameters of one layer's attention, with its biases (and latent attention's two inner norms)."""
    count = attention_weights(shape)
    if shape.latent:
        return count + shape.latent.q_rank + shape.latent.kv_rank
    if shape.bias in ("qkv", "all"):
        count += (shape.heads + 2 * shape.kv_heads) * shape.head_size
    count += 2 * shape.head_size * shape.qk_norm + shape.heads * shape.sinks
    return count + (shape.hidden if shape.bias == "all" else 0)


def mlp_weights(shape: ModelShape, ffn: int | None = None) -> int:
    """Return the elements of one MLP's matrices, without biases; `ffn` is its width (default: the dense layers')."""
    return (3 if shape.gated else 2) * shape.hidden * (ffn or shape.ffn)


def mlp_parameters(shape: ModelShape, ffn: int | None = None) -> int:
    """Return the parameters of one MLP, with its biases; `ffn` is its width (default: the dense layers')."""
    biases = (2 if shape.gated else 1) * (ffn or shape.ffn) + shape.hidden
    return mlp_weights(shape, ffn) + (biases if shape.bias in ("mlp", "all") else 0)


def norm_parameters(shape: ModelShape) -> int:
    """Return the parameters of one normalization over the hidden size."""
    return shape.hidden * (2 if shape.layer_norm else 1)


def parameters_by_part(shape: ModelShape) -> dict[str, int]:
    """Return the parameters of each kind of part, in the order in which a token meets them; their sum is the model."""
    moe = shape.moe_layers
    return {
        "token embedding": shape.vocabulary * shape.hidden,
        "position embedding": shape.positions * shape.hidden,
        "attention": shape.layers * attention_parameters(shape),
        "mlp": (shape.layers - moe) * mlp_parameters(shape),
        "router": moe * shape.experts * (shape.hidden + shape.router_bias),
        "shared experts": moe * shape.shared_experts * mlp_parameters(shape, shape.expert_ffn),
        "experts": moe * shape.experts * mlp_parameters(shape, shape.expert_ffn),
        "norms": (shape.layer_norms * shape.layers + 1) * norm_parameters(shape),
        "head": 0 if shape.tied else shape.vocabulary * shape.hidden,
    }


def parameter_count(shape: ModelShape) -> int:
    """Return the number of parameters of the whole model, every expert counted, a tied embedding once."""
    return sum(parameters_by_part(shape).values())


def active_parameters(shape: ModelShape) -> int:
    """Return the parameters that one token uses: all but the experts it is not sent to (embedding and head count)."""
    parts = parameters_by_part(shape)
    unused = shape.experts - shape.experts_per_token
    return sum(parts.values()) - (parts["experts"] // shape.experts * unused if shape.experts else 0)


def _gpt(name: str, hidden: int, layers: int, heads: int, vocabulary: int, positions: int, source: str) -> ModelShape:
    """GPT-2's family: learned positions, LayerNorm and biases everywhere, an MLP four times as wide, a tied head."""
    sizes = (name, hidden, 4 * hidden, layers, heads, heads, vocabulary, source, positions)
    return ModelShape(*sizes, bias="all", layer_norm=True, gated=False, tied=True)


_GPT2 = (50257, 1024, "Radford et al. 2019, Table 2; config.json of openai-community/gpt2*")
_LLAMA2 = (32000, "2307.09288; config.json of meta-llama/Llama-2-*-hf")
_LLAMA3 = (8, 128256, "2407.21783, Table 3; vocabulary: config.json of meta-llama/Llama-3.1-*")
_QWEN = "2412.15115, Table 1; config.json of Qwen/Qwen2.5-*"
_GRANITE = "config.json of ibm-granite/granite-3.0-2b-base"
_SMOLLM = "config.json of HuggingFaceTB/SmolLM2-135M"
_MIXTRAL = "2401.04088, Table 1; config.json of mistralai/Mixtral-8x7B-v0.1"
_DEEPSEEK = "2412.19437, section 4.2; config.json of deepseek-ai/DeepSeek-V3, without its extra prediction layer"

# name, hidden, ffn, layers, heads, kv_heads, vocabulary, source
TINY_GPT = ModelShape("tiny GPT", 64, 256, 4, 4, 4, 256, "course_lib.gpt", 128, "mlp", layer_norm=True, gated=False)
MODELS = {
    shape.name: shape
    for shape in (
        TINY_GPT,
        _gpt("GPT-2", 768, 12, 12, *_GPT2),
        _gpt("GPT-2 medium", 1024, 24, 16, *_GPT2),
        _gpt("GPT-2 large", 1280, 36, 20, *_GPT2),
        _gpt("GPT-2 XL", 1600, 48, 25, *_GPT2),
        _gpt("GPT-3", 12288, 96, 96, 50257, 2048, "2005.14165, Table 2.1 (175B); vocabulary of GPT-2"),
        _gpt("OPT-13B", 5120, 40, 40, 50272, 2050, "config.json of facebook/opt-13b (2 spare positions)"),
        ModelShape("Llama-2-7B", 4096, 11008, 32, 32, 32, *_LLAMA2),
        ModelShape("Llama-2-13B", 5120, 13824, 40, 40, 40, *_LLAMA2),
        ModelShape("Llama-2-70B", 8192, 28672, 80, 64, 8, *_LLAMA2),
        ModelShape("Llama-3-8B", 4096, 14336, 32, 32, *_LLAMA3),
        ModelShape("Llama-3-70B", 8192, 28672, 80, 64, *_LLAMA3),
        ModelShape("Llama-3-405B", 16384, 53248, 126, 128, *_LLAMA3),
        ModelShape("Qwen2.5-0.5B", 896, 4864, 24, 14, 2, 151936, _QWEN, bias="qkv", tied=True),
        ModelShape("Qwen2.5-7B", 3584, 18944, 28, 28, 4, 152064, _QWEN, bias="qkv"),
        ModelShape("Qwen2.5-32B", 5120, 27648, 64, 40, 8, 152064, _QWEN, bias="qkv"),
        ModelShape("Qwen2.5-72B", 8192, 29568, 80, 64, 8, 152064, _QWEN, bias="qkv"),
        ModelShape("Granite-3.0-2B", 2048, 8192, 40, 32, 8, 49155, _GRANITE, tied=True),
        ModelShape("SmolLM2-135M", 576, 1536, 30, 9, 3, 49152, _SMOLLM, tied=True),
        ModelShape(
            *("Mixtral-8x7B", 4096, 14336, 32, 32, 8, 32000, _MIXTRAL),
            experts=8,
            experts_per_token=2,
            expert_ffn=14336,
        ),
        ModelShape(
            *("DeepSeek-V3", 7168, 18432, 61, 128, 128, 129280, _DEEPSEEK),
            experts=256,
            experts_per_token=8,
            expert_ffn=2048,
            shared_experts=1,
            dense_layers=3,
            router_bias=True,
            latent=LatentAttention(q_rank=1536, kv_rank=512, rotary=64, plain=128, value=128),
        ),
    )
}
