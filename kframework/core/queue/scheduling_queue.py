"""kube-scheduler's SchedulingQueue: active, backing off, unschedulable, gated and in-flight pods.

A pod is in exactly one queue. Nothing polls: the deadlines return when work is due next, `tick` does it.
"""

from __future__ import annotations

import heapq
import itertools
import logging
import math
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from enum import Enum
from functools import partial
from typing import Protocol

from kframework.core.queue.backoff import Backoff
from kframework.core.queue.heap import Heap
from kframework.core.queue.pool import HeldPods, InFlightPods, PluginKey
from kframework.framework.events import ActionType, EventResource, ObservedEvent
from kframework.state.pods import PendingPod, QueuedPod
from kframework.values.feature_gates import DEFAULT_GATES, FeatureGates
from kframework.values.status import Status
from kframework.verbosity import V5

log: logging.Logger = logging.getLogger(__name__)

#: How often the unschedulable pool is searched for pods that have waited too long, in seconds.
FLUSH_INTERVAL = 30.0

_ADDED = ObservedEvent(EventResource.UNSCHEDULED_POD, ActionType.ADD).label
#: What a change of the plugins is to the pods of their profiles.
PROFILES_CHANGED = ObservedEvent(EventResource.ANY, ActionType.ALL, name="ProfilesChanged")
_TIMEOUT = ObservedEvent(EventResource.ANY, ActionType.ALL, name="UnschedulableTimeout")

#: How often a pod may skip its backoff within a second. kube-scheduler has no limit: where the attempts of a pod cause
#: the events that requeue it, it tries the pod without end.
MAX_SKIPS = 16

#: Moves that end a backoff: the event that requeued the pod happened before.
_RESUME_EVENTS = frozenset({"BackoffComplete", "PopFromBackoffQ"})


class QueueingStrategy(Enum):
    """The effect of an event on a waiting pod, as in kube-scheduler's queue."""

    SKIP = 0
    AFTER_BACKOFF = 1
    IMMEDIATELY = 2


class QueuePolicy(Protocol):
    """The functions of the profiles that the queue calls; `Profiles` describes them."""

    def sort_key(self, queued: QueuedPod) -> Hashable: ...

    def on_incomparable_keys(self, error: Exception) -> None: ...

    def run_pre_enqueue(self, pod: PendingPod) -> Status | None: ...

    def registered_for(self, event: ObservedEvent) -> Mapping[PluginKey, Collection[str] | None]: ...

    def is_worth_requeuing(self, event: ObservedEvent, pod: PendingPod, plugin: str) -> bool: ...


