"""Pictures that only the slides of chapter 8 have."""

from __future__ import annotations

from kit import BIG, GREY_WORDS, bar, box, line, sheet, steps, words
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from course_lib.hardware import H100
from course_lib.models import MODELS
from course_lib.plots import canvas
from course_lib.serving import Engine, Request, Roofline, answer_bill, continuous, synthetic_trace
from course_lib.serving.traffic import traffic

WHITE, INK = "#FFFFFF", canvas.INK
READ, MADE, KEPT, WEIGHTS = canvas.FORWARD, canvas.COMPUTE, "#C9E6FA", canvas.WEIGHTS  # prompts, answers, the cache
FAULT, IDLE = canvas.LIMIT, canvas.WAITING
GREEN = "#00704F"  # letters about what is made
LLAMA = MODELS["Llama-3-8B"]
WORKER = Roofline(LLAMA, H100)
ALONE = WORKER.token_seconds(users=1, context=1000)  # seconds of a lone user's step
THREE = WORKER.token_seconds(users=3, context=1000)  # and of three users
READING = WORKER.read_bytes / H100.memory_bandwidth  # seconds in which the weights are read
PROMPT, TOKENS = 37, (2, 16, 4, 2)  # of the chapter's question, and of the four answers of section 5
CHAT = synthetic_trace("chat", 2000, seed=1)
AVERAGE = sum(WORKER.prompt_seconds(request.prompt) for request in CHAT) / len(CHAT)  # seconds of a prompt
TABLE = (7, 4, 11, 14, 9)  # of request A in the chapter's picture of blocks


def _cell(ax: Axes, x: float, y: float, wide: float, high: float, colour: str, text: str = "", **look) -> None:
    """Draw a square-cornered place with a white rim and a text in its middle."""
    bar(ax, x, y, wide, high, colour, edgecolor="white", linewidth=1.2)
    words(ax, x + wide / 2, y + high / 2, text, ha="center", **look)


def _count(n: int, step: int) -> list:
    return list(range(n))[:step]


# The question, and section 1: a model that remembers


def waiting() -> Figure:
    """A user's question, the GPU, and an answer of which the next token is missing."""
    ax = sheet(36, 30)
    box(ax, 6, 23.4, 29, 5, canvas.FACES[4], "What is the capital of France?", size=BIG)
    for place in range(8):
        for low in (11.2, 19.6):
            bar(ax, 12.2 + 1.7 * place, low, 0.8, 1.2, INK)
    bar(ax, 11, 12.4, 14, 7.2, "#3A3A3A")
    words(ax, 18, 16, "GPU: ?", ha="center", colour="white", weight="bold", size=20)
    canvas.arrow(ax, (30, 23), (25.8, 18), line=2)
    canvas.arrow(ax, (10.4, 13.6), (6.4, 8.6), line=2)
    for x, wide, token in ((1, 5.4, "The"), (7, 8.4, "capital"), (16, 3.8, "of")):
        box(ax, x, 3.4, wide, 4.6, canvas.FACES[2], token, size=BIG)
    box(ax, 20.4, 3.4, 4.6, 4.6, WHITE, "?", size=BIG, edge=FAULT, line=2)
    return ax.figure


@steps(range(1, 4))
def two_speeds(step: int) -> Figure:
    """A prompt that is read in one pass, and then a step for each token."""
    ax = sheet(65, 28, (6.5, 2.8))
    prefill, scale = WORKER.prompt_seconds(2000), 61 / (WORKER.prompt_seconds(2000) + 7 * ALONE)
    wide, one = scale * prefill, scale * ALONE
    bar(ax, 1, 12, wide, 6, READ)
    words(ax, 1 + wide / 2, 15, "a prompt of 2,000 tokens", ha="center", size=BIG)
    words(ax, 1, 25.4, "prefill", weight="bold", size=20)
    words(ax, 1, 21.4, f"{1e6 * prefill / 2000:.0f} millionths of a second a token", size=BIG)
    words(ax, 1, 6.6, "Enter", va="top", size=BIG)
    canvas.arrow(ax, (1.4, 7), (1.4, 11.7), line=1.5)
    words(ax, 1, 0.8, "Llama-3-8B on an H100")
    if step > 1:
        x = 1 + wide
        box(ax, x - 1.3, 3.4, 2.6, 3.4, canvas.FACES[2], "1", size=BIG)
        canvas.arrow(ax, (x, 11.6), (x, 7.2), line=1.5)
        words(ax, x - 2.2, 5.1, "the first token", ha="right")
    if step > 2:
        for place in range(7):
            x = 1 + wide + place * one
            bar(ax, x, 12, one, 6, MADE, edgecolor="white", linewidth=1.5)
            box(ax, x + one - 1.3, 3.4, 2.6, 3.4, canvas.FACES[2], f"{place + 2}", size=BIG)
            canvas.arrow(ax, (x + one, 11.6), (x + one, 7.2), line=1.5)
        words(ax, 1 + wide, 25.4, "decode", weight="bold", size=20)
        words(ax, 1 + wide, 21.4, f"{1e3 * WORKER.token_seconds(1, 2000):.1f} thousandths a token", size=BIG)
    return ax.figure


def whole_text_again() -> list[Figure]:
    """The text that passes through the model in each of the first steps, and the token that comes out."""
    return [_whole_text(step) for step in range(1, 5)]


def _whole_text(step: int) -> Figure:
    ax = sheet(36, 30)
    ax.set_xlim(-1, 37)  # nothing touches the edge of the card
    known = "The", "capital", "of", "France"
    words(ax, 0, 27.6, "into the model", weight="bold")
    words(ax, 35.6, 27.6, "out", weight="bold", ha="right")
    for row, token in list(enumerate(known))[:step]:
        y = 21 - 6.6 * row
        bar(ax, 0, y, 14, 4.6, READ)
        words(ax, 7, y + 2.3, f"{PROMPT} tokens", ha="center")
        for place in range(row):
            _cell(ax, 14 + 2.4 * place, y, 2.4, 4.6, MADE)
        canvas.arrow(ax, (14.4 + 2.4 * row, y + 2.3), (26.4, y + 2.3), line=1.5)
        box(ax, 27, y, 8.6, 4.6, canvas.FACES[2], token, size=BIG)
    return ax.figure


