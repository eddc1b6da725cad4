"""The long form of the soak: `python -m tests.soak --minutes 60` says what memory an hour of pods in and out takes."""

from __future__ import annotations

import argparse
import sys

from tests.soak import real
from tests.soak.churn import Shape


def main() -> int:
    options = _options()
    shape = Shape(rate=options.rate)
    real.soak(options.seed, shape, 60 * options.minutes, 30.0, _print)
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0, help="how long pods come and go")
    parser.add_argument("--rate", type=float, default=Shape().rate, help="how many pods a second")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--real", action="store_true", help="on real time, over HTTP, in two processes")
    return parser.parse_args()


def _print(line: object) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