class SchedulingQueue:
    """The queue of pods that wait to be scheduled."""

    def __init__(
        self,
        policy: QueuePolicy,
        now: Callable[[], float],
        backoff: Backoff,
        *,
        max_unschedulable: float = 300.0,
        gates: FeatureGates = DEFAULT_GATES,
    ) -> None:
        self.policy: QueuePolicy = policy
        self._now = now
        self._backoff = backoff
        self._max_unschedulable = max_unschedulable
        self._created_at = now()
        self._active = Heap(policy.on_incomparable_keys)
        self._backing_off = Heap(policy.on_incomparable_keys)
        self._backing_off_after_error = Heap(policy.on_incomparable_keys)
        self._unschedulable = HeldPods()
        self._gated = HeldPods()
        #: Called with a pod and the status that gates it, whenever its gates are run.
        self.on_gated: Callable[[PendingPod, Status], None] | None = None
        #: Whether wildcard events, the flush among them, concern all gated pods (1.37) or none (1.36).
        self._wildcards_reach_gates: bool = not gates.is_1_36
        #: A lower bound for the time of the next flush of a gated pod.
        self._gated_flush_due = math.inf
        #: The pods that are popped and not returned.
        self.in_flight: InFlightPods = InFlightPods()
        #: The number of pods that entered each queue, by queue and event.
        self.incoming: Counter[tuple[str, str]] = Counter()

    # -- in and out ------------------------------------------------------------------------------------------------

    def add(self, pod: PendingPod) -> None:
        self._enter("active", QueuedPod(pod, self._now()), _ADDED)

    def pop(self) -> QueuedPod | None:
        """Return the next pod, None if there is none; `done` or `put_back` must follow exactly once.

        If no pod is active, the first pod backing off after a rejection is returned early (KEP-5142), unless it was
        too often in this second.
        """
        while (queued := self._pop_queued()) is not None:
            if self.in_flight.pop(queued.pod.uid):
                queued.attempts += 1
                return queued
            log.error("Pod %s is already in flight; dropping its entry in the queue", queued.pod.key)
        return None

    def peek(self) -> QueuedPod | None:
        """Return the pod that `pop` hands out next, None if there is none."""
        return self._active.peek() or self._peek_backing_off()

    def _pop_queued(self) -> QueuedPod | None:
        queued = self._active.pop()
        if queued is None and (queued := self._peek_backing_off()) is not None:
            self._backing_off.remove(queued.pod.uid)
            queued.skips += 1
            self._record_move("active", queued, "PopFromBackoffQ")
        return queued

    def _peek_backing_off(self) -> QueuedPod | None:
        """Return the first pod that may skip its backoff."""
        first = self._backing_off.peek()
        if first is None or self._may_skip_backoff(first):
            return first
        return next(filter(self._may_skip_backoff, self._backing_off.iterate_sorted()), None)

    def _may_skip_backoff(self, queued: QueuedPod) -> bool:
        """Return whether a pod may skip its backoff once more in this second; `skips` counts how often it has."""
        second = math.floor(self._now())
        if queued.skipped_at != second:
            queued.skipped_at, queued.skips = second, 0
        return queued.skips < MAX_SKIPS

    def put_back(self, queued: QueuedPod) -> None:
        """Requeue a pod whose attempt failed; it waits for its rejectors, without any it only backs off."""
        if self.get(queued.pod.uid) is not None:
            log.error("Pod %s is already present in the queue; dropping its in-flight entry", queued.pod.key)
        else:
            self._requeue_failed(queued)
        self.done(queued.pod.uid)

    def _requeue_failed(self, queued: QueuedPod) -> None:
        if queued.rejectors:
            queued.unschedulable_count += 1
            queued.consecutive_errors = 0
        else:
            queued.consecutive_errors += 1
        queued.timestamp = self._now()
        queued.backoff_expiry = None
        if not queued.rejectors or queued.pod.uid not in self.in_flight:
            self._requeue(queued, "ScheduleAttemptFailure")
            return
        # An event while it was in flight may make another attempt worthwhile.
        strategies = {
            self._queueing_strategy(event, queued, queued.pod)
            for event in self.in_flight.events_since_pop(queued.pod.uid)
        }
        if QueueingStrategy.IMMEDIATELY in strategies and self._may_skip_backoff(queued):
            queued.skips += 1
            self._enter("active", queued, "ScheduleAttemptFailure")
        elif strategies - {QueueingStrategy.SKIP}:
            self._requeue(queued, "ScheduleAttemptFailure")
        else:
            self._unschedulable.put(queued, queued.rejectors)
            self._record_move("unschedulable", queued, "ScheduleAttemptFailure")

    def done(self, uid: str) -> bool:
        """Remove a popped pod from in-flight tracking; return whether it was in flight (idempotent)."""
        return self.in_flight.done(uid)

    def update(self, pod: PendingPod, events: Iterable[ObservedEvent] = ()) -> None:
        """Replace the object of a pending pod; one of these events that its rejectors registered requeues it."""
        queued = self.get(pod.uid)
        if queued is None:
            return
        queued.pod = pod
        if self._active.remove(pod.uid):
            self._push_active(queued)
        elif self._backing_off.remove(pod.uid):
            self._push_backing_off(queued)
        elif pod.uid in self._gated or pod.uid in self._unschedulable:
            for event in events:
                if self._requeue_if_worthwhile(event, queued):
                    break

    def delete(self, uid: str) -> None:
        for heap in (self._active, self._backing_off, self._backing_off_after_error):
            heap.remove(uid)
        self._unschedulable.pop(uid)
        self._gated.pop(uid)

    def get(self, uid: str) -> QueuedPod | None:
        """Return the queued pod of this uid; None if it is in no queue (in flight, or unknown)."""
        return (
            self._active.get(uid)
            or self._backing_off.get(uid)
            or self._backing_off_after_error.get(uid)
            or self._unschedulable.get(uid)
            or self._gated.get(uid)
        )

    # -- events ----------------------------------------------------------------------------------------------------

    def move_on_event(self, event: ObservedEvent, only: Callable[[PendingPod], bool] | None = None) -> None:
        """Requeue the pods held back by plugins that registered the event, if their hints return Queue.

        A gated pod is considered only if its gating plugin registered the event, or the event is a wildcard.
        """
        plugins = self._registered_for(event)
        if not plugins and not event.is_wildcard:
            return
        reaches_gates = event.is_wildcard and self._wildcards_reach_gates
        gated = tuple(self._gated) if reaches_gates else self._gated.held_by_any(plugins)
        held = tuple(self._unschedulable) if event.is_wildcard else self._unschedulable.held_by_any(plugins)
        for queued in (*gated, *held):
            if (only is None or only(queued.pod)) and not self._is_still_gated(queued):
                self._requeue_if_worthwhile(event, queued)
        self.in_flight.add(event)

    @property
    def has_waiting_pods(self) -> bool:
        """Whether an event may matter to a pod that is held back or in flight."""
        return bool(self._unschedulable.pods or self._gated.pods or self.in_flight.popped)

    def recheck_gates(self) -> list[PendingPod]:
        """Run PreEnqueue again for all gated pods; return those that it admits."""
        admitted = [queued.pod for queued in list(self._gated) if self._enter("active", queued, _ADDED)]
        for pod in admitted:
            self._gated.pop(pod.uid)
        return admitted

    def retry_profiles(self, profiles: Collection[str]) -> list[PendingPod]:
        """Ask the gates of these profiles about all their pods, and retry those held back: their plugins are others.

        Pods that need not move keep their place. Returns the pods that were gated and are not any more.
        """
        label, heaps = PROFILES_CHANGED.label, (self._active, self._backing_off, self._backing_off_after_error)
        ready, gated, held = (
            [queued for queued in waiting if queued.pod.scheduler_name in profiles]
            for waiting in (itertools.chain(*heaps), self._gated, self._unschedulable)
        )
        for queued in ready:
            if not self._run_gates(queued, label):
                for heap in heaps:
                    heap.remove(queued.pod.uid)
        for queued in held:
            if self._requeue(queued, label):
                self._unschedulable.pop(queued.pod.uid)
        admitted = [queued for queued in gated if self._requeue(queued, label)]
        for queued in admitted:
            self._gated.pop(queued.pod.uid)
        self.in_flight.add(PROFILES_CHANGED)
        return [queued.pod for queued in admitted]

    def set_times(self, backoff: Backoff, max_unschedulable: float) -> None:
        """Use another backoff for failures from now on, and another maximum time without a retry."""
        self._backoff, self._max_unschedulable = backoff, max_unschedulable
        self._gated_flush_due = min(map(self.flush_time, self._gated), default=math.inf)

    def _requeue_if_worthwhile(self, event: ObservedEvent, queued: QueuedPod) -> bool:
        """Requeue an unschedulable or gated pod if the event makes that worthwhile; return whether it did."""
        strategy = self._queueing_strategy(event, queued, queued.pod)
        if strategy is QueueingStrategy.SKIP:
            return False
        if strategy is QueueingStrategy.IMMEDIATELY and self._may_skip_backoff(queued):
            queued.skips += 1
            is_admitted = self._enter("active", queued, event.label)
        else:
            is_admitted = self._requeue(queued, event.label)
        if is_admitted:
            self._unschedulable.pop(queued.pod.uid)
            self._gated.pop(queued.pod.uid)
        return is_admitted

    def activate(self, uid: str) -> None:
        """Make a pod active, whatever it waits for; a pod in flight is retried after its backoff."""
        queued = self.get(uid)
        if queued is not None and uid not in self._active:
            for heap in (self._backing_off, self._backing_off_after_error):
                heap.remove(uid)
            if self._enter("active", queued, "ForceActivate"):
                self._unschedulable.pop(uid)
                self._gated.pop(uid)
        elif uid in self.in_flight:
            self.in_flight.add(ObservedEvent(EventResource.ANY, ActionType.ALL, new=uid, name="ForceActivate"))

    def _queueing_strategy(self, event: ObservedEvent, queued: QueuedPod, pod: PendingPod) -> QueueingStrategy:
        """Return whether an event makes another attempt worthwhile (kube-scheduler's isPodWorthRequeuing)."""
        if not queued.rejectors:
            return QueueingStrategy.AFTER_BACKOFF
        if event.is_wildcard:
            is_affected = event.new is None or event.new == pod.uid
            return QueueingStrategy.AFTER_BACKOFF if is_affected else QueueingStrategy.SKIP
        is_worthwhile = partial(self.policy.is_worth_requeuing, event, pod)
        if queued.pending_plugins and any(map(is_worthwhile, sorted(queued.pending_plugins))):
            return QueueingStrategy.IMMEDIATELY
        is_helped = any(map(is_worthwhile, sorted(queued.unschedulable_plugins)))
        return QueueingStrategy.AFTER_BACKOFF if is_helped else QueueingStrategy.SKIP

    # -- timers ----------------------------------------------------------------------------------------------------

    @property
    def retry_deadline(self) -> float | None:
        """The time when the next backoff ends, in seconds since 1970."""
        firsts = (self._backing_off.peek(), self._backing_off_after_error.peek())
        return min((self.backoff_expires_at(first) for first in firsts if first is not None), default=None)

    @property
    def flush_deadline(self) -> float | None:
        """The time when the first pod may have been held back for too long, in seconds since 1970."""
        oldest = next(iter(self._unschedulable), None)
        due = self.flush_time(oldest) if oldest is not None else math.inf
        if self._wildcards_reach_gates and len(self._gated):
            due = min(due, self._gated_flush_due)
        return due if due < math.inf else None

    def flush_time(self, queued: QueuedPod) -> float:
        """Return when a pod that is held back is retried without an event, in seconds since 1970.

        It is the first multiple of the interval at which the pod, or its last flush, is strictly older than the
        maximum.
        """
        due = max(queued.timestamp, queued.flushed_at) + self._max_unschedulable - self._created_at
        return self._created_at + (math.floor(due / FLUSH_INTERVAL) + 1) * FLUSH_INTERVAL

    def tick(self) -> None:
        """Do the work that is due: end backoffs, and retry pods that are held back for too long."""
        now = self._now()
        for heap in (self._backing_off, self._backing_off_after_error):
            while (first := heap.peek()) is not None and not self._backoff.is_backing_off(first, now):
                heap.pop()
                self._push_active(first)
                self._record_move("active", first, "BackoffComplete")
        if (deadline := self.flush_deadline) is not None and deadline <= now:
            self._flush(now)

    def _flush(self, now: float) -> None:
        """Retry the pods that are held back for too long; a pod that is gated again is due after as long a time."""
        held = (*(self._gated if self._wildcards_reach_gates else ()), *self._unschedulable)
        overdue = [queued for queued in held if self.flush_time(queued) <= now]
        for queued in overdue:
            queued.flushed_at = now
            if self._requeue(queued, _TIMEOUT.label):
                self._unschedulable.pop(queued.pod.uid)
                self._gated.pop(queued.pod.uid)
        if overdue:
            self.in_flight.add(_TIMEOUT)
        self._gated_flush_due = min(map(self.flush_time, self._gated), default=math.inf)

    # -- moves between queues --------------------------------------------------------------------------------------

    def _requeue(self, queued: QueuedPod, reason: str) -> bool:
        """Put a pod into the backoff or active queue, depending on its backoff; return whether the gates let it in."""
        is_backing_off = self._backoff.is_backing_off(queued, self._now())
        return self._enter("backoff" if is_backing_off else "active", queued, reason)

    def _enter(self, queue: str, queued: QueuedPod, reason: str) -> bool:
        """Put a pod into the backoff or active queue; return whether the gates let it in."""
        if not self._run_gates(queued, reason):
            return False
        if queue == "active":
            self._push_active(queued)
        else:
            self._push_backing_off(queued)
        self._record_move(queue, queued, reason)
        return True

    def _push_backing_off(self, queued: QueuedPod) -> None:
        expiry = self._backoff.expiry(queued)
        if queued.rejectors:
            queued.sort_key = self.policy.sort_key(queued)
            self._backing_off.push((expiry, queued.sort_key), queued)
        else:
            self._backing_off_after_error.push((expiry,), queued)

    def _push_active(self, queued: QueuedPod) -> None:
        queued.sort_key = self.policy.sort_key(queued)
        if queued.initial_attempt is None:
            queued.initial_attempt = self._now()
        self._active.push(queued.sort_key, queued)

    def _run_gates(self, queued: QueuedPod, reason: str) -> bool:
        """Run PreEnqueue; a rejected pod becomes gated. Return whether it was admitted."""
        status = self._find_gate(queued)
        if status is None:
            queued.gating_plugin = ""
            return True
        if not self._gate_pod(queued, status):
            self._record_move("unschedulable", queued, reason)
        return False

    def _registered_for(self, event: ObservedEvent) -> Mapping[PluginKey, Collection[str] | None]:
        """Return the plugins that registered the event, and under which uids the pods that it may help are here."""
        return self.policy.registered_for(event)

    def _find_gate(self, queued: QueuedPod) -> Status | None:
        """Run PreEnqueue; return the first rejection."""
        return self.policy.run_pre_enqueue(queued.pod)

    def _gate_pod(self, queued: QueuedPod, status: Status) -> bool:
        """Let a gate hold a pod back; return whether the pod was held back before, and so entered no queue."""
        uid = queued.pod.uid
        held = self._unschedulable.pop(uid) or self._gated.pop(uid)
        queued.unschedulable_plugins |= {status.plugin}
        due = self._gated_flush_due if len(self._gated) else math.inf
        self._gated_flush_due = min(due, self.flush_time(queued))
        self._gated.put(queued, (status.plugin,))
        self._note_gate(queued, status)
        return held is not None

    def _is_still_gated(self, queued: QueuedPod) -> bool:
        """Return whether the gate that holds a pod back stays as it is: then no hint could help."""
        gate = self._find_gate(queued) if queued.gating_plugin else None
        return gate is not None and (gate.plugin, gate.message) == (queued.gating_plugin, queued.gate_message)

    def _note_gate(self, queued: QueuedPod, status: Status) -> None:
        queued.gating_plugin, queued.gate_message = status.plugin, status.message
        if self.on_gated is not None:
            self.on_gated(queued.pod, status)

    def _record_move(self, queue: str, queued: QueuedPod, event: str) -> None:
        self.incoming[queue, event] += 1
        if event not in _RESUME_EVENTS:
            queued.requeued_by = event
        if log.isEnabledFor(V5):
            fields = {"pod": queued.pod.key, "event": event, "queue": queue}
            log.log(V5, "Pod moved to an internal scheduling queue", extra=fields, stacklevel=2)

    # -- queries ---------------------------------------------------------------------------------------------------

    def count_by_queue(self) -> dict[str, int]:
        """Count the pods per queue, under the labels of `scheduler_pending_pods`."""
        return {
            "active": len(self._active),
            "backoff": len(self._backing_off) + len(self._backing_off_after_error),
            "unschedulable": len(self._unschedulable),
            "gated": len(self._gated),
        }

    def queue_of(self, uid: str) -> str:
        """Return the queue that a pod is in, as named by `count_by_queue`; "" if it is in none."""
        if uid in self._active:
            return "active"
        if uid in self._backing_off or uid in self._backing_off_after_error:
            return "backoff"
        if uid in self._unschedulable:
            return "unschedulable"
        return "gated" if uid in self._gated else ""

    def pods_in(self, queue: str) -> Iterator[QueuedPod]:
        """Yield the pods of a queue named as in `count_by_queue`, in pop order if there is one, else oldest first."""
        match queue:
            case "active":
                return self._active.iterate_sorted()
            case "backoff":
                heaps = (self._backing_off.iterate_sorted(), self._backing_off_after_error.iterate_sorted())
                return heapq.merge(*heaps, key=self._backoff.expiry)
            case "unschedulable":
                return iter(self._unschedulable)
            case "gated":
                return iter(self._gated)
        raise ValueError(f"there is no queue {queue!r}")

    def count_by_plugin(self) -> Counter[PluginKey]:
        """Count the unschedulable and gated pods that each plugin of each profile holds back."""
        return Counter(self._unschedulable.counts) + Counter(self._gated.counts)

    def held_by(self, plugin: PluginKey) -> Iterator[QueuedPod]:
        """List the pods that a plugin holds back, unschedulable then gated; the queue must not change meanwhile."""
        return itertools.chain(self._unschedulable.held_by(plugin), self._gated.held_by(plugin))

    def backoff_expires_at(self, queued: QueuedPod) -> float:
        """Return when a pod's backoff ends, in seconds since 1970."""
        return self._backoff.expiry(queued) + 1

    def waits_for_event(self, uid: str) -> bool:
        return uid in self._unschedulable or uid in self._gated

    def __iter__(self) -> Iterator[QueuedPod]:
        for heap in (self._active, self._backing_off, self._backing_off_after_error):
            yield from heap
        yield from self._unschedulable
        yield from self._gated

    def __len__(self) -> int:
        return sum(self.count_by_queue().values())
