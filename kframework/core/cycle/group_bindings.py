"""The bindings of a tree of groups: none begins before enough pods can be bound, so a gang is never bound in part.

A pod may still fail after its group has its nodes, in Permit or PreBind. Until that is over for enough pods, the others
wait before Bind; if too few are left, all give their nodes back.
"""

from __future__ import annotations

from collections.abc import Callable

from kframework.framework.answers import GroupProgress
from kframework.objects import CompositePodGroup, GenericPodGroup, PodGroup
from kframework.objects.pod_groups import BINDING
from kframework.state.group_trees import EntityKey, entity_key
from kframework.state.pod_groups import PodGroups
from kframework.values.status import Code, Status


class _LeafBindings:
    """The pods of one PodGroup: those that may still fail, those that can be bound, and those that are not."""

    def __init__(self, group: PodGroup) -> None:
        self.group = group
        self.key: EntityKey = entity_key(group)
        self.preparing: set[str] = set()
        #: With their callbacks.
        self.ready: dict[str, Callable[[], None]] = {}
        self.refused: dict[str, Status] = {}

    def progress(self, running: int) -> GroupProgress:
        return GroupProgress(running - len(self.preparing) - len(self.refused), len(self.preparing))

    def decide(self, answer: Status | None) -> None:
        """Let the ready pods be bound, or refuse them because of this answer of PlacementFeasible."""
        ready, self.ready = self.ready, {}
        if answer is not None:
            refusal = Status(Code.ERROR, ("pod group cannot be bound", *answer.reasons), answer.plugin)
            self.refused.update(dict.fromkeys(ready, refusal))
        for notify in ready.values():
            notify()


class GroupBindings:
    """The pods of one tree of groups that have nodes, and whose bindings wait for each other.

    `ask_feasibility` has the answer of PlacementFeasible for a group, given how many of its parts can be bound and how
    many may still fail. `is_marked` says whether the next scheduler would know that bindings of a group began.
    """

    def __init__(
        self,
        root: GenericPodGroup,
        groups: PodGroups,
        ask_feasibility: Callable[[GenericPodGroup, GroupProgress], Status | None],
        is_marked: Callable[[PodGroup], bool],
    ) -> None:
        self.root: GenericPodGroup = root
        self._groups = groups
        self._ask_feasibility = ask_feasibility
        self._is_marked = is_marked
        self._leaves: dict[EntityKey, _LeafBindings] = {}
        self._leaf_of: dict[str, _LeafBindings] = {}
        #: The PodGroups that did not have their minimum when bindings of their pods began.
        self.begun: dict[EntityKey, PodGroup] = {}
        #: When the bound pods are evicted if they are still too few, in seconds; None while that is not to happen.
        self.due: float | None = None

    @property
    def is_idle(self) -> bool:
        """Whether no pod waits for another one."""
        return not self._leaf_of

    def add(self, uid: str, group: PodGroup) -> None:
        """Add a pod of a PodGroup that may still fail."""
        leaf = self._leaf_of[uid] = self._leaf(group)
        leaf.preparing.add(uid)

    def begin(self, group: PodGroup) -> None:
        """Note that bindings of a group's pods began before it had its minimum."""
        self.begun[self._leaf(group).key] = group

    def _leaf(self, group: PodGroup) -> _LeafBindings:
        return self._leaves.setdefault(entity_key(group), _LeafBindings(group))

    def short_groups(self) -> dict[EntityKey, Status]:
        """Return the PodGroups that have too few pods without those that may still fail, and why it is too few."""
        return {leaf.key: answer for leaf, answer in self._answers().items() if answer is not None}

    def on_decision(self, uid: str, notify: Callable[[], None]) -> None:
        """Call back once it is decided whether this pod, which is ready now, is bound (`refusal`)."""
        leaf = self._leaf_of[uid]
        leaf.preparing.discard(uid)
        leaf.ready[uid] = notify
        self._decide()

    def refusal(self, uid: str) -> Status | None:
        """Return why a pod is not bound, None if it is."""
        refused = self._leaf_of[uid].refused.get(uid)
        unmarked = next((group for group in self.begun.values() if not self._is_marked(group)), None)
        if refused is not None or unmarked is None:
            return refused
        text = f"pod group cannot be bound, its condition {BINDING} cannot be written: PodGroup"
        return Status(Code.ERROR, (f"{text} {unmarked.metadata.namespace}/{unmarked.metadata.name}",))

    def withdraw(self, uid: str) -> None:
        """Take back that a pod is ready: it gives its node up."""
        leaf = self._leaf_of[uid]
        if leaf.ready.pop(uid, None) is not None:
            leaf.refused[uid] = Status(Code.ERROR)
            self._decide()

    def remove(self, uid: str) -> None:
        """Remove a pod whose binding has ended."""
        leaf = self._leaf_of.pop(uid, None)
        if leaf is not None:
            leaf.preparing.discard(uid)
            leaf.refused.pop(uid, None)
            self._decide()

    def _decide(self) -> None:
        """Decide on ready pods; pods that are refused may be too many for other groups of the tree."""
        is_decided = not any(leaf.ready for leaf in self._leaves.values())
        while not is_decided:
            is_decided = True
            for leaf, answer in self._answers().items():
                if leaf.ready and (answer is None or answer.code != Code.WAIT):
                    leaf.decide(answer)
                    is_decided = is_decided and answer is None

    def _answers(self) -> dict[_LeafBindings, Status | None]:
        """Return why the pods of each PodGroup cannot be bound: its own answer, or that of a group above it.

        To wait is the answer only if no group of them is rejected.
        """
        answers: dict[EntityKey, Status | None] = {}

        def answer_of(group: GenericPodGroup) -> Status | None:
            key = entity_key(group)
            if key not in answers:
                answers[key] = self._ask_feasibility(group, self._progress(group, answer_of))
            return answers[key]

        def rejection(group: PodGroup) -> Status | None:
            path = self._groups.trees.path(entity_key(group)) or [group]
            rejections = [answer for answer in map(answer_of, path) if answer is not None]
            return min(rejections, key=lambda answer: answer.code == Code.WAIT, default=None)

        return {leaf: rejection(leaf.group) for leaf in self._leaves.values()}

    def _progress(self, group: GenericPodGroup, answer_of: Callable[[GenericPodGroup], Status | None]) -> GroupProgress:
        if isinstance(group, CompositePodGroup):
            below = [answer_of(child) for child in self._groups.trees.children(group)]
            may_fail = sum(answer is not None and answer.code == Code.WAIT for answer in below)
            return GroupProgress(sum(answer is None for answer in below), may_fail)
        running = self._groups.members(group.metadata.namespace, group.metadata.name).running
        leaf = self._leaves.get(entity_key(group))
        return GroupProgress(running, 0) if leaf is None else leaf.progress(running)
