"""The long form of the exploration: `python -m tests.interleavings --schedules 10000 --world binding`."""

from __future__ import annotations

import argparse
import gc
import sys
import time

from tests.interleavings.explorer import explore, replay
from tests.interleavings.worlds.every import WORLDS


def main() -> int:
    """Explore worlds, or run one under one schedule; fail if something does not hold."""
    options = _options()
    gc.freeze()  # or every collection would walk the whole library
    names = [options.world] if options.world else list(WORLDS)
    if options.replay is not None:
        deviations = dict(each.split("=", 1) for each in options.replay.split(";") if each)
        outcome = replay(WORLDS[names[0]], {int(point): label for point, label in deviations.items()})
        _print("\n".join([*map(str, outcome.deviations), *(outcome.problems or ["all holds"])]))
        return int(bool(outcome.problems))
    return max([_explore(name, options.schedules, options.seed) for name in names])


def _explore(name: str, schedules: int, seed: int) -> int:
    began = time.process_time()
    found = explore(name, WORLDS[name], schedules, seed)
    seconds = time.process_time() - began
    points = found.points / found.schedules
    speed = f"{found.schedules / seconds:.0f} a second, {points:.0f} points of choice each"
    _print(f"{name:<12} {found.schedules:>7,} schedules, {found.distinct:>7,} distinct, {speed}")
    if found.failure is not None:
        _print(str(found.failure))
    return int(found.failure is not None)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.interleavings", description=__doc__)
    parser.add_argument("--schedules", type=int, default=1_000, help="how many schedules of each world")
    parser.add_argument("--world", choices=list(WORLDS), help="one world instead of all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--replay", help="run a world under one schedule, as a failure names it")
    return parser.parse_args()


def _print(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
