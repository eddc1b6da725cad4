"""The bindings of a PodGroup's pods: none begins before enough pods can be bound, so a gang is never bound in part.

A pod may still fail after its group has its nodes, in Permit or PreBind. Until that is over for enough pods, the others
wait before Bind; if too few are left, all give their nodes back.
"""

from __future__ import annotations

from collections.abc import Callable

from kframework.values.status import Code, Status


class GroupBindings:
    """The pods of one PodGroup that have nodes, and whose bindings wait for each other.

    `count_scheduled` counts the pods of the group on nodes, assumed ones included. `ask_feasibility` has the answer of
    PlacementFeasible, given the number of pods that can be bound and of those that may still fail.
    """

    def __init__(
        self, count_scheduled: Callable[[], int], ask_feasibility: Callable[[int, int], Status | None]
    ) -> None:
        self._count_scheduled = count_scheduled
        self._ask_feasibility = ask_feasibility
        self._preparing: set[str] = set()
        #: The pods that can be bound, with their callbacks.
        self._ready: dict[str, Callable[[], None]] = {}
        self._refused: dict[str, Status] = {}

    @property
    def is_idle(self) -> bool:
        """Whether no pod waits for another one."""
        return not (self._preparing or self._ready or self._refused)

    def add(self, uid: str) -> None:
        """Add a pod that may still fail."""
        self._preparing.add(uid)

    def on_decision(self, uid: str, notify: Callable[[], None]) -> None:
        """Call back once it is decided whether this pod, which is ready now, is bound (`refusal`)."""
        self._preparing.discard(uid)
        self._ready[uid] = notify
        self._decide()

    def refusal(self, uid: str) -> Status | None:
        """Return why a pod is not bound, None if it is."""
        return self._refused.get(uid)

    def withdraw(self, uid: str) -> None:
        """Take back that a pod is ready: it gives its node up."""
        if self._ready.pop(uid, None) is not None:
            self._refused[uid] = Status(Code.ERROR)
            self._decide()

    def remove(self, uid: str) -> None:
        """Remove a pod whose binding has ended."""
        self._preparing.discard(uid)
        self._refused.pop(uid, None)
        self._decide()

    def _decide(self) -> None:
        if not self._ready:
            return
        remaining = len(self._preparing)
        answer = self._ask_feasibility(self._count_scheduled() - remaining - len(self._refused), remaining)
        if answer is not None and answer.code == Code.WAIT:
            return
        ready, self._ready = self._ready, {}
        if answer is not None:
            refusal = Status(Code.ERROR, ("pod group cannot be bound", *answer.reasons), answer.plugin)
            self._refused.update(dict.fromkeys(ready, refusal))
        for notify in ready.values():
            notify()
