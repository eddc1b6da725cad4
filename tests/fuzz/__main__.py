"""The long form: `python -m tests.fuzz --requests 1000000` sends made-up requests to the fake API, and shows faults."""

from __future__ import annotations

import argparse
import sys

from tests.fuzz.run import send


def main() -> int:
    """Send requests, the same for the same seed; fail if one of them found a fault."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--requests", type=int, default=100_000, metavar="N", help="how many (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="where to begin (%(default)s)")
    options = parser.parse_args()
    report = send(options.seed, options.requests, _report_progress)
    for fault in report.faults[:10]:
        _print(f"{fault}\n")
    answers = ", ".join(f"{count:,} x {status}" for status, count in sorted(report.statuses.items()))
    _print(f"{options.requests:,} requests: {answers}; {len(report.faults)} found a fault")
    return int(bool(report.faults))


def _report_progress(done: int) -> None:
    if done and done % 50_000 == 0:
        _print(f"{done:,} requests")


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