def query_and_keys() -> Figure:
    """The newest token's query, which meets the key and the value of each token up to it."""
    ax = sheet(36, 30)
    tokens = "What", "is", "the", "capital"
    for place, token in enumerate(tokens):
        x, new = 1 + 9 * place, place == 3
        box(ax, x, 1.4, 8, 4.2, canvas.FACES[2] if new else canvas.FACES[4], token)
        box(ax, x + 0.2, 8.4, 3.6, 4, WHITE, "K", size=BIG)
        box(ax, x + 4.2, 8.4, 3.6, 4, WHITE, "V", size=BIG)
        canvas.arrow(ax, (32, 21.8), (x + 2, 12.8), colour=MADE, line=1.6)
    box(ax, 29.4, 22, 5.4, 4.6, canvas.FACES[2], "Q", size=20)
    words(ax, 28.6, 26.4, "query of the newest token", ha="right", weight="bold")
    words(ax, 1, 20, "compares with keys,", size=BIG)
    words(ax, 1, 17, "mixes values", size=BIG)
    return ax.figure


@steps(range(1, 5))
def kept(step: int) -> Figure:
    """Keys and values that are kept, step by step, and the one token that is computed."""
    ax = sheet(36, 30)
    words(ax, 0, 28.4, "K and V in the cache", weight="bold", colour=WEIGHTS)
    words(ax, 36, 28.4, "computed", weight="bold", ha="right", colour=GREEN)
    for row in _count(4, step):
        y = 21 - 6.6 * row
        old = 0 if not row else 5 + row - 1
        for place in range(old):
            _cell(ax, 2.7 * place, y, 2.7, 4.6, KEPT, "KV")
        new = 5 if not row else 1
        for place in range(new):
            _cell(ax, 36 - 2.7 * (new - place), y, 2.7, 4.6, READ if not row else MADE)
        if row:
            canvas.arrow(ax, (32.8, y + 2.3), (2.7 * old + 0.6, y + 2.3), style="<|-", line=1.5)
        else:
            words(ax, 21.6, y + 2.3, "the prompt", ha="right")
    return ax.figure


