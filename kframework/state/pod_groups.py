"""The members of groups: which pods name a group in `spec.schedulingGroup`, and how far each of them is."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf

from kframework.objects import GenericPodGroup
from kframework.state.group_trees import POD_GROUP, GroupTrees
from kframework.state.pods import PodInfo

#: Namespace and name of a group.
GroupKey = tuple[str, str]


class GroupMembers:
    """The uids of the pods of one group, in the order in which they came to each state.

    `unscheduled` pods have no node, `assumed` ones have one in this scheduler only, `assigned` ones in the cluster;
    `terminating` ones are assigned and about to end. `most_running` is the largest number of assigned pods at a time,
    unlimited if some were when the first listing was complete.
    """

    __slots__ = ("assigned", "assumed", "most_running", "terminating", "unscheduled")

    def __init__(self) -> None:
        self.unscheduled: dict[str, None] = {}
        self.assumed: dict[str, None] = {}
        self.assigned: dict[str, None] = {}
        self.terminating: set[str] = set()
        self.most_running: float = 0

    @property
    def running(self) -> int:
        """The number of pods that are on a node and stay, assumed ones included."""
        return self.scheduled - len(self.terminating)

    @property
    def scheduled(self) -> int:
        """The number of pods that are on a node, assumed ones included."""
        return len(self.assumed) + len(self.assigned)

    def __len__(self) -> int:
        return len(self.unscheduled) + self.scheduled

    def discard(self, uid: str) -> None:
        for pods in (self.unscheduled, self.assumed, self.assigned):
            pods.pop(uid, None)
        self.terminating.discard(uid)


class PodGroups:
    """The members of all groups that pods name, of any scheduler and whether or not the group exists.

    `group_of` has the group of each known pod by uid. A group without pods is forgotten. `trees` has the groups that
    exist.
    """

    def __init__(self, trees: GroupTrees | None = None) -> None:
        self.trees: GroupTrees = trees or GroupTrees()
        self._members: dict[GroupKey, GroupMembers] = {}
        self.group_of: dict[str, GroupKey] = {}
        self._changes = 0

    @property
    def version(self) -> int:
        """A number that changes whenever a group, or a pod of one, comes, goes or is replaced."""
        return self._changes + self.trees.changes

    def members(self, namespace: str, name: str) -> GroupMembers:
        """Return the members of a group, none if no pod names it."""
        return self._members.get((namespace, name)) or GroupMembers()

    def members_below(self, group: GenericPodGroup) -> Iterator[GroupMembers]:
        """Yield the members of each PodGroup in the tree below a group, or those of the PodGroup itself."""
        for leaf in self.trees.leaves(group):
            yield self.members(leaf.metadata.namespace, leaf.metadata.name)

    def scheduled(self, group: GenericPodGroup) -> Iterator[str]:
        """Yield the uids of the pods of a group, or of the groups below it, that are on a node."""
        for members in self.members_below(group):
            yield from members.assumed
            yield from members.assigned

    def root(self, pod: PodInfo) -> GenericPodGroup | None:
        """Return the root of the tree of a pod's group; None without one, or while one of the tree is unknown."""
        return self.trees.root((POD_GROUP, pod.namespace, pod.group)) if pod.group else None

    def __iter__(self) -> Iterator[GroupKey]:
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)

    # -- changes: by the inbox and the cycle only ----------------------------------------------------------------------

    def add(self, uid: str, group: GroupKey) -> None:
        """Add a pod without a node; one that is known keeps its state."""
        if uid not in self.group_of:
            self._of(uid, group).unscheduled[uid] = None

    def assign(self, uid: str, group: GroupKey) -> None:
        members = self._of(uid, group)
        if uid not in members.assigned:
            members.discard(uid)
            members.assigned[uid] = None
            members.most_running = max(members.most_running, len(members.assigned) - len(members.terminating))

    def terminate(self, uid: str) -> None:
        """Note that an assigned pod is about to end."""
        self._members[self.group_of[uid]].terminating.add(uid)

    def mark_synced(self) -> None:
        """Note that the first listing is complete: of the pods that have nodes by then the past is not known."""
        for members in self._members.values():
            if members.assigned:
                members.most_running = inf

    def assume(self, uid: str) -> None:
        """Move an unscheduled pod to the assumed ones; an unknown pod was deleted meanwhile."""
        group = self.group_of.get(uid)
        if group is not None and self._members[group].unscheduled.pop(uid, uid) is None:
            self._members[group].assumed[uid] = None

    def forget(self, uid: str) -> None:
        """Undo the assumption of a pod, if it is known and has not been assigned since."""
        group = self.group_of.get(uid)
        if group is not None and self._members[group].assumed.pop(uid, uid) is None:
            self._members[group].unscheduled[uid] = None

    def remove(self, uid: str) -> None:
        group = self.group_of.pop(uid, None)
        if group is not None:
            self._changes += 1
            members = self._members[group]
            members.discard(uid)
            if not members:
                del self._members[group]

    def _of(self, uid: str, group: GroupKey) -> GroupMembers:
        if uid not in self.group_of:
            self.group_of[uid] = group
            self._changes += 1
        return self._members.setdefault(group, GroupMembers())
