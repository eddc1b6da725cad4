"""The long form of the runs under faults: `python -m tests.faults --pods 1000000` reports what befell and what held.

Each finished world is a line in a file, so that a run that was interrupted goes on where it was: `--resume`.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

import msgspec

from tests.faults.parallel_worlds import FinishedWorld, run_in_parallel
from tests.faults.summary import Summary
from tests.faults.worlds import WorldOrder, engine_of

#: Seconds between two lines on a terminal's progress.
PROGRESS = 10.0


def main() -> int:
    """Run one world after the other, by ascending seed, until `pods` pods have been created; fail if one fails."""
    options = _options()
    options.folder.mkdir(parents=True, exist_ok=True)
    run = LongRun(options)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        asyncio.run(run.main())
    except KeyboardInterrupt:
        _print(f"interrupted; `{run.command('--resume', '--pods', options.pods)}` goes on")
        return 130
    finally:
        _print(str(run.summary))
    return int(bool(run.summary.failures))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--pods", type=int, default=1_000, help="how many pods all in all")
    parser.add_argument("--world", type=int, default=400, help="how many of them one world has")
    parser.add_argument("--engine", choices=["pod", "batch", "both"], default="both")
    parser.add_argument("--seed", type=int, default=0, help="the seed of the first world")
    parser.add_argument("--only", type=int, metavar="SEED", help="run this world alone, and keep its recordings")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="how many worlds side by side")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir(), "kframework-faults"))
    parser.add_argument("--resume", action="store_true", help="go on with the run whose results are in the folder")
    parser.add_argument("--keep", action="store_true", help="keep the recordings of worlds in which all held, too")
    return parser.parse_args()


class LongRun:
    """One run of many worlds, and its file of results."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._results: Path = options.folder / ("only.jsonl" if options.only is not None else "results.jsonl")
        self._told = time.monotonic()
        self._under_way = 0
        self.summary = Summary()

    def command(self, *more: object) -> str:
        """Return the command that makes the same worlds."""
        own = ("--world", self._options.world, "--engine", self._options.engine, "--folder", self._options.folder)
        return " ".join(["python -m tests.faults", *map(str, (*more, *own))])

    async def main(self) -> None:
        """Live through all worlds that are not in the file yet."""
        if self._options.resume and self._results.exists():
            for line in self._results.read_bytes().splitlines():
                self.summary.add(msgspec.json.decode(line, type=FinishedWorld))
        with self._results.open("a" if self._options.resume else "w") as file:
            await run_in_parallel(
                self._orders(), self._options.workers, lambda finished: self._finished(finished, file)
            )

    def _orders(self) -> Iterator[WorldOrder]:
        options = self._options
        if options.only is not None:
            yield self._order(options.only)
            return
        seed = options.seed
        while self.summary.pods + self._under_way * options.world < options.pods:
            if seed not in self.summary.seeds:
                self._under_way += 1
                yield self._order(seed)
            seed += 1

    def _order(self, seed: int) -> WorldOrder:
        return WorldOrder(seed, engine_of(seed, self._options.engine), self._options.world, str(self._options.folder))

    def _finished(self, finished: FinishedWorld, file: TextIO) -> None:
        self._under_way -= 1
        self.summary.add(finished)
        file.write(msgspec.json.encode(finished).decode() + "\n")
        file.flush()
        seed = finished.order.seed
        if finished.problems:
            _print(f"seed {seed} ({finished.order.engine}) fails; only it: {self.command('--only', seed)}")
            _print("\n".join(f"  {problem}" for problem in finished.problems[:20]))
        elif finished.result is not None and not self._options.keep and self._options.only is None:
            for recording in finished.result.recordings:
                Path(recording).unlink(missing_ok=True)
        if time.monotonic() - self._told > PROGRESS:
            self._told = time.monotonic()
            _print(f"{self.summary.pods:,} of {self._options.pods:,} pods in {len(self.summary.seeds):,} worlds")


def _print(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