@steps((1, 2))
def heads(step: int) -> Figure:
    """The heads of a layer: each query with a key and a value of its own, and four queries that share them."""
    ax = sheet(65, 28, (6.5, 2.8))
    models = MODELS["Llama-2-7B"], LLAMA
    for place, shape in enumerate(models[:step]):
        top = 27 - 14.4 * place
        words(ax, 0, top - 1.2, shape.name, weight="bold", size=BIG)
        told = "one for each query" if not place else f"one for {shape.heads // shape.kv_heads} queries"
        words(ax, 65, top - 1.2, f"{shape.kv_heads} keys and values: {told}", ha="right", size=BIG, weight="bold",
              colour=WEIGHTS)
        words(ax, 0, top - 5, "queries")
        words(ax, 0, top - 10.2, "K and V")
        each = shape.heads // shape.kv_heads
        for head in range(shape.heads):
            x = 9 + 1.75 * head
            _cell(ax, x, top - 6.4, 1.75, 2.8, MADE)
            goal = 9 + 1.75 * each * (head // each + 0.5)
            line(ax, (x + 0.87, top - 6.4), (goal, top - 8.6), wide=0.8)
        for head in range(shape.kv_heads):
            x = 9 + 1.75 * each * (head + 0.5) - 0.87
            _cell(ax, x, top - 11.6, 1.75, 3, WEIGHTS)
    canvas.say(ax, "in Llama-2-7B each of 32 queries has its own key and value, in Llama-3-8B four share one")
    return ax.figure


# Section 2: two kinds of work


def a_seventh() -> Figure:
    """The tokens that passed without and with a cache, and the question of their time."""
    runs = [sum(PROMPT + n for n in range(8)), PROMPT + 7]
    ax = sheet(36, 30)
    for y, (name, count) in zip((20, 10.4), zip(("without a cache", "with a cache"), runs, strict=True), strict=True):
        words(ax, 0, y + 6.4, name, size=BIG)
        wide = 35 * count / runs[0]
        bar(ax, 0, y, wide, 4.6, READ)
        words(ax, 34 if wide > 20 else wide + 0.8, y + 2.3, f"{count} tokens", weight="bold", size=BIG,
              ha="right" if wide > 20 else "left")
    words(ax, 0, 4, "The time? Not a seventh of it.", weight="bold", size=BIG, colour=FAULT)
    return ax.figure


def same_arithmetic() -> Figure:
    """256 tokens of a prompt that pass together, and a new token that passes alone."""
    ax = sheet(36, 30)
    words(ax, 0, 28, "prefill: 256 tokens in a step", weight="bold", size=BIG)
    for place in range(256):
        bar(ax, 1.05 * (place % 32), 24.4 - 1.3 * (place // 32), 0.85, 1.05, READ)
    words(ax, 0, 10, "decode: one token in a step", weight="bold", size=BIG)
    bar(ax, 0, 6.2, 0.85, 1.05, MADE)
    words(ax, 2, 6.7, "Its arithmetic is that of one above.")
    return ax.figure


def twice_the_arithmetic() -> Figure:
    """Two GPUs with equal memories, of which one computes twice as fast."""
    ax = sheet(36, 30)
    for x, name, high, peak in ((0.5, "H100", 6, ""), (19, "the other", 12, "2 ×")):
        words(ax, x + 8, 28.2, name, ha="center", weight="bold", size=BIG)
        box(ax, x + 2, 13.6, 12, high, canvas.FACES[2], f"{peak}\narithmetic" if peak else "arithmetic")
        line(ax, (x + 8, 9.4), (x + 8, 13.6), colour=WEIGHTS, wide=14)
        box(ax, x, 2, 16, 7.4, canvas.FACES[0], f"memory\n{H100.memory / 1e9:.0f} GB", size=BIG)
    words(ax, 18, 11.4, f"{H100.memory_bandwidth / 1e12:.2f} TB/s", ha="center", colour=WEIGHTS, weight="bold")
    return ax.figure


def waits_for_weights() -> list[Figure]:
    """What a step reads and computes: on an H100, and on a GPU that computes twice as fast."""
    return [_waits(step) for step in (1, 2)]


def _waits(step: int) -> Figure:
    ax = sheet(36, 30)
    flops = WORKER.token_flops / H100.peak()
    for top, name, share in ((29, "H100", 1), (13.6, "twice the arithmetic", 2))[:step]:
        words(ax, 0, top - 1, name, weight="bold", size=BIG)
        bar(ax, 0, top - 7, 35.6, 4, WEIGHTS)
        words(ax, 1, top - 5, f"reading {WORKER.read_bytes / 1e9:.0f} GB: {1e3 * READING:.1f} ms", weight="bold",
              colour="white", size=BIG)
        bar(ax, 0, top - 12, 35.6, 4, IDLE)
        bar(ax, 0, top - 12, 35.6 * flops / share / READING, 4, MADE)
        words(ax, 1, top - 10, f"computing: {1e3 * flops / share:.3f} ms, then idle", size=BIG)
    return ax.figure


@steps(range(1, 4))
def roof(step: int) -> Figure:
    """The two limits of an H100, its ridge, and a lone user's token."""
    ax = sheet(36, 30)
    ridge = H100.peak() / H100.memory_bandwidth
    left, low, right, top = 4, 4.4, 35.4, 24  # of the axes; both are logarithmic, 1 to 3,000 FLOPs a byte
    at = 4 + 28 * 2.47 / 3.3
    canvas.arrow(ax, (left, low), (right, low), line=1.2)
    canvas.arrow(ax, (left, low), (left, 29), line=1.2)
    words(ax, right, 1.6, "FLOPs for each byte", ha="right")
    words(ax, left + 0.8, 28.6, "FLOPs a second")
    line(ax, (left, 6), (at, top), colour=WEIGHTS, wide=4)
    words(ax, left + 9.8, 17.4, "memory\nis the limit", ha="right", colour=WEIGHTS, weight="bold", va="bottom")
    if step > 1:
        line(ax, (at, top), (right, top), colour=MADE, wide=4)
        words(ax, right, top + 1.9, "arithmetic is the limit", ha="right", colour=GREEN, weight="bold")
        line(ax, (at, low), (at, top), wide=1.2, linestyle=":")
        words(ax, at + 0.8, 8, f"ridge: {ridge:.0f}", weight="bold", size=BIG)
    if step > 2:
        ax.plot([left], [6], "o", color=FAULT, markersize=14, clip_on=False)
        words(ax, left + 2, 6.4, "a lone user's token: 1", colour=FAULT, weight="bold", size=BIG)
    canvas.say(ax, f"two limits of an H100 that meet at {ridge:.0f} FLOPs for each byte; a lone user's token does 1")
    return ax.figure


# Section 3: a batch


def one_reading() -> Figure:
    """The weights, read once for several users' tokens."""
    ax = sheet(36, 30)
    box(ax, 5, 22, 26, 6.6, canvas.FACES[0], f"weights: {WORKER.read_bytes / 1e9:.0f} GB", size=BIG)
    canvas.arrow(ax, (18, 21.6), (18, 17.2), colour=WEIGHTS, line=10)
    words(ax, 21, 19.4, "one reading", colour=WEIGHTS, weight="bold", size=BIG)
    bar(ax, 0.6, 11, 34.8, 5, IDLE)
    for place, name in enumerate("ABCDEF"):
        x = 1.4 + 5.7 * place
        box(ax, x, 11.6, 4.6, 3.8, canvas.FACES[2], name, size=BIG)
        canvas.arrow(ax, (x + 2.3, 10.8), (x + 2.3, 6.4), line=1.5)
    words(ax, 18, 4, "a token for each request", ha="center", size=BIG, weight="bold")
    return ax.figure


def batch_of_64() -> Figure:
    """A step for one request, and one for 64."""
    ax = sheet(36, 30)
    for top, users, told in ((28, 1, f"{1e3 * ALONE:.1f} ms"), (17, 64, "? ms")):
        words(ax, 0, top, f"a step for {users} request{'s' * (users > 1)}", weight="bold", size=BIG)
        side = 1.9
        for place in range(users):
            _cell(ax, 2 + side * (place % 8) if users > 1 else 2, top - 4 - side * (place // 8), side, side, MADE)
        words(ax, 22, top - (9 if users > 1 else 3.2), told, weight="bold", size=20)
    return ax.figure


@steps(range(1, 4))
def step_of_64(step: int) -> Figure:
    """What a step reads for one request and for 64, as long as it is."""
    ax = sheet(36, 30)
    weights, one = WORKER.read_bytes / 1e9, 1000 * WORKER.token_bytes / 1e9
    scale = 35.4 / (weights + 64 * one)
    for top, users in ((29, 1), (18.4, 64))[:step]:
        words(ax, 0, top - 1.4, f"{users} token{'s' * (users > 1)}", weight="bold", size=BIG)
        words(ax, 36, top - 1.4, f"{weights + users * one:.1f} GB", weight="bold", size=BIG, ha="right")
        bar(ax, 0, top - 8, scale * weights, 4.6, WEIGHTS)
        words(ax, 1, top - 5.7, f"weights: {weights:.0f} GB", colour="white", weight="bold")
        bar(ax, scale * weights, top - 8, max(scale * users * one, 0.3), 4.6, KEPT)
        words(ax, scale * weights + 0.8, top - 5.7, f"64 · {one:.3f}" if users > 1 else f"{one:.3f}")
    if step > 2:
        longer = (weights + 64 * one) / (weights + one)
        words(ax, 0, 5.6, f"A step takes {longer:.2f} times as long", size=BIG)
        words(ax, 0, 2, f"and gives 64 tokens: 64 / {longer:.2f} = {64 / longer:.0f}", size=BIG, weight="bold")
    return ax.figure


def throughput() -> Figure:
    """The tokens of all users and those of one, over the size of the batch."""
    rates = {n: n * H100.memory_bandwidth / (WORKER.read_bytes + n * 1000 * WORKER.token_bytes) for n in
             (1, 4, 16, 64, 256)}
    ax = sheet(65, 27, (6.5, 2.7))
    words(ax, 0, 25.6, "batch", weight="bold", size=BIG)
    words(ax, 8, 25.6, "tokens a second of all users", weight="bold", size=BIG, colour=WEIGHTS)
    words(ax, 65, 25.6, "of each", weight="bold", size=BIG, ha="right", colour=GREEN)
    for row, (users, rate) in enumerate(rates.items()):
        y = 19.2 - 4.7 * row
        words(ax, 6, y + 1.7, f"{users}", ha="right", size=BIG)
        wide = 38 * rate / max(rates.values())
        bar(ax, 8, y, wide, 3.4, WEIGHTS)
        words(ax, 8.8 + wide, y + 1.7, f"{rate:,.0f}", size=BIG, weight="bold")
        each = 8 * rate / users / rates[1]
        bar(ax, 65 - each, y, each, 3.4, MADE)
        words(ax, 64.2 - each, y + 1.7, f"{rate / users:.0f}", size=BIG, weight="bold", ha="right")
    return ax.figure


# Section 4: blocks


def reserved() -> Figure:
    """A GPU's memory: the weights, and as many reserved pieces as fit."""
    ax = sheet(36, 30)
    total, weights = H100.memory / 1e9, WORKER.weight_bytes / 1e9
    piece = 8192 * WORKER.token_bytes / 1e9
    words(ax, 0, 28.2, f"{total:.0f} GB of an H100", weight="bold", size=BIG)
    scale, count = 22.6 / total, int((0.9 * total - weights) / piece)
    bar(ax, 0, 3, 15, scale * total, IDLE)
    bar(ax, 0, 3, 15, scale * weights, WEIGHTS)
    words(ax, 7.5, 3 + scale * weights / 2, "weights", ha="center", colour="white", weight="bold", size=BIG)
    for place in range(count):
        bar(ax, 0, 3 + scale * (weights + piece * place), 15, 0.8 * scale * piece, "#B9B9B9")
        bar(ax, 0, 3 + scale * (weights + piece * place), 15 * (0.08, 0.2, 0.12, 0.3)[place % 4], 0.8 * scale * piece,
             canvas.FACES[place % 3])
    words(ax, 17, 20, f"{piece:.2g} GB reserved\nfor each request", size=BIG, weight="bold")
    words(ax, 17, 13.6, "colour: tokens\ngrey: reserved, empty", size=BIG)
    return ax.figure


def blocks_on_demand() -> list[Figure]:
    """A request that takes a block when its last one is full, and how its table finds a token."""
    return [_on_demand(step) for step in range(1, 5)]


def _on_demand(step: int) -> Figure:
    ax = sheet(65, 29, (6.5, 2.9))
    tokens = (7, 8, 9, 9)[step - 1]
    taken = TABLE[: -(-tokens // 4)]
    words(ax, 0, 27.4, "blocks of 4 places", weight="bold", size=BIG)
    for number in range(15):
        x, y = 0.4 + 8.1 * (number % 8), (19.4, 10.4)[number // 8]
        words(ax, x + 3.6, y + 5.2, f"{number}", ha="center", colour="#666666")
        bar(ax, x, y, 7.4, 4, WHITE, edgecolor=INK, linewidth=1.6 if number in taken else 0.8)
        if number in taken:
            start = 4 * taken.index(number)
            for place in range(4):
                there = start + place < tokens
                _cell(ax, x + 0.1 + 1.8 * place, y + 0.1, 1.8, 3.8, canvas.FACES[0] if there else IDLE,
                      f"{start + place + 1}" if there else "")
            bar(ax, x, y, 7.4, 4, "none", edgecolor=FAULT if step == 4 and number == 11 else INK, linewidth=2.5)
    words(ax, 0, 4.4, "table of A", weight="bold", size=BIG)
    for place, number in enumerate(taken):
        look = {"edge": FAULT, "line": 2.5} if step == 4 and place == 2 else {}
        box(ax, 12.4 + 4.8 * place, 2.4, 4.4, 4, canvas.FACES[0], f"{number}", size=BIG, **look)
    told = ("A's 7 tokens need two blocks.", "One more fills the second.", "The ninth takes a new block, anywhere.",
            "Token 9: third block, so block 11.")[step - 1]
    words(ax, 29, 4.4, told, size=BIG, weight="bold", colour=FAULT if step == 4 else INK)
    return ax.figure


def filled_places() -> list[Figure]:
    """Requests of the trace in places that were reserved, and in blocks."""
    return [_filled(step) for step in (1, 2)]


def _filled(step: int) -> Figure:
    ax = sheet(65, 28, (6.5, 2.8))
    used = [request.prompt + request.output for request in CHAT]
    share = sum(used) / (8192 * len(used))
    blocks = sum(used) / sum(16 * -(-tokens // 16) for tokens in used)
    words(ax, 0, 26.6, "8,192 places reserved for each", weight="bold", size=BIG)
    for row in range(12):
        y = 23.2 - 1.9 * row
        bar(ax, 0, y, 31, 1.5, IDLE)
        bar(ax, 0, y, 31 * used[row] / 8192, 1.5, canvas.FACES[row % 7])
    words(ax, 31, 0.6, f"{share:.1%} hold a token", weight="bold", size=BIG, ha="right", colour=FAULT)
    if step > 1:
        words(ax, 34, 26.6, "blocks of 16, as needed", weight="bold", size=BIG)
        x, row = 0, 0
        for place, tokens in enumerate(used[:72]):
            left = 31 * 16 * -(-tokens // 16) / 8192
            while left > 0 and row < 12:
                piece = min(left, 31 - x)
                bar(ax, 34 + x, 23.2 - 1.9 * row, piece, 1.5, canvas.FACES[place % 7])
                x, left = x + piece, left - piece
                if x > 30.99:
                    x, row = 0, row + 1
        words(ax, 65, 0.6, f"{blocks:.1%} hold a token", weight="bold", size=BIG, ha="right", colour=GREEN)
    return ax.figure


# Section 5: rows


def four_answers() -> Figure:
    """Four answers of different lengths, and a request that comes later."""
    ax = sheet(36, 30)
    words(ax, 3, 28, "tokens of each answer", weight="bold", size=BIG)
    for row, (name, tokens) in enumerate(zip("ABCD", TOKENS, strict=True)):
        y = 21.4 - 5 * row
        words(ax, 0, y + 1.8, name, weight="bold", size=BIG)
        for place in range(tokens):
            _cell(ax, 3 + 2 * place, y, 2, 3.6, MADE)
    words(ax, 0, 1.9, "E comes later.", size=BIG, weight="bold", colour=FAULT)
    return ax.figure


def a_place_is_free() -> Figure:
    """Four requests before step 3, of which two are done, and one more with a prompt of three tokens."""
    ax = sheet(36, 30)
    for step in (1, 2, 3):
        words(ax, 4 + 6 * step, 28, f"{step}", ha="center", weight="bold", size=BIG)
    words(ax, 0, 28, "step", weight="bold", size=BIG)
    for row, (name, tokens) in enumerate(zip("ABCD", TOKENS, strict=True)):
        y = 21.4 - 4.6 * row
        words(ax, 2, y + 2, name, weight="bold", size=BIG)
        for place in range(3):
            there = place < tokens
            _cell(ax, 7.2 + 6 * place, y, 5.6, 4, (READ if not place else MADE) if there else IDLE,
                  "" if there else "empty")
    words(ax, 26.6, 27, "waiting", ha="left", weight="bold")
    for place in range(3):
        _cell(ax, 26.6 + 3, 21.4 - 4.6 * place, 4.6, 4, READ, "E", size=BIG)
    canvas.arrow(ax, (29, 19.4), (25.2, 22.8), colour=FAULT, line=2)
    words(ax, 26.3, 24.6, "?", colour=FAULT, size=20, weight="bold")
    words(ax, 0, 3.4, "E's prompt has three tokens.", size=BIG)
    return ax.figure


@steps(range(1, 4))
def padded(step: int) -> Figure:
    """Step 3 as a rectangle: E's three tokens, one of B and one of C, and what fills it up."""
    ax = sheet(36, 30)
    words(ax, 0, 28, "step 3", weight="bold", size=BIG)
    for row, (name, tokens) in enumerate((("E", 3), ("B", 1), ("C", 1), ("D", 0))):
        y = 20.6 - 5.4 * row
        if row == 0 or step > 1:
            words(ax, 2, y + 2.4, name, weight="bold", size=BIG)
        for place in range(3):
            there = place >= 3 - tokens
            if row == 0 or there and step > 1:
                _cell(ax, 6 + 7.4 * place, y, 7.2, 4.8, READ if row == 0 else MADE, name, size=BIG)
            elif step > 2:
                _cell(ax, 6 + 7.4 * place, y, 7.2, 4.8, IDLE, "padding")
    if step > 2:
        words(ax, 0, 1.8, "12 places, 5 of use", size=BIG, weight="bold", colour=FAULT)
    return ax.figure


@steps(range(1, 4))
def in_a_row(step: int) -> Figure:
    """The same five tokens in a row: through the matrix products, and in attention."""
    ax = sheet(65, 29, (6.5, 2.9))
    names = "BCEEE"
    words(ax, 0, 25.2, "a row", weight="bold", size=BIG)
    for place, name in enumerate(names):
        x = 18 + 9.4 * place
        _cell(ax, x, 23, 9, 4.6, READ if name == "E" else MADE, name, size=BIG)
        if step > 1:
            canvas.arrow(ax, (x + 4.5, 22.6), (x + 4.5, 18.8), line=1.5)
        if step > 2:
            canvas.arrow(ax, (x + 4.5, 13.6), (x + 4.5, 9.6), line=1.5)
            old = {"B": (KEPT, "its 5 KV"), "C": (KEPT, "its 6 KV"), "E": (canvas.FACES[2], "E so far")}[name]
            box(ax, x + 0.3, 4.8, 8.4, 4.4, old[0], old[1])
    if step > 1:
        words(ax, 0, 16.2, "matrix products", weight="bold", size=BIG)
        box(ax, 18, 13.8, 46.6, 4.8, canvas.FACES[0], "the same weights for each token, whosever it is", size=BIG)
    if step > 2:
        words(ax, 0, 7, "attention", weight="bold", size=BIG)
        words(ax, 18, 2, "each sees only its own request: a mask hides the others", weight="bold", size=BIG)
    return ax.figure


@steps(range(1, 5))
def one_row(step: int) -> Figure:
    """A row of eight places: first the answers, then prompts, and what does not fit comes with the next row."""
    ax = sheet(65, 27, (6.5, 2.7))
    row = [("A", MADE), ("B", MADE), *[("C", READ)] * 4, *[("D", READ)] * 2]
    filled = (0, 2, 6, 8)[step - 1]
    words(ax, 0, 25.6, "budget: 8 tokens", weight="bold", size=BIG, colour=FAULT)
    for place, (name, colour) in enumerate(row):
        there = place < filled
        bar(ax, 8.1 * place, 15, 7.7, 6.4, colour if there else WHITE, edgecolor=canvas.GREY, linewidth=1)
        words(ax, 8.1 * place + 3.85, 18.2, name if there else "", ha="center", size=20)
    line(ax, (65, 13.6), (65, 23), colour=FAULT, wide=3)
    notes = ((0, 16.2, "1  answers", "a token each", GREEN),
             (16.2, 32.4, "2  C's prompt", "four tokens are left", WEIGHTS),
             (48.6, 16.2, "3  D's prompt", "two of three fit", WEIGHTS))
    for x, wide, name, told, colour in notes[: step - 1]:
        line(ax, (x, 13.8), (x + wide - 0.6, 13.8), colour=colour, wide=3)
        words(ax, x, 11.4, name, weight="bold", size=BIG, colour=colour)
        words(ax, x, 8.6, told)
    if step == 4:
        _cell(ax, 0, 0.4, 7.7, 5, READ, "D", size=BIG)
        words(ax, 9, 2.9, "D's third token goes into the next row: chunked prefill", size=BIG, weight="bold")
    return ax.figure


def three_servers() -> Figure:
    """What a step of each of three servers holds."""
    ax = sheet(36, 30)
    words(ax, 0, 28.8, "static", weight="bold", size=BIG)
    words(ax, 36, 28.8, "four, until all are done", ha="right")
    for row in range(4):
        for place in range(12):
            there = place < (2, 12, 4, 2)[row]
            _cell(ax, 3 * place, 25 - 1.9 * row, 3, 1.9, (READ if not place else MADE) if there else IDLE)
    words(ax, 0, 16.6, "whole prompts", weight="bold", size=BIG)
    words(ax, 36, 16.6, "a prompt, or a token each", ha="right")
    for column, kind in enumerate("PPPAAPAAPAAA"):
        high = 4.6 if kind == "A" else 3.2
        for piece in range(3 if kind == "A" else 1):
            _cell(ax, 3 * column, 10.2 + high / 3 * piece if kind == "A" else 10.2, 3,
                  high / 3 if kind == "A" else high, MADE if kind == "A" else READ)
    words(ax, 0, 7.2, "in chunks", weight="bold", size=BIG)
    words(ax, 36, 7.2, "rows of your fill_row", ha="right")
    for column in range(12):
        answers = min(column, 3)
        for piece in range(4):
            _cell(ax, 3 * column, 0.6 + 1.25 * piece, 3, 1.25, MADE if piece < answers else READ)
    return ax.figure


# Section 6: a long prompt


def prompt_and_answer() -> Figure:
    """The tokens of an average prompt and of an average answer."""
    prompt, answer = (sum(getattr(request, name) for request in CHAT) / len(CHAT) for name in ("prompt", "output"))
    ax = sheet(36, 30)
    rows = (18.6, "an average prompt", prompt, READ), (7.4, "an average answer", answer, MADE)
    for y, name, tokens, colour in rows:
        words(ax, 0, y + 7, name, size=BIG)
        wide = 35.4 * tokens / prompt
        bar(ax, 0, y, wide, 5, colour)
        words(ax, 34.6 if wide > 20 else wide + 1, y + 2.5, f"{tokens:,.0f} tokens", weight="bold", size=BIG,
              ha="right" if wide > 20 else "left")
    return ax.figure


def _users(ax: Axes, low: float, until: float, scale: float, left: float = 3) -> None:
    """Draw the steps of three answers, a token each, from the left on."""
    for row in range(3):
        for place in range(int(until / THREE + 0.01)):
            _cell(ax, left + scale * place * THREE, low + 3.6 * row, scale * THREE, 3, MADE)


def document_comes() -> Figure:
    """Three answers on their way, and a document that has the GPU next."""
    ax = sheet(36, 30)
    scale = 4 / THREE * 0.6
    for row, name in enumerate("CBA"):
        words(ax, 0, 14.7 + 3.6 * row, name, weight="bold")
    _users(ax, 13.2, 5 * THREE, scale)
    words(ax, 3, 26.4, f"a token every {1e3 * THREE:.1f} ms", size=BIG, weight="bold", colour=GREEN)
    x = 3 + 5 * scale * THREE
    bar(ax, x, 7.6, 20.4, 4, READ)
    words(ax, x + 10.2, 9.6, "a document of 8,000", ha="center", size=BIG)
    for row in range(3):
        line(ax, (x + 0.2, 14.7 + 3.6 * row), (35.4, 14.7 + 3.6 * row), colour=FAULT, wide=1.6, linestyle=":")
    words(ax, x + 10.2, 3.2, "? ms", ha="center", size=20, weight="bold", colour=FAULT)
    return ax.figure


def document_then_step() -> Figure:
    """A usual wait, and the one that the document makes: its own step and the next."""
    document = WORKER.prompt_seconds(8000)
    ax = sheet(36, 30)
    scale = 35.4 / (document + THREE)
    words(ax, 0, 27, "a usual wait", size=BIG)
    bar(ax, 0, 19.6, scale * THREE, 5, MADE)
    words(ax, scale * THREE + 1, 22.1, f"{1e3 * THREE:.1f} ms", size=BIG, weight="bold")
    words(ax, 0, 14, "with the document", size=BIG)
    bar(ax, 0, 6.6, scale * document, 5, READ)
    bar(ax, scale * document, 6.6, scale * THREE, 5, MADE)
    words(ax, 1, 9.1, f"document: {1e3 * document:.0f} ms", size=BIG, weight="bold")
    words(ax, 36, 3.6, "then a step of their own", ha="right", size=BIG, colour=GREEN, weight="bold")
    return ax.figure


# Section 7: what users were promised


def two_waits() -> Figure:
    """A user's two waits: for the first token, and from token to token."""
    ax = sheet(36, 30)
    words(ax, 0, 21.6, "Enter", size=BIG)
    line(ax, (0, 15), (36, 15), zorder=0.5)
    canvas.arrow(ax, (0.6, 20), (0.6, 15.4), line=1.5)
    xs = 15, 19.4, 23.8, 28.2, 32.6
    for place, x in enumerate(xs):
        box(ax, x - 1.5, 13.2, 3, 3.6, canvas.FACES[2], f"{place + 1}", size=BIG)
    canvas.arrow(ax, (0.6, 10.4), (15, 10.4), style="<|-|>", colour=WEIGHTS, line=2)
    words(ax, 0.6, 7.4, "TTFT: to the\nfirst token", va="top", size=BIG, weight="bold", colour=WEIGHTS)
    canvas.arrow(ax, (19.4, 20), (23.8, 20), style="<|-|>", colour=GREEN, line=2)
    words(ax, 14, 25.4, "ITL: from token\nto token", size=BIG, weight="bold", colour=GREEN)
    return ax.figure


@steps(range(1, 5))
def promise(step: int) -> Figure:
    """Three users' tokens in time: one for whom the promise is kept, and two who waited too long."""
    ax = sheet(65, 28, (6.5, 2.8))
    words(ax, 3, 26.4, "the first token within 1 s", weight="bold", size=BIG, colour=WEIGHTS)
    words(ax, 31, 26.4, "then no gap above 50 ms (drawn wider)", weight="bold", size=BIG, colour=GREEN)
    users = ((16, (0, 3, 6, 9, 12, 15, 18, 21), "kept"), (31.4, (0, 3, 6, 9, 12), "late"),
             (14, (0, 3, 6, 17, 20, 23, 26), "a gap"))
    for row, (first, tokens, told) in enumerate(users[:step]):
        y, good = 20 - 6.4 * row, told == "kept"
        canvas.arrow(ax, (3, y), (55, y), line=1)
        words(ax, 0, y, "ABC"[row], weight="bold", size=BIG)
        bar(ax, 3, y - 1.2, first - 3, 2.4, canvas.FACES[0] if told != "late" else canvas.FACES[3])
        for token in tokens:
            ax.plot([first + token], [y], "o", color=MADE, markersize=11)
        if told == "a gap":
            canvas.arrow(ax, (first + 6.8, y), (first + 16.2, y), style="<|-|>", colour=FAULT, line=3)
        words(ax, 56, y, told, weight="bold", size=BIG, colour=GREEN if good else FAULT)
    line(ax, (26, 4.8), (26, 24), colour=WEIGHTS, wide=2, linestyle="--")
    words(ax, 26.6, 23.6, "1 s", colour=WEIGHTS, weight="bold")
    if step == 4:
        words(ax, 3, 1.8, "Goodput counts only A: the requests a second for which the promise is kept.", size=BIG,
              weight="bold")
    return ax.figure


def ten_arrive() -> Figure:
    """The requests that arrive in a second, beside those that the server could finish."""
    ax = sheet(36, 30)
    rows = ((17.4, "could finish in a flood", 35, canvas.FACES[2]), (4.4, "arrive in a second", 10, canvas.FACES[4]))
    for y, name, count, colour in rows:
        words(ax, 0, y + 9, f"{count} {name}", size=BIG, weight="bold")
        for place in range(count):
            box(ax, 0.4 + 1.98 * (place % 18), y + 3.6 - 3.6 * (place // 18), 1.5, 2.8, colour)
    return ax.figure


def three_in_a_row() -> list[Figure]:
    """One prompt between two tokens, and three of them, beside the gap that was promised."""
    return [_in_a_gap(step) for step in (1, 2)]


def _in_a_gap(step: int) -> Figure:
    ax = sheet(36, 30)
    prompt, scale = AVERAGE, 34 / (3 * AVERAGE + 2 * THREE)
    limit = 0.05 * scale
    for y, count in ((18.6, 1), (7.4, 3))[:step]:
        words(ax, 0, y + 6.4, f"{count} prompt{'s' * (count > 1)} between two tokens", size=BIG)
        for place in range(count):
            _cell(ax, scale * prompt * place, y, scale * prompt, 4.6, READ, f"{1e3 * prompt:.0f} ms", weight="bold")
        bar(ax, scale * prompt * count, y, scale * THREE, 4.6, MADE)
    line(ax, (limit, 5.4), (limit, 24), colour=FAULT, wide=2.5, linestyle="--")
    words(ax, limit, 3.4, "promised: 50 ms", ha="center", colour=FAULT, weight="bold", size=BIG)
    return ax.figure


def two_budgets() -> Figure:
    """A row of 512 tokens and one of 8,192, to scale."""
    ax = sheet(36, 30)
    for y, budget in ((18.6, 512), (6, 8192)):
        words(ax, 0, y + 7.6, f"a row of {budget:,}", size=BIG, weight="bold")
        wide = 35.4 * budget / 8192
        bar(ax, 0, y, wide, 5, READ)
        bar(ax, 0, y, 0.25, 5, MADE)
    words(ax, 4, 21, "promise kept for all 30", size=BIG)
    words(ax, 17.7, 8.5, "for ? of 30", size=BIG, ha="center", weight="bold")
    return ax.figure


def full_rows() -> Figure:
    """The milliseconds of full rows beside the gap that was promised."""
    ax = sheet(36, 30)
    seconds = {budget: WORKER.seconds(budget, 0, 0, 1) for budget in (512, 2048, 8192)}
    scale = 35.4 / max(seconds.values())
    for row, (budget, taken) in enumerate(seconds.items()):
        y = 20.2 - 8 * row
        words(ax, 0, y + 5.4, f"{budget:,} tokens", size=BIG)
        wide = scale * taken
        bar(ax, 0, y, wide, 3.8, READ if taken < 0.05 else canvas.FACES[3])
        inside = wide > 7
        words(ax, wide - 0.8 if inside else wide + 0.8, y + 1.9, f"{1e3 * taken:.0f} ms", weight="bold", size=BIG,
              ha="right" if inside else "left")
    words(ax, 0, 29, "a full row: its matrix products alone", colour=GREY_WORDS)
    line(ax, (0.05 * scale, 3.4), (0.05 * scale, 27.4), colour=FAULT, wide=2.5, linestyle="--")
    words(ax, 0.05 * scale, 1.4, "promised: 50 ms", ha="center", colour=FAULT, weight="bold", size=BIG)
    return ax.figure


def _bills() -> dict[str, dict[str, float]]:
    """Return what the seconds of the chapter's ordinary user went to, on three servers."""
    busy, mixed = (traffic(way, 25, record="steps") for way in (continuous, 512))
    user = answer_bill.ordinary(busy.requests, prompt=(900, 1100), output=(120, 140))
    empty = Engine(WORKER, continuous, slots=1, blocks=WORKER.blocks(), record="steps").run(
        [Request(0, 0.0, user.prompt, user.output)])
    least = empty.requests[0].end - empty.requests[0].first
    return {name: answer_bill.spent(served, number, least) for name, served, number in (
        ("empty server", empty, 0), ("whole prompts", busy, user.id), ("in chunks", mixed, user.id))}


def bill() -> list[Figure]:
    """What the milliseconds of one answer went to: alone, beside whole prompts, and in chunks."""
    bills = _bills()
    return [_bill(bills, step) for step in range(1, 4)]


def _bill(bills: dict[str, dict[str, float]], step: int) -> Figure:
    ax = sheet(65, 28, (6.5, 2.8))
    scale = 56 / max(sum(spent.values()) for spent in bills.values())
    looks = (READ, {}), (MADE, {}), ("#8FD3BD", {}), (WHITE, {"hatch": "////", "edgecolor": WEIGHTS})
    for row, (name, spent) in list(enumerate(bills.items()))[:step]:
        y, x = 20.4 - 8.2 * row, 0
        words(ax, 0, y + 5.6, name, weight="bold", size=BIG)
        for taken, (colour, look) in zip(spent.values(), looks, strict=True):
            wide = scale * taken
            if taken > 0.001:
                bar(ax, x, y, wide, 4, colour, **look)
            if taken > 0.05:
                hatched = {"bbox": {"facecolor": "white", "edgecolor": "none", "pad": 2}} if look else {}
                words(ax, x + wide / 2, y + 2, f"{1e3 * taken:.0f}", ha="center", weight="bold", **hatched)
            x += wide
        words(ax, x + 0.8, y + 2, f"{1e3 * sum(spent.values()):,.0f} ms", size=BIG, weight="bold")
    names = "first token", "own tokens", "others in its steps", "strangers' prompts"
    for x, name, (colour, look) in zip((0, 12.4, 24.4, 42.4), names, looks, strict=True):
        bar(ax, x, 0.5, 2, 2, colour, **look)
        words(ax, x + 2.8, 1.5, name)
    return ax.figure


def hidden() -> list[Figure]:
    """A row's reading and its arithmetic: one after the other with whole prompts, side by side in chunks."""
    return [_hidden(step) for step in (1, 2)]


def _hidden(step: int) -> Figure:
    ax = sheet(65, 28, (6.5, 2.8))
    chunks = traffic(512, 25)
    row = sum(request.prompt + request.output - 1 for request in chunks.requests) / chunks.passes
    work = row * WORKER.token_flops / H100.peak()
    prompt, scale = AVERAGE, 1e3 * 2.2
    words(ax, 0, 26.4, "whole prompts: the arithmetic comes after the reading", weight="bold", size=BIG)
    for y, name in ((20.4, "reading"), (16, "arithmetic")):
        words(ax, 0, y + 1.7, name)
    x = 11
    bar(ax, x, 20.4, scale * READING, 3.4, WEIGHTS)
    bar(ax, x + scale * READING, 16, scale * prompt, 3.4, READ)
    words(ax, x + scale * READING / 2, 22.1, f"{1e3 * READING:.1f} ms", ha="center", colour="white", weight="bold")
    words(ax, x + scale * (READING + prompt / 2), 17.7, f"an average prompt: {1e3 * prompt:.0f} ms", ha="center",
          weight="bold")
    if step > 1:
        words(ax, 0, 12, f"in chunks: a row of about {round(row, -1):.0f} tokens", weight="bold", size=BIG)
        for y, name in ((6, "reading"), (1.6, "arithmetic")):
            words(ax, 0, y + 1.7, name)
        for place in range(5):
            left = x + scale * READING * place * 1.02
            bar(ax, left, 6, scale * READING, 3.4, WEIGHTS)
            bar(ax, left, 1.6, scale * work, 3.4, READ)
            words(ax, left + scale * READING / 2, 7.7, f"{1e3 * READING:.1f}", ha="center", colour="white",
                  weight="bold")
            words(ax, left + scale * work / 2, 3.3, f"{1e3 * work:.1f}", ha="center", weight="bold")
    return ax.figure


def the_answer() -> Figure:
    """What a GPU on a good server does in each step: it reads, and computes other users' prompts meanwhile."""
    ax = sheet(36, 30)
    words(ax, 0, 27.4, "memory", weight="bold", size=BIG, colour=WEIGHTS)
    words(ax, 0, 13.4, "arithmetic", weight="bold", size=BIG, colour=GREEN)
    for place in range(3):
        x = 12 * place
        bar(ax, x, 17.6, 8.4, 7, WEIGHTS)
        words(ax, x + 4.2, 21.1, "weights", ha="center", colour="white", weight="bold")
        bar(ax, x + 8.4, 17.6, 3, 7, KEPT)
        words(ax, x + 9.9, 21.1, "KV", ha="center", weight="bold")
        bar(ax, x, 3.6, 1, 7, MADE)
        bar(ax, x + 1, 3.6, 6.6, 7, READ)
        words(ax, x + 4.3, 7.1, "others'\nprompts", ha="center")
        bar(ax, x + 7.6, 3.6, 3.8, 7, IDLE)
        words(ax, x + 11.4, 1.4, "a token", ha="right", weight="bold")
    return ax.figure
