"""overcommit: let somewhat more pods be made than there is room for, but not all of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from pydantic import Field, field_validator

from kframework_batch.job import JobInfo
from kframework_batch.plugin import BatchArguments, BatchPlugin, Vote, hookimpl
from kframework_batch.queue import inqueue_resources, min_resources_of, remaining_inqueue_resources
from kframework_batch.resource import Resource, format_quantity, format_shortage
from kframework_batch.session_view import SessionView, in_batches

_FACTOR = 1.2


class OvercommitArguments(BatchArguments):
    """How many times the cluster counts; less than 1 means the default, as with Volcano."""

    factor: float = Field(_FACTOR, alias="overcommit-factor", allow_inf_nan=False)

    @field_validator("factor")
    @classmethod
    def _no_less_than_the_cluster(cls, factor: float) -> float:
        return factor if factor >= 1 else _FACTOR


class Overcommit(BatchPlugin):
    """Admits jobs while their minimums and the pods' requests are within the cluster times a factor.

    Unlike with Volcano, what an admitted job holds already is not counted a second time as part of its minimum.
    """

    name: ClassVar[str] = "overcommit"
    Arguments: ClassVar[type[BatchArguments]] = OvercommitArguments

    arguments: OvercommitArguments

    def __init__(self, arguments: OvercommitArguments) -> None:
        super().__init__(arguments)
        #: What is left for jobs to enter with.
        self._remaining = Resource()

    @hookimpl
    def on_session_open(self, session: SessionView) -> Iterator[None]:
        self._remaining = session.total.times(self.arguments.factor).minus(session.used)
        for jobs in in_batches(session.jobs.values()):
            for job in jobs:
                self._remaining.sub(remaining_inqueue_resources(job))
            yield

    @hookimpl
    def job_enqueueable(self, session: SessionView, job: JobInfo) -> Vote:
        factor, lacking = self.arguments.factor, []
        for name, amount in min_resources_of(job).items():
            if amount > max(self._remaining.get(name, 0), 0):
                total = Resource({name: session.total.get(name, 0)})
                whole = f"overcommit-factor {factor:g} times {format_quantity(name, total[name])}, rounded down"
                lacking.append(f"{format_shortage(name, amount, total.times(factor)[name])} ({whole})")
        if not lacking:
            return Vote.PERMIT
        help = "a smaller minimum, more nodes or a larger overcommit-factor would help"
        job.message = f"the cluster has no room for its minimum: {'; '.join(lacking)}; {help}"
        return Vote.REJECT

    @hookimpl
    def job_enqueued(self, session: SessionView, job: JobInfo) -> None:
        self._remaining.sub(inqueue_resources(job))
