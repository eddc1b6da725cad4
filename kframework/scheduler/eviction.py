"""Eviction of the victims of a preemption, and of gangs that stay bound in part, while other pods are scheduled.

It changes nothing of the scheduler's state: its progress is reported by messages. A victim that is not bound yet is
requeued without an API call.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter_ns

import anyio

from kframework.client.cluster import Cluster
from kframework.core.cycle.results import Eviction
from kframework.core.host import PodEvent
from kframework.errors import ClusterError
from kframework.objects import Pod, PodCondition
from kframework.scheduler.outbox import Outbox
from kframework.state.inbox import LastVictimReached, Message, PreemptionEnded
from kframework.state.pods import PodInfo
from kframework.state.waiting import WaitingPods
from kframework.verbosity import V2

_log = logging.getLogger(__name__)

#: The backoff of a preemptor after a failed eviction, in seconds. kube-scheduler retries it at once, and so as often as
#: its API can refuse.
RETRY_DELAY = 1.0

#: The reason of the condition and event of a pod whose gang stays bound in part.
_INCOMPLETE = "IncompleteGang"


@dataclass(frozen=True, repr=False)
class Disruptor:
    """Deletes pods that run."""

    cluster: Cluster
    outbox: Outbox

    async def delete(self, victim: PodInfo, reason: str, message: str) -> bool:
        """Mark a pod as disrupted and delete it; False: it was gone already."""
        condition = PodCondition(
            type="DisruptionTarget",
            status="True",
            reason=reason,
            message=message,
            observed_generation=victim.generation,
        )
        try:
            refusal = await self.outbox.patch_status(victim, condition, None)
            if refusal is not None:
                raise refusal
            self.outbox.fence.check()
            await self.cluster.delete(Pod, victim.name, victim.namespace, uid=victim.uid)
        except ClusterError as error:
            if error.status == 404 or (error.status == 409 and await self._is_deleted(victim)):
                return False
            raise
        return True

    async def _is_deleted(self, victim: PodInfo) -> bool:
        """Return whether a conflict means that another pod has the victim's name now."""
        try:
            found = await self.cluster.get(Pod, victim.name, victim.namespace)
        except ClusterError as error:
            return error.status == 404
        return found.metadata.uid != victim.uid


@dataclass(frozen=True, repr=False)
class GangEviction:
    """A task that evicts the bound pods of a gang, all concurrently; those that are left are evicted again later."""

    pods: Sequence[PodInfo]
    note: str
    disruptor: Disruptor
    record: Callable[[PodEvent], None]

    async def run(self) -> None:
        async with anyio.create_task_group() as tasks:
            for pod in self.pods:
                tasks.start_soon(self._evict, pod)

    async def _evict(self, pod: PodInfo) -> None:
        try:
            is_deleted = await self.disruptor.delete(pod, _INCOMPLETE, self.note)
        except ClusterError as refused:
            _log.warning("cannot evict pod %s of an incomplete gang: %s", pod.key, refused)
            return
        if is_deleted:
            self.record(PodEvent(pod.spec.profile_name, pod, _INCOMPLETE, "Evicting", self.note, warning=True))


@dataclass(frozen=True, repr=False)
class EvictionTask:
    """A task that evicts the victims of one preemption: all but one concurrently, then that one.

    So the preemptor sleeps through all deletions but the last, which must wake it
    (`kframework.core.preemption.evaluator`).
    """

    eviction: Eviction
    disruptor: Disruptor
    waiting: WaitingPods
    offer: Callable[[Message], None]
    record: Callable[[PodEvent], None]

    async def run(self) -> None:
        eviction, started = self.eviction, perf_counter_ns()
        # Pods of lower priority lose their nomination.
        writes = [self.disruptor.outbox.patch_status(pod, None, "") for pod in eviction.lower_priority]
        errors = [await write for write in writes]
        failed = not await self._evict_all() or any(errors)
        took = perf_counter_ns() - started
        if failed:
            await asyncio.sleep(RETRY_DELAY)
        self.offer(PreemptionEnded(eviction.uid, eviction.attempt, failed, eviction.kind, took))

    async def _evict_all(self) -> bool:
        """Evict the victims, stopping at the first failure; return whether there was none."""
        eviction, failures = self.eviction, list[Exception]()
        *others, last = eviction.victims
        try:
            async with anyio.create_task_group() as tasks:
                for victim in others:
                    tasks.start_soon(self._evict, victim)
            self.offer(LastVictimReached(eviction.uid, eviction.attempt, last.uid))
            await self._evict(last)
        except* ClusterError as refused:
            failures += refused.exceptions
        for failure in failures:
            _log.warning("pod %s cannot evict all its victims: %s", eviction.preemptor.key, failure)
        return not failures

    async def _evict(self, victim: PodInfo) -> None:
        """Requeue a victim that is not bound yet, else delete it; record an Event."""
        eviction = self.eviction
        note = f"Preempted by {eviction.kind} {eviction.uid} on node {eviction.node_name}"
        reserved = self.waiting.get(victim.uid)
        if reserved is not None and reserved.is_rejected:
            return
        if reserved is not None and reserved.preempt(eviction.plugin):
            note += " (in kube-scheduler memory)."
        else:
            message = f"{eviction.profile}: preempting to accommodate a higher priority {eviction.kind}"
            if not await self.disruptor.delete(victim, "PreemptionByScheduler", message):
                return
        if _log.isEnabledFor(V2):
            fields = {"preemptor": eviction.preemptor.key, "victim": victim.key, "node": eviction.node_name}
            _log.log(V2, "Preemptor Pod preempted victim Pod", extra=fields)
        self.record(PodEvent(eviction.profile, victim, "Preempted", "Preempting", note, related=eviction.preemptor))
