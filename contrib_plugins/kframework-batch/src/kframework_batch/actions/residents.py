"""Who is on a node and may be a victim, by the name of the node."""

from __future__ import annotations

from collections.abc import Generator

from kframework_batch.job import PREEMPTABLE, TaskInfo
from kframework_batch.session import Session


class Residents:
    """The tasks on nodes that do not forbid to be pushed out; pods without a known job are not among them."""

    def __init__(self) -> None:
        self._on: dict[str, list[TaskInfo]] = {}

    @classmethod
    def of(cls, session: Session) -> Generator[None, None, Residents]:
        """Look through the jobs of a session; yields after each."""
        residents = cls()
        for job in session.jobs.values():
            for task in job.tasks.values():
                if task.status in PREEMPTABLE and task.preemptable and task.pod.row >= 0:
                    residents._on.setdefault(task.node_name, []).append(task)
            yield
        return residents

    def on(self, node_name: str) -> list[TaskInfo]:
        """List those on a node who have not been chosen as victims yet."""
        return [task for task in self._on.get(node_name, ()) if task.status in PREEMPTABLE]

    def __repr__(self) -> str:
        return f"<Residents on {len(self._on)} nodes>"
