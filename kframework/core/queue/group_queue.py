"""The queue with the gate GenericWorkload on: the pods of a PodGroup wait, are popped and are put back together."""

from __future__ import annotations

from bisect import insort
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from kframework.core.queue.backoff import Backoff
from kframework.core.queue.pool import PluginKey
from kframework.core.queue.scheduling_queue import QueueingStrategy, QueuePolicy, SchedulingQueue, pod_update_events
from kframework.framework.events import ObservedEvent
from kframework.objects import PodGroup
from kframework.state.pod_groups import GroupKey
from kframework.state.pods import NO_PLUGINS, PendingPod, QueuedPod
from kframework.values.feature_gates import DEFAULT_GATES, FeatureGates
from kframework.values.status import Code, Status


class QueuedGroup(QueuedPod):
    """A PodGroup in the queue with its members; it has the attempts, the backoff and the rejectors of all.

    `pod` is its most important member: to a plugin that orders pods the group is that one, with the group's priority.
    """

    __slots__ = ("_in_order", "group", "members")

    def __init__(self, group: PodGroup, members: Iterable[QueuedPod], timestamp: float) -> None:
        self.group: PodGroup = group
        #: By uid.
        self.members: dict[str, QueuedPod] = {member.pod.uid: member for member in members}
        self._in_order = sorted(self.members.values(), key=_importance)
        super().__init__(self._in_order[0].pod, timestamp)

    @property
    def key(self) -> GroupKey:
        return self.group.metadata.namespace, self.group.metadata.name

    @property
    def priority(self) -> int:
        return self.group.spec.priority or 0

    @property
    def pods(self) -> tuple[PendingPod, ...]:
        return tuple(member.pod for member in self._in_order)

    def in_order(self) -> Sequence[QueuedPod]:
        """List the members as they are scheduled: the most important first, then those tried most often."""
        return self._in_order

    def add(self, member: QueuedPod) -> None:
        """Add a member; the group must not be in a queue if it would be the first one (`would_lead`)."""
        self.members[member.pod.uid] = member
        insort(self._in_order, member, key=_importance)
        self.pod: PendingPod = self._in_order[0].pod

    def would_lead(self, member: QueuedPod) -> bool:
        return _importance(member) < _importance(self._in_order[0])

    def remove(self, uid: str) -> None:
        """Remove a member, not the last one; the group must not be in a queue if it is the first one."""
        self._in_order.remove(self.members.pop(uid))
        self.pod = self._in_order[0].pod


def _importance(member: QueuedPod) -> tuple[int, int, float]:
    return -member.pod.priority, -member.attempts, member.timestamp


