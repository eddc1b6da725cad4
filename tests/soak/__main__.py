"""The long form of the soak: `python -m tests.soak --minutes 60` says what memory an hour of pods in and out takes."""

from __future__ import annotations

import argparse
import logging
import sys

from tests.soak import real, virtual
from tests.soak.churn import Shape
from tests.soak.virtual import MemorySample

#: After how many minutes is looked first, and what may have grown by then by how much for every pod that passes.
FIRST, SPARE = 5.0, 0.01


def main() -> int:
    """Let pods come and go; fail if on virtual time something grows that has no bound, or beyond it."""
    options = _options()
    shape = Shape(rate=options.rate)
    if options.real:
        real.soak(options.seed, shape, 60 * options.minutes, 30.0, _print)
        return 0
    logging.disable(logging.CRITICAL)
    looks: list[MemorySample] = []

    def report(look: MemorySample) -> None:
        looks.append(look)
        _print(look)

    moments = [60 * FIRST * n for n in range(1, int(options.minutes // FIRST) + 1)]
    virtual.soak(options.seed, shape, moments, report)
    growing_containers = virtual.growing_containers(looks[0], looks[-1], SPARE)
    for line in growing_containers:
        _print(line)
    return int(bool(growing_containers))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0, help="how long pods come and go, at least ten")
    parser.add_argument("--rate", type=float, default=Shape().rate, help="how many pods a second")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--real", action="store_true", help="on real time, over HTTP, in two processes")
    return parser.parse_args()


def _print(line: object) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
