"""Every purpose has a generator of its own, the same in every process."""

from __future__ import annotations

import os
import subprocess
import sys

from kframework.seeds import Seeds


def test_the_same_seed_and_purpose_give_the_same_draws() -> None:
    assert Seeds(7).generator("ties").random() == Seeds(7).generator("ties").random()


def test_seeds_and_purposes_do_not_follow_one_another() -> None:
    drawn = {Seeds(seed).generator(purpose).random() for seed in (0, 1, 10) for purpose in ("ties", "0/ties", "jitter")}
    assert len(drawn) == 9


def test_no_ones_draws_move_anothers() -> None:
    seeds = Seeds(7)
    alone = Seeds(7).generator("ties").random()
    seeds.generator("jitter").random()
    assert seeds.generator("ties").random() == alone


def test_another_process_draws_the_same() -> None:
    program = "from kframework.seeds import Seeds; print(Seeds(7).generator('ties').random())"
    for hash_seed in ("1", "2"):
        process = subprocess.run(
            [sys.executable, "-c", program],
            env=os.environ | {"PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        )
        assert float(process.stdout) == Seeds(7).generator("ties").random()
