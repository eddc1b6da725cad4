"""The entry of the queue for a tree of groups: its root, with the pods of the tree that wait."""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Sequence

from kframework.objects import GenericPodGroup
from kframework.state.group_trees import EntityKey, entity_key
from kframework.state.pods import PendingPod, QueuedPod

#: The number of pods for which PreEnqueue is run before other tasks run; these take about 1 ms.
GATES_PER_TURN = 200


class QueuedGroup(QueuedPod):
    """The root of a tree of groups in the queue with its members; it has the attempts, backoff and rejectors of all.

    `pod` is its most important member: to a plugin that orders pods the root is that one, with the root's priority.
    """

    __slots__ = ("_in_order", "last_gated", "members", "root")

    def __init__(self, root: GenericPodGroup, members: Iterable[QueuedPod], timestamp: float) -> None:
        self.root: GenericPodGroup = root
        #: The pods of all PodGroups of the tree, by uid.
        self.members: dict[str, QueuedPod] = {member.pod.uid: member for member in members}
        self._in_order = sorted(self.members.values(), key=_importance)
        #: The member for which PreEnqueue is run first: the last one that was gated.
        self.last_gated: QueuedPod = self._in_order[0]
        super().__init__(self._in_order[0].pod, timestamp)

    @property
    def key(self) -> EntityKey:
        return entity_key(self.root)

    @property
    def priority(self) -> int:
        return self.root.spec.priority or 0

    @property
    def pods(self) -> tuple[PendingPod, ...]:
        return tuple(member.pod for member in self._in_order)

    @property
    def is_large(self) -> bool:
        """Whether PreEnqueue is run for its members in several turns of the loop."""
        return len(self.members) > GATES_PER_TURN

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
        member = self.members.pop(uid)
        self._in_order.remove(member)
        self.pod = self._in_order[0].pod
        if member is self.last_gated:
            self.last_gated = self._in_order[0]


def _importance(member: QueuedPod) -> tuple[int, int, float]:
    return -member.pod.priority, -member.attempts, member.timestamp
