"""The long form of the runs under faults: `python -m tests.faults --pods 100000` reports what befell and what held."""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.faults.again import again
from tests.faults.pod_run import Report, Shape, run


def main() -> int:
    """Run one world after the other, by ascending seed, until so many pods have been created; fail if one fails."""
    options = _options()
    logging.disable(logging.CRITICAL)
    options.folder.mkdir(parents=True, exist_ok=True)
    began, seed, left, failed = time.monotonic(), options.seed, options.pods, False
    totals: Counter[str] = Counter()
    while left > 0:
        shape = Shape(nodes=options.nodes, pods=min(left, options.world), pause=options.pause)
        report = run(seed, shape, options.folder)
        replayed = again(report.recording)
        _count(totals, report)
        failed = failed or bool(report.complaints) or not replayed.alike
        _print(f"seed {seed}: {report.pods} pods, {report.attempts} attempts, {report.seconds:.0f} s of virtual time")
        if report.complaints or not replayed.alike:
            said = [replayed.difference, *replayed.disagreements[:5]] if not replayed.alike else ["the same decisions"]
            _print(f"{report}\n  in another process: {said}")
        elif not options.keep:
            report.recording.unlink()
        seed, left = seed + 1, left - report.pods
    _summarise(totals, time.monotonic() - began)
    return int(failed)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--pods", type=int, default=1_000, help="how many pods all in all")
    parser.add_argument("--world", type=int, default=10_000, help="how many of them one scheduler lives through")
    parser.add_argument("--nodes", type=int, default=12)
    parser.add_argument("--pause", type=float, default=Shape().pause, help="seconds between two pods for one node")
    parser.add_argument("--seed", type=int, default=1, help="the seed of the first world")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir(), "kframework-faults"))
    parser.add_argument("--keep", action="store_true", help="keep the recordings of worlds in which all held, too")
    return parser.parse_args()


def _count(totals: Counter[str], report: Report) -> None:
    totals.update(worlds=1, pods=report.pods, bindings=report.bindings, attempts=report.attempts)
    totals.update({f"{what} deleted": count for what, count in report.deleted.items()})
    totals.update({f"fault: {fault}": count for fault, count in report.faults.items()})
    totals["seconds of virtual time"] += round(report.seconds)
    totals["complaints"] += len(report.complaints)


def _summarise(totals: Counter[str], seconds: float) -> None:
    _print(f"\n{seconds:.0f} s")
    for what, count in sorted(totals.items()):
        _print(f"{count:>10,}  {what}")


def _print(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
