"""The cases of the project's own workloads."""

from __future__ import annotations

from pathlib import Path

from kframework.testing.scheduler_perf.definitions import Definition, read, select_definitions

WORKLOADS = Path(__file__).parent / "workloads"


def find_definitions(case: str, label: str) -> list[Definition]:
    """Read the workloads of a case that have a label."""
    return select_definitions(read([str(WORKLOADS)]), [case], [label])
