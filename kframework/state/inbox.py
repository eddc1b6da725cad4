"""The one ordered inbox: all that reaches the scheduler from outside is a message, applied between two cycles."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from itertools import islice

import msgspec

from kframework.objects import ApiObject
from kframework.values.status import Status


class Upserted(msgspec.Struct, frozen=True):
    """A message that an object is new or changed."""

    obj: ApiObject


class Bound(Upserted, frozen=True):
    """A message that a pod is bound and otherwise unchanged since this version."""

    version: str


class StatusChanged(Upserted, frozen=True):
    """The cluster says that this pod, which has a node, has another status, and nothing else of it has changed."""


class Deleted(msgspec.Struct, frozen=True):
    """A message that an object was deleted, with its last known state."""

    obj: ApiObject


class Synced(msgspec.Struct, frozen=True):
    """The first listing of every kind has been delivered."""


class BindingStarted(msgspec.Struct, frozen=True):
    """The pod has passed Permit; from now on a failure records no rejectors (queue `done`)."""

    uid: str
    attempt: int


class BindingEnded(msgspec.Struct, frozen=True):
    """A message that a binding cycle ended.

    `status` is None if the pod is bound, else the reason it is not; `rejector` names the rejecting Permit plugin.
    """

    uid: str
    attempt: int
    status: Status | None
    rejector: str | None = None


class LastVictimReached(msgspec.Struct, frozen=True):
    """A message that all victims of this pod's preemption but the last have been evicted."""

    uid: str
    attempt: int
    victim: str


class PreemptionEnded(msgspec.Struct, frozen=True):
    """A message that the evictions of a preemption ended, after `took` nanoseconds; `failed`: some failed.

    The preemptor of this `uid` is a `pod`, a `podgroup` or a `compositepodgroup`.
    """

    uid: str
    attempt: int
    failed: bool
    preemptor: str = "pod"
    took: int = 0


class ActivateRequested(msgspec.Struct, frozen=True):
    """A plugin's request to activate these pods, by uid."""

    uids: tuple[str, ...]


class Nominated(msgspec.Struct, frozen=True, rename="camel"):
    """A plugin keeps room for a pod on a node; "" takes it back."""

    uid: str
    node_name: str


class AnswersInvalidated(msgspec.Struct, frozen=True, rename="camel"):
    """A plugin's outside data changed its answers on these nodes; none named: on all."""

    node_names: tuple[str, ...]


class SourceChanged(msgspec.Struct, frozen=True):
    """A message that a plugin's source was fetched: `values` are new or changed, the keys in `gone` are gone.

    `source` is its `profile/plugin/name`, `at` the time of the fetch, in seconds since 1970.
    """

    source: str
    at: float
    values: Mapping[str, object] = {}
    gone: tuple[str, ...] = ()


class SourceFailed(msgspec.Struct, frozen=True):
    """A message that a plugin's source could not be fetched."""

    source: str
    error: str


class EngineMessage(msgspec.Struct, frozen=True):
    """The base of messages on the outcome of an engine's own actions; subclasses belong to the engine."""


_ClusterMessage = Upserted | Deleted | Synced
_BindingMessage = BindingStarted | BindingEnded | LastVictimReached | PreemptionEnded
_PluginMessage = ActivateRequested | Nominated | AnswersInvalidated | SourceChanged | SourceFailed
#: All messages of the pod engine, and those of other engines.
Message = _ClusterMessage | _BindingMessage | _PluginMessage | EngineMessage


#: How many of the last messages `Inbox.holds` looks at; over HTTP none of thousands would be found.
_RECENT = 64


class Inbox:
    """A queue of messages in the order of arrival; `wake` is called when one arrives at an empty inbox."""

    def __init__(self) -> None:
        self._messages: deque[Message] = deque()
        self.wake: Callable[[], None] = lambda: None

    def offer(self, message: Message) -> None:
        was_empty = not self._messages
        self._messages.append(message)
        if was_empty:
            self.wake()

    def drain(self) -> Iterator[Message]:
        """Yield messages until there is none, including those that arrive meanwhile."""
        while self._messages:
            yield self._messages.popleft()

    def holds(self, obj: ApiObject) -> bool:
        """Return whether this very object is in one of the last messages, which are not applied yet."""
        for message in islice(reversed(self._messages), _RECENT):
            if isinstance(message, Upserted) and message.obj is obj:
                return True
        return False

    def __iter__(self) -> Iterator[Message]:
        return iter(self._messages)

    def __len__(self) -> int:
        return len(self._messages)
