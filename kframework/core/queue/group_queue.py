"""The queue with the gate GenericWorkload on: the pods of a tree of groups wait, are popped and put back together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from kframework.core.queue.backoff import Backoff
from kframework.core.queue.pool import PluginKey
from kframework.core.queue.queued_group import GATES_PER_TURN, QueuedGroup
from kframework.core.queue.scheduling_queue import QueueingStrategy, QueuePolicy, SchedulingQueue
from kframework.framework.events import ObservedEvent
from kframework.framework.plugin import Watch
from kframework.objects import CompositePodGroup, GenericPodGroup, PodGroup
from kframework.state.cluster import ClusterState
from kframework.state.group_trees import POD_GROUP, EntityKey, GroupTrees, entity_key
from kframework.state.pods import NO_PLUGINS, PendingPod, QueuedPod
from kframework.values.feature_gates import DEFAULT_GATES, FeatureGates
from kframework.values.status import Code, Status


class GroupQueue(SchedulingQueue):
    """A queue of pods without a group, and of the roots of trees of groups with all their pods that wait.

    A pod is incomplete while its PodGroup or one above it is unknown, and pending if it comes, or comes back, while its
    root is being scheduled: both wait beside the queues. Plugins see roots through the methods of the queue of pods.
    """

    def __init__(
        self,
        policy: QueuePolicy,
        now: Callable[[], float],
        backoff: Backoff,
        trees: GroupTrees,
        *,
        max_unschedulable: float = 300.0,
        gates: FeatureGates = DEFAULT_GATES,
    ) -> None:
        super().__init__(policy, now, backoff, max_unschedulable=max_unschedulable, gates=gates)
        self._trees = trees
        #: By root.
        self._queued: dict[EntityKey, QueuedGroup] = {}
        #: By PodGroup.
        self._incomplete: dict[EntityKey, dict[str, QueuedPod]] = {}
        #: The members that wait for the end of their root's cycle, for each root in one.
        self._pending: dict[EntityKey, dict[str, QueuedPod]] = {}
        #: The large groups that are to enter a queue, with that and the event, once PreEnqueue was run for their pods.
        self.unasked: dict[EntityKey, tuple[str, str]] = {}
        #: The PodGroups of the pods that wait or are in flight, by uid; a known group is there by its own uid.
        self._keys: dict[str, EntityKey] = {}
        #: The numbers of roots by queue, event and type, and of their pods by queue and event, that entered each queue.
        self.incoming_groups: Counter[tuple[str, str, str]] = Counter()
        self.incoming_members: Counter[tuple[str, str]] = Counter()

    # -- groups ------------------------------------------------------------------------------------------------------

    def on_group_change(self, old: GenericPodGroup | None, new: GenericPodGroup | None) -> None:
        """Follow a change of a group, which the trees have already; None means absent."""
        if old is not None:
            self._keys.pop(old.metadata.uid, None)
            if new is None or self._trees.parent(old) != self._trees.parent(new):
                self._take_out(old)
        if new is not None:
            key = entity_key(new)
            self._keys[new.metadata.uid] = key
            if key in self._queued:
                self._queued[key].root = new
            self._complete(new)

    def _complete(self, group: GenericPodGroup) -> None:
        """Let the pods enter the queue that lacked only this group."""
        for leaf in self._trees.leaves(group):
            key = entity_key(leaf)
            for member in self._incomplete.pop(key, {}).values():
                self._add_member(key, member)

    def _take_out(self, group: GenericPodGroup) -> None:
        """Take the pods below a group out that was deleted: they are incomplete."""
        parent = self._trees.parent(group)
        queued = self._queued.get(entity_key(group)) if parent is None else self._entity(parent)
        if queued is None:
            return
        leaves = {entity_key(leaf) for leaf in self._trees.leaves(group)}
        lacking = [member for uid, member in queued.members.items() if self._keys[uid] in leaves]
        if len(lacking) == len(queued.members):
            self._drop(queued)
        else:
            for member in lacking:
                self._leave(queued, member.pod.uid)
        for member in lacking:
            self._add_member(self._keys[member.pod.uid], member)

    def _drop(self, queued: QueuedGroup) -> None:
        super().delete(queued.pod.uid)
        del self._queued[queued.key]
        self.unasked.pop(queued.key, None)

    # -- members -----------------------------------------------------------------------------------------------------

    def add(self, pod: PendingPod) -> None:
        if not pod.group:
            super().add(pod)
        else:
            key = self._keys[pod.uid] = POD_GROUP, pod.namespace, pod.group
            self._add_member(key, QueuedPod(pod, self._now()))

    def _add_member(self, key: EntityKey, member: QueuedPod) -> None:
        uid, root = member.pod.uid, self._trees.root(key)
        if root is None:
            self._incomplete.setdefault(key, {})[uid] = member
            member.gating_plugin, member.gate_message = "", f"waiting for {self._trees.obstacle(key)}"
            return
        entity = entity_key(root)
        if entity in self._pending:
            self._pending[entity][uid] = member
        elif entity in self._queued:
            self._join(self._queued[entity], member)
        else:
            self._queued[entity] = QueuedGroup(root, [member], member.timestamp)
            self._requeue(self._queued[entity], "PodAdd")

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
        if queue == "active":
            self._enter("active", queued, "PodAdd")
        else:
            self._requeue(queued, "PodAdd")

    def _leave(self, queued: QueuedGroup, uid: str) -> None:
        """Remove a member from a waiting group, which stays in its queue, under its next pod if this was the first."""
        leader, queue = queued.pod.uid, super().queue_of(queued.pod.uid)
        if uid != leader:
            queued.remove(uid)
            return
        if len(queued.members) == 1:
            self._drop(queued)
            return
        super().delete(leader)
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

    def update(self, pod: PendingPod, events: Iterable[ObservedEvent] = ()) -> None:
        key = self._keys.get(pod.uid)
        if key is None:
            super().update(pod, events)
            return
        queued = self._entity(key)
        member = self._member(queued, pod.uid)
        if member is None:
            return
        member.pod = pod
        if queued is None or pod.uid not in queued.members:
            return
        if queued.pod.uid == pod.uid:
            super().update(pod, events)
        elif super().waits_for_event(queued.pod.uid):
            for event in events:
                if self._requeue_if_worthwhile(event, queued):
                    return

    def _member(self, queued: QueuedGroup | None, uid: str) -> QueuedPod | None:
        members = () if queued is None else (queued.members,)
        waiting = (*members, *self._pending.values(), self._incomplete.get(self._keys[uid], {}))
        return next((each[uid] for each in waiting if uid in each), None)

    def delete(self, uid: str) -> None:
        key = self._keys.get(uid)
        if key is None:
            super().delete(uid)
            return
        queued = self._entity(key)
        if queued is not None and uid in queued.members:
            self._leave(queued, uid)
        for waiting in (*self._pending.values(), self._incomplete.get(key, {})):
            waiting.pop(uid, None)
        if not self._incomplete.get(key, True):
            del self._incomplete[key]
        del self._keys[uid]

    # -- the cycle of a root -----------------------------------------------------------------------------------------

    def pop(self) -> QueuedPod | None:
        queued = super().pop()
        if isinstance(queued, QueuedGroup):
            self._begin_cycle(queued)
        return queued

    def take(self, key: EntityKey) -> QueuedGroup | None:
        """Return a root as `pop` does, wherever it waits; None if it does not wait."""
        queued = self._queued.get(key)
        if queued is not None:
            super().delete(queued.pod.uid)
            queued.attempts += 1
            self._begin_cycle(queued)
        return queued

    def _begin_cycle(self, queued: QueuedGroup) -> None:
        del self._queued[queued.key]
        self.unasked.pop(queued.key, None)
        self._pending[queued.key] = {}
        for uid, member in queued.members.items():
            member.attempts += 1
            self.in_flight.pop(uid)

    def put_back(self, queued: QueuedPod) -> None:
        """Requeue a pod; a member waits for the end of its root's cycle, or enters with its root if that is over."""
        key = self._keys.get(queued.pod.uid)
        if key is None:
            super().put_back(queued)
            return
        root = self._trees.root(key)
        if root is not None and entity_key(root) in self._pending:
            self._pending[entity_key(root)][queued.pod.uid] = queued
            return
        queued.timestamp = self._now()
        if root is None:
            self._add_member(key, queued)
        else:
            self._put_back_unbound(root, queued)
        self.done(queued.pod.uid)

    def _put_back_unbound(self, root: GenericPodGroup, member: QueuedPod) -> None:
        """Requeue a member whose binding failed, with the others that wait, as the pod alone would back off or wait."""
        others = self._queued.get(entity_key(root))
        members, rejectors = [member], member.unschedulable_plugins
        if others is not None:
            self._drop(others)
            members = [*others.members.values(), member]
            rejectors = rejectors and rejectors | others.unschedulable_plugins
        queued = self._queued[entity_key(root)] = QueuedGroup(root, members, member.timestamp)
        queued.attempts, queued.initial_attempt = member.attempts, member.initial_attempt
        queued.unschedulable_plugins, queued.pending_plugins = rejectors, member.pending_plugins
        queued.unschedulable_count, queued.consecutive_errors = member.unschedulable_count, member.consecutive_errors
        self._requeue_failed(queued)
        member.unschedulable_count, member.consecutive_errors = queued.unschedulable_count, queued.consecutive_errors

    def put_back_group(self, queued: QueuedGroup, status: Status) -> None:
        """Requeue what is left of a tree after the cycle of its root, as the root's status says.

        After a success the others are tried again at once, as a smaller group, unless the last step before their
        binding rejected all of them. A rejected root waits for the events of the plugins that rejected its members, as
        pods do. A root without waiting members leaves the queue.
        """
        pending, rest = self._pending.pop(queued.key), list[QueuedPod]()
        root = self._trees.get(queued.key)
        for uid, member in pending.items():
            if root is not None and self._trees.root(self._keys[uid]) is root:
                rest.append(member)
            else:
                self._add_member(self._keys[uid], member)
        if root is not None and rest:
            self._requeue_rest(queued, QueuedGroup(root, rest, queued.timestamp), status)
        for uid in pending:
            self.done(uid)

    def _requeue_rest(self, before: QueuedGroup, rest: QueuedGroup, status: Status) -> None:
        self._queued[rest.key] = rest
        rest.attempts, rest.initial_attempt, rest.requeued_by = before.attempts, before.initial_attempt, "PodAdd"
        if status.code == Code.SUCCESS and rest.members.keys() != before.members.keys():
            if not rest.members.keys() & before.members.keys():
                rest.timestamp = self._now()
            self._enter("active", rest, "ScheduleAttemptFailure")
            return
        rest.unschedulable_count, rest.consecutive_errors = before.unschedulable_count, before.consecutive_errors
        if status.code != Code.ERROR:
            rejectors = (member.unschedulable_plugins for member in rest.members.values())
            rest.unschedulable_plugins = NO_PLUGINS.union(*rejectors, (status.plugin,) if status.plugin else ())
            rest.pending_plugins = NO_PLUGINS.union(*(member.pending_plugins for member in rest.members.values()))
        self._requeue_failed(rest)

    # -- questions to plugins, of all members ------------------------------------------------------------------------

    def _find_gate(self, queued: QueuedPod) -> Status | None:
        """Run PreEnqueue; of a large group only for the last pod that was gated, for the others later (`unasked`)."""
        if not isinstance(queued, QueuedGroup):
            return super()._find_gate(queued)
        status = self._ask_gates(queued, [queued.last_gated] if queued.is_large else queued.in_order())
        gate = ("", "") if status is None else (status.plugin, status.message)
        if gate != (queued.in_order()[0].gating_plugin, queued.in_order()[0].gate_message):
            for member in queued.members.values():
                member.gating_plugin, member.gate_message = gate
        return status

    def _is_still_gated(self, queued: QueuedPod) -> bool:
        """Return whether hints are not asked: a large group in `unasked` is to enter without them."""
        return (isinstance(queued, QueuedGroup) and queued.key in self.unasked) or super()._is_still_gated(queued)

    def _ask_gates(self, queued: QueuedGroup, members: Sequence[QueuedPod]) -> Status | None:
        """Run PreEnqueue for these members, until one is gated."""
        for member in members:
            status = self.policy.run_pre_enqueue(member.pod)
            if status is not None:
                queued.last_gated = member
                return status
        return None

    def _enter(self, queue: str, queued: QueuedPod, reason: str) -> bool:
        if not isinstance(queued, QueuedGroup) or not queued.is_large or self._find_gate(queued) is not None:
            return super()._enter(queue, queued, reason)
        self.unasked[queued.key] = queue, reason
        if super().get(queued.pod.uid) is None:
            self._gated.put(queued, queued.rejectors)
        return False

    def let_in_unasked(self) -> Iterator[None]:
        """Run PreEnqueue for all pods of large groups, some at a time, and let the groups in that are not gated."""
        while self.unasked:
            key, (queue, reason) = next(iter(self.unasked.items()))
            queued, members, status = self._queued[key], self._queued[key].in_order(), None
            for first in range(0, len(members), GATES_PER_TURN):
                status = status or self._ask_gates(queued, members[first : first + GATES_PER_TURN])
                yield
            del self.unasked[key]
            if super()._enter(queue, queued, reason):
                self._unschedulable.pop(queued.pod.uid)
                self._gated.pop(queued.pod.uid)

    def _registered_for(self, event: ObservedEvent) -> Mapping[PluginKey, Collection[str] | None]:
        plugins = super()._registered_for(event)
        return {key: None if uids is None else {self._leader(uid) for uid in uids} for key, uids in plugins.items()}

    def _queueing_strategy(self, event: ObservedEvent, queued: QueuedPod, pod: PendingPod) -> QueueingStrategy:
        if not isinstance(queued, QueuedGroup):
            return super()._queueing_strategy(event, queued, pod)
        best = QueueingStrategy.SKIP
        strongest = QueueingStrategy.IMMEDIATELY if queued.pending_plugins else QueueingStrategy.AFTER_BACKOFF
        for member in queued.in_order():
            strategy = super()._queueing_strategy(event, queued, member.pod)
            best = max(best, strategy, key=lambda each: each.value)
            if best is strongest:
                break
        return best

    def _record_move(self, queue: str, queued: QueuedPod, event: str) -> None:
        super()._record_move(queue, queued, event)
        if isinstance(queued, QueuedGroup):
            self.incoming[queue, event] += len(queued.members) - 1
            self.incoming_members[queue, event] += len(queued.members)
            self.incoming_groups[queue, event, queued.key[0]] += 1

    # -- queries -----------------------------------------------------------------------------------------------------

    def _entity(self, key: EntityKey) -> QueuedGroup | None:
        """Return the root of a group in the queue."""
        root = self._trees.root(key)
        return None if root is None else self._queued.get(entity_key(root))

    def _leader(self, uid: str) -> str:
        """Return the uid under which a pod, or a group, is in a queue: that of the root's first member."""
        key = self._keys.get(uid)
        queued = None if key is None else self._entity(key)
        return uid if queued is None else queued.pod.uid

    def get(self, uid: str) -> QueuedPod | None:
        return super().get(self._leader(uid))

    def activate(self, uid: str) -> None:
        super().activate(self._leader(uid))

    def waits_for_event(self, uid: str) -> bool:
        return super().waits_for_event(self._leader(uid)) or self._keys.get(uid) in self._incomplete

    def queue_of(self, uid: str) -> str:
        key = self._keys.get(uid)
        if key is not None and uid in self._incomplete.get(key, ()):
            return "incomplete"
        if any(uid in members for members in self._pending.values()):
            return "pending"
        return super().queue_of(self._leader(uid))

    def count_by_queue(self) -> dict[str, int]:
        counts = super().count_by_queue()
        for queued in self._queued.values():
            counts[super().queue_of(queued.pod.uid)] += len(queued.members) - 1
        counts["incomplete"] = sum(map(len, self._incomplete.values()))
        counts["pending"] = sum(map(len, self._pending.values()))
        return counts

    def count_entities(self) -> Counter[tuple[str, ...]]:
        """Count the pods without a group and the roots, by queue and type."""
        pods = super().count_by_queue()
        counts: Counter[tuple[str, ...]] = Counter({(queue, "pod"): count for queue, count in pods.items()})
        counts.update({(queue, kind): 0 for queue in pods for kind in self._trees.types})
        for queued in self._queued.values():
            queue = super().queue_of(queued.pod.uid)
            counts.update({(queue, queued.key[0]): 1, (queue, "pod"): -1})
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


def new_queue(
    cluster: ClusterState, policy: QueuePolicy, now: Callable[[], float], backoff: Backoff, max_unschedulable: float
) -> SchedulingQueue:
    """Return a queue that schedules groups as the cluster's feature gates say."""
    gates = cluster.feature_gates
    if not gates.has_pod_groups:
        return SchedulingQueue(policy, now, backoff, max_unschedulable=max_unschedulable, gates=gates)
    trees = cluster.groups.trees
    queue = GroupQueue(policy, now, backoff, trees, max_unschedulable=max_unschedulable, gates=gates)
    cluster.objects(PodGroup).on_change(queue.on_group_change)
    if gates.has_group_trees:
        cluster.objects(CompositePodGroup).on_change(queue.on_group_change)
    return queue


def group_watches(gates: FeatureGates) -> Iterator[Watch]:
    """Yield the kinds of groups, whose API Kubernetes 1.36 did not have in this version."""
    if gates.has_pod_groups:
        yield Watch(PodGroup, verbs=("patch_status",))
        if gates.is_enabled("CompositePodGroup"):
            yield Watch(CompositePodGroup)
