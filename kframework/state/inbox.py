"""The one ordered inbox: all that reaches the scheduler from outside is a message, applied between two cycles."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping

import msgspec

from kframework.objects import ApiObject
from kframework.values.status import Status


class Changed(msgspec.Struct, frozen=True):
    """The cluster says that this object exists now, new or changed."""

    obj: ApiObject


class Bound(Changed, frozen=True):
    """The cluster says that this pod has a node now, and that nothing else of it has changed since this version."""

    version: str


class StatusChanged(Changed, frozen=True):
    """The cluster says that this pod, which has a node, has another status, and nothing else of it has changed."""


class Gone(msgspec.Struct, frozen=True):
    """The cluster says that this object, last seen like this, exists no more."""

    obj: ApiObject


class Synced(msgspec.Struct, frozen=True):
    """The first listing of every kind has been delivered."""


class BindingStarted(msgspec.Struct, frozen=True):
    """The pod has passed Permit; from now on a failure records no rejectors (queue `done`)."""

    uid: str
    attempt: int


class BindingEnded(msgspec.Struct, frozen=True):
    """A binding cycle is over.

    `status` is None when the pod is bound, else what stopped it; `rejector` names the Permit plugin that did.
    """

    uid: str
    attempt: int
    status: Status | None
    rejector: str | None = None


class LastVictim(msgspec.Struct, frozen=True):
    """All victims of the preemption by this pod have been sent away, save one, whose turn it is now."""

    uid: str
    attempt: int
    victim: str


class PreemptionEnded(msgspec.Struct, frozen=True):
    """The victims of the preemption by this pod have been sent away; `failed`: not all of them."""

    uid: str
    attempt: int
    failed: bool


class Activated(msgspec.Struct, frozen=True):
    """A plugin asks for these pods, by uid, to be tried at once."""

    uids: tuple[str, ...]


class Nominated(msgspec.Struct, frozen=True):
    """A plugin keeps room for a pod on a node; "" takes it back."""

    uid: str
    node_name: str


class Touched(msgspec.Struct, frozen=True):
    """A plugin's outside data changed its answers on these nodes; none named: on all."""

    node_names: tuple[str, ...]


class SourceChanged(msgspec.Struct, frozen=True):
    """A plugin's source has been heard: `values` are new or others than before, those of the keys in `gone` are gone.

    `source` is its `profile/plugin/name`, `at` when it was heard, in seconds since 1970.
    """

    source: str
    at: float
    values: Mapping[str, object] = {}
    gone: tuple[str, ...] = ()


class SourceFailed(msgspec.Struct, frozen=True):
    """A plugin's source could not be heard."""

    source: str
    error: str


class OwnMessage(msgspec.Struct, frozen=True):
    """What an engine hears of what it has done outside beside bindings; its subclasses are the engine's own."""


_OfTheCluster = Changed | Gone | Synced
_OfBindings = BindingStarted | BindingEnded | LastVictim | PreemptionEnded
_OfPlugins = Activated | Nominated | Touched | SourceChanged | SourceFailed
#: All messages of the pod engine, and those of other engines.
Message = _OfTheCluster | _OfBindings | _OfPlugins | OwnMessage


class Inbox:
    """Messages in the order of their arrival; `wake` is called when one arrives at an empty inbox."""

    def __init__(self) -> None:
        self._messages: deque[Message] = deque()
        self.wake: Callable[[], None] = lambda: None

    def offer(self, message: Message) -> None:
        """Take a message in."""
        self._messages.append(message)
        if len(self._messages) == 1:
            self.wake()

    def drain(self) -> Iterator[Message]:
        """Hand out messages until there is none, those included that arrive meanwhile."""
        while self._messages:
            yield self._messages.popleft()

    def __len__(self) -> int:
        return len(self._messages)