class GroupQueue(SchedulingQueue):
    """A queue of pods without a group, and of PodGroups with all their pods that wait.

    A pod is incomplete while its PodGroup is unknown, and pending if it comes, or comes back, while its group is being
    scheduled: both wait beside the queues. Plugins see groups through the methods of the queue of pods.
    """

    def __init__(
        self,
        policy: QueuePolicy,
        now: Callable[[], float],
        backoff: Backoff,
        *,
        max_unschedulable: float = 300.0,
        gates: FeatureGates = DEFAULT_GATES,
    ) -> None:
        super().__init__(policy, now, backoff, max_unschedulable=max_unschedulable, gates=gates)
        #: The known PodGroups.
        self.groups: dict[GroupKey, PodGroup] = {}
        self._queued: dict[GroupKey, QueuedGroup] = {}
        self._incomplete: dict[GroupKey, dict[str, QueuedPod]] = {}
        #: The members that wait for the end of their group's cycle, for each group in one.
        self._pending: dict[GroupKey, dict[str, QueuedPod]] = {}
        #: The groups of the pods that wait or are in flight, by uid; a known group is there by its own uid.
        self._group_of: dict[str, GroupKey] = {}
        #: The numbers of groups, and of their pods, that entered each queue, by queue and event.
        self.incoming_groups: Counter[tuple[str, str]] = Counter()
        self.incoming_members: Counter[tuple[str, str]] = Counter()

    # -- PodGroups ---------------------------------------------------------------------------------------------------

    def on_group_change(self, old: PodGroup | None, new: PodGroup | None) -> None:
        """Apply a change of a PodGroup; None means absent."""
        if new is not None:
            self._put_group(new)
        elif old is not None:
            self._remove_group(old)

    def _put_group(self, group: PodGroup) -> None:
        """Add or replace a PodGroup; the pods that lacked it enter the queue."""
        key = group.metadata.namespace, group.metadata.name
        self.groups[key] = group
        self._group_of[group.metadata.uid] = key
        if key in self._queued:
            self._queued[key].group = group
        for member in self._incomplete.pop(key, {}).values():
            self._add_member(key, member)

    def _remove_group(self, group: PodGroup) -> None:
        """Remove a deleted PodGroup; its pods are incomplete."""
        key = group.metadata.namespace, group.metadata.name
        self.groups.pop(key, None)
        self._group_of.pop(group.metadata.uid, None)
        queued = self._queued.pop(key, None)
        if queued is not None:
            super().delete(queued.pod.uid)
            self._add_incomplete(key, queued.members)

    def _add_incomplete(self, key: GroupKey, members: Mapping[str, QueuedPod]) -> None:
        self._incomplete.setdefault(key, {}).update(members)
        for member in members.values():
            member.gating_plugin, member.gate_message = "", f"waiting for PodGroup {key[0]}/{key[1]}: there is none"

    # -- members -----------------------------------------------------------------------------------------------------

    def add(self, pod: PendingPod) -> None:
        if not pod.group:
            super().add(pod)
        else:
            key = self._group_of[pod.uid] = pod.namespace, pod.group
            self._add_member(key, QueuedPod(pod, self._now()))

    def _add_member(self, key: GroupKey, member: QueuedPod) -> None:
        uid = member.pod.uid
        if key not in self.groups:
            self._add_incomplete(key, {uid: member})
        elif key in self._pending:
            self._pending[key][uid] = member
        elif key in self._queued:
            self._join(self._queued[key], member)
        else:
            self._queued[key] = QueuedGroup(self.groups[key], [member], member.timestamp)
            self._requeue(self._queued[key], "PodAdd")

    def _join(self, queued: QueuedGroup, member: QueuedPod) -> None:
        """Add a member to a waiting group, which stays where it is if its gates have the same answer as before.

        Gates are asked about the first member that they hold back, or else about the new one: to ask about all each
        time would take 12 million questions for a gang of 5,000 pods.
        """
        queue = super().queue_of(queued.pod.uid)
        if queue == "gated":
            stays = self._find_gate(queued) is not None
            member.gating_plugin, member.gate_message = queued.gating_plugin, queued.gate_message
        else:
            stays = queue != "unschedulable" and self.policy.run_pre_enqueue(member.pod) is None
        if stays and not queued.would_lead(member):
            queued.add(member)
            return
        super().delete(queued.pod.uid)
        queued.add(member)
        (self._enter_active if queue == "active" else self._requeue)(queued, "PodAdd")

    def _leave(self, queued: QueuedGroup, uid: str) -> None:
        """Remove a member from a waiting group, which stays in its queue, under its next pod if this was the first."""
        leader, queue = queued.pod.uid, super().queue_of(queued.pod.uid)
        if uid != leader:
            queued.remove(uid)
            return
        super().delete(leader)
        if len(queued.members) == 1:
            del self._queued[queued.key]
            return
        queued.remove(uid)
        match queue:
            case "active":
                self._push_active(queued)
            case "backoff":
                self._push_backing_off(queued)
            case "gated":
                self._gated.put(queued, (queued.gating_plugin,))
            case _:
                self._unschedulable.put(queued, queued.rejectors)

    def update(self, pod: PendingPod) -> None:
        key = self._group_of.get(pod.uid)
        if key is None:
            super().update(pod)
            return
        queued = self._queued.get(key)
        members = self._incomplete.get(key, {}) if queued is None else queued.members
        member = members.get(pod.uid) or self._pending.get(key, {}).get(pod.uid)
        if member is None:
            return
        old, member.pod = member.pod, pod
        if queued is None:
            return
        if queued.pod.uid == pod.uid:
            super().update(pod)
        elif super().waits_for_event(queued.pod.uid):
            for event in pod_update_events(old, pod):
                if self._requeue_if_worthwhile(event, queued):
                    return

    def delete(self, uid: str) -> None:
        key = self._group_of.pop(uid, None)
        if key is None:
            super().delete(uid)
            return
        for waiting in (self._incomplete, self._pending):
            waiting.get(key, {}).pop(uid, None)
        if not self._incomplete.get(key, True):
            del self._incomplete[key]
        queued = self._queued.get(key)
        if queued is not None and uid in queued.members:
            self._leave(queued, uid)

    # -- a group's cycle ---------------------------------------------------------------------------------------------

    def pop(self) -> QueuedPod | None:
        queued = super().pop()
        if isinstance(queued, QueuedGroup):
            del self._queued[queued.key]
            self._pending[queued.key] = {}
            for uid, member in queued.members.items():
                member.attempts += 1
                self.in_flight.pop(uid)
        return queued

    def put_back(self, queued: QueuedPod) -> None:
        """Requeue a pod; a member waits for the end of its group's cycle, or enters as a group if that is over."""
        key = self._group_of.get(queued.pod.uid)
        if key is None:
            super().put_back(queued)
        elif key in self._pending:
            self._pending[key][queued.pod.uid] = queued
        else:
            queued.timestamp = self._now()
            if key in self.groups:
                self._put_back_unbound(key, queued)
            else:
                self._add_member(key, queued)
            self.done(queued.pod.uid)

    def _put_back_unbound(self, key: GroupKey, member: QueuedPod) -> None:
        """Requeue a member whose binding failed, with the others that wait, as the pod alone would back off or wait."""
        others = self._queued.pop(key, None)
        members, rejectors = [member], member.unschedulable_plugins
        if others is not None:
            super().delete(others.pod.uid)
            members = [*others.members.values(), member]
            rejectors = rejectors and rejectors | others.unschedulable_plugins
        group = self._queued[key] = QueuedGroup(self.groups[key], members, member.timestamp)
        group.attempts, group.initial_attempt = member.attempts, member.initial_attempt
        group.unschedulable_plugins, group.pending_plugins = rejectors, member.pending_plugins
        group.unschedulable_count, group.consecutive_errors = member.unschedulable_count, member.consecutive_errors
        self._requeue_failed(group)
        member.unschedulable_count, member.consecutive_errors = group.unschedulable_count, group.consecutive_errors

    def put_back_group(self, queued: QueuedGroup, status: Status) -> None:
        """Requeue what is left of a group after its cycle, as its status says; the group ends without waiting members.

        After a success the others are tried again at once, as a smaller group. A rejected group waits for the events of
        the plugins that rejected its members, as pods do.
        """
        pending = self._pending.pop(queued.key)
        group = self.groups.get(queued.key)
        if pending and group is None:
            self._add_incomplete(queued.key, pending)
        elif pending and group is not None:
            self._requeue_rest(queued, QueuedGroup(group, pending.values(), queued.timestamp), status)
        for uid in pending:
            self.done(uid)

    def _requeue_rest(self, before: QueuedGroup, rest: QueuedGroup, status: Status) -> None:
        self._queued[rest.key] = rest
        rest.attempts, rest.initial_attempt, rest.requeued_by = before.attempts, before.initial_attempt, "PodAdd"
        if status.code == Code.SUCCESS:
            if not rest.members.keys() & before.members.keys():
                rest.timestamp = self._now()
            self._enter_active(rest, "ScheduleAttemptFailure")
            return
        rest.unschedulable_count, rest.consecutive_errors = before.unschedulable_count, before.consecutive_errors
        if status.is_rejected:
            rejectors = (member.unschedulable_plugins for member in rest.members.values())
            rest.unschedulable_plugins = NO_PLUGINS.union(*rejectors, (status.plugin,) if status.plugin else ())
            rest.pending_plugins = NO_PLUGINS.union(*(member.pending_plugins for member in rest.members.values()))
        self._requeue_failed(rest)

    # -- questions to plugins, of all members ------------------------------------------------------------------------

    def _find_gate(self, queued: QueuedPod) -> Status | None:
        if not isinstance(queued, QueuedGroup):
            return super()._find_gate(queued)
        statuses = (self.policy.run_pre_enqueue(member.pod) for member in queued.in_order())
        status = next((status for status in statuses if status is not None), None)
        gate = ("", "") if status is None else (status.plugin, status.message)
        if gate != (queued.in_order()[0].gating_plugin, queued.in_order()[0].gate_message):
            for member in queued.members.values():
                member.gating_plugin, member.gate_message = gate
        return status

    def _registered_for(self, event: ObservedEvent) -> Mapping[PluginKey, Collection[str] | None]:
        plugins = super()._registered_for(event)
        return {key: None if uids is None else {self._leader(uid) for uid in uids} for key, uids in plugins.items()}

    def _queueing_strategy(self, event: ObservedEvent, queued: QueuedPod, pod: PendingPod) -> QueueingStrategy:
        if not isinstance(queued, QueuedGroup):
            return super()._queueing_strategy(event, queued, pod)
        strategy_of = super()._queueing_strategy
        strategies = (strategy_of(event, queued, member) for member in queued.pods)
        return max(strategies, key=lambda strategy: strategy.value)

    def _record_move(self, queue: str, queued: QueuedPod, event: str) -> None:
        super()._record_move(queue, queued, event)
        if isinstance(queued, QueuedGroup):
            self.incoming[queue, event] += len(queued.members) - 1
            self.incoming_members[queue, event] += len(queued.members)
            self.incoming_groups[queue, event] += 1

    # -- queries -----------------------------------------------------------------------------------------------------

    def _leader(self, uid: str) -> str:
        """Return the uid under which a pod or a group is in a queue: that of the group's first member."""
        key = self._group_of.get(uid)
        queued = None if key is None else self._queued.get(key)
        return uid if queued is None else queued.pod.uid

    def get(self, uid: str) -> QueuedPod | None:
        return super().get(self._leader(uid))

    def activate(self, uid: str) -> None:
        super().activate(self._leader(uid))

    def waits_for_event(self, uid: str) -> bool:
        key = self._group_of.get(uid)
        return super().waits_for_event(self._leader(uid)) or (key is not None and key in self._incomplete)

    def queue_of(self, uid: str) -> str:
        key = self._group_of.get(uid)
        for name, waiting in (("incomplete", self._incomplete), ("pending", self._pending)):
            if key is not None and uid in waiting.get(key, {}):
                return name
        return super().queue_of(self._leader(uid))

    def count_by_queue(self) -> dict[str, int]:
        counts = super().count_by_queue()
        for queued in self._queued.values():
            counts[super().queue_of(queued.pod.uid)] += len(queued.members) - 1
        counts["incomplete"] = sum(map(len, self._incomplete.values()))
        counts["pending"] = sum(map(len, self._pending.values()))
        return counts

    def count_entities(self) -> Counter[tuple[str, ...]]:
        """Count the pods without a group and the groups, by queue and type."""
        pods = super().count_by_queue()
        counts: Counter[tuple[str, ...]] = Counter(
            {(queue, "pod"): count for queue, count in pods.items()} | {(q, "podgroup"): 0 for q in pods}
        )
        for queued in self._queued.values():
            queue = super().queue_of(queued.pod.uid)
            counts.update({(queue, "podgroup"): 1, (queue, "pod"): -1})
        return counts

    def count_by_plugin(self) -> Counter[PluginKey]:
        counts = super().count_by_plugin()
        for queued in self._queued.values():
            if super().waits_for_event(queued.pod.uid):
                for plugin in (queued.gating_plugin,) if queued.gating_plugin else queued.rejectors:
                    counts[queued.pod.scheduler_name, plugin] += len(queued.members) - 1
        return counts

    def pods_in(self, queue: str) -> Iterator[QueuedPod]:
        for name, waiting in (("incomplete", self._incomplete), ("pending", self._pending)):
            if queue == name:
                yield from (member for members in waiting.values() for member in members.values())
                return
        for queued in super().pods_in(queue):
            yield from queued.in_order() if isinstance(queued, QueuedGroup) else (queued,)
