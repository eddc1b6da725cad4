"""The queue controller: the queues that must exist, and the state of all: Open, Closing, Closed.

A user sets the state, or issues a command that the controller carries out and deletes. The scheduler writes all else
in the status of a queue.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from msgspec.structs import replace

from kframework import Clock, Watch
from kframework.engine import Cluster
from kframework.objects import ApiObject, ObjectMeta
from kframework_batch.controllers.controller import Reconciler
from kframework_batch.objects import Command, PodGroup, Queue, QueueSpec
from kframework_batch.queue import DEFAULT_QUEUE, ROOT_QUEUE

#: The annotation of a queue that closed with its parent, and will open with it.
CLOSED_BY_PARENT = "volcano.sh/closed-by-parent"

#: What a command is about, if it is a queue, and the state into which each command brings it.
_QUEUE = ("scheduling.volcano.sh/v1beta1", "Queue")
_STATES = {"OpenQueue": "Open", "CloseQueue": "Closing"}

_CLOSED_STATES = ("Closing", "Closed")


class QueueController(Reconciler):
    """Makes the root queue and the default one, and keeps the state of all queues true."""

    watches: ClassVar[tuple[Watch, ...]] = (
        Watch(Queue, verbs=("create", "patch", "patch_status")),
        Watch(PodGroup),
        Watch(Command, verbs=("delete",)),
    )

    def __init__(self, cluster: Cluster, clock: Clock, default_queue: str = DEFAULT_QUEUE) -> None:
        super().__init__(cluster, clock)
        self._default_queue = default_queue

    def permanent_subjects(self) -> Iterable[str]:
        return ROOT_QUEUE, self._default_queue

    def subjects(self, obj: ApiObject) -> Iterable[str]:
        match obj:
            case Queue(metadata=metadata, spec=spec):
                return (metadata.name, spec.parent) if spec.parent else (metadata.name,)
            case PodGroup(spec=spec):
                return (spec.queue or self._default_queue,)
            case Command(target=target) if target is not None and (target.api_version, target.kind) == _QUEUE:
                return (target.name,)
        return ()

    def is_relevant(self, old: ApiObject, new: ApiObject) -> bool:
        return not isinstance(new, PodGroup) or self.subjects(old) != self.subjects(new)

    async def reconcile(self, subject: str) -> None:
        queue = self.mirror.find(Queue, subject)
        if queue is None:
            if subject in self.permanent_subjects():
                # Nothing is reclaimed from the root, which is all there is.
                spec = QueueSpec(weight=1, reclaimable=subject != ROOT_QUEUE)
                await self.create(Queue(metadata=ObjectMeta(name=subject), spec=spec))
            return
        for command in self.mirror.for_subject(subject, Command):
            state = _STATES.get(command.action)
            if state:
                await self._set(queue, state)
                queue = replace(queue, status=replace(queue.status, state=state))
            await self.delete(command)
        in_use = bool(self.mirror.for_subject(subject, PodGroup))
        state = "Open" if subject == ROOT_QUEUE else next_state(queue.status.state, in_use=in_use)
        await self._set(queue, state)
        for child in self.mirror.for_subject(subject, Queue):
            if child is queue or child.metadata.name == subject:
                continue
            # A queue is closed with its parent, and opened again when it was closed so.
            if state in _CLOSED_STATES and child.status.state not in _CLOSED_STATES:
                await self.annotate(child, CLOSED_BY_PARENT, "true")
                await self._set(child, "Closing")
            elif state == "Open" and child.metadata.annotations.get(CLOSED_BY_PARENT) == "true":
                await self._set(child, "Open")
                await self.annotate(child, CLOSED_BY_PARENT, "false")

    async def _set(self, queue: Queue, state: str) -> None:
        if queue.status.state != state:
            await self.patch_status(queue, {"state": state})


def next_state(state: str, *, in_use: bool) -> str:
    """Return the state that follows: a queue that is being closed is Closing while pod groups are in it."""
    if state in ("", "Open"):
        return "Open"
    if state in _CLOSED_STATES:
        return "Closing" if in_use else "Closed"
    return "Unknown"
