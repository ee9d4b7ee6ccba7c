"""Trains the tiny mixture by every rule with three seeds, and writes the runs down: python tests/record_balance.py

Takes about four minutes of one core. tests/test_balance.py trains the first steps again and compares.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import torch  # noqa: E402

from course_lib.lessons.balance import RULES, SEEDS, train, write  # noqa: E402
from solutions.ch11_expert_parallel import balance_bias  # noqa: E402

if __name__ == "__main__":
    torch.set_num_threads(1)
    runs = []
    for seed in SEEDS:
        for rule in RULES:
            begin = time.process_time()
            runs.append(train(rule, seed, bias_rule=balance_bias if rule == "bias" else None))
            print(f"{runs[-1]}; {time.process_time() - begin:.0f} s of one core", flush=True)
    write(sorted(runs, key=lambda run: (RULES.index(run.rule), run.seed)))
