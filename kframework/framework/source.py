"""Outside data as part of the contract: what a plugin declares with `handle.source`, and how its hooks read it.

    def __init__(self, args: LoadArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self.load = handle.source("load", float, self.fetch, by="node", every=15, stale_after=60, when_stale="ignore")

    async def fetch(self) -> dict[str, float]: ...

    @hookimpl
    def score(self, state, pod, node):
        return round(100 * (1 - self.load.get(node.name, 0.0)))

The scheduler fetches it, beside everything else; what was fetched is a message like any other: it takes effect between
two cycles, is recorded, and comes from the file in a replay. So hooks never wait, and read plain data.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Generic, Literal, TypeVar

import msgspec
from msgspec import json

from kframework.errors import shown

if TYPE_CHECKING:
    from kframework.state.pods import PendingPod

V = TypeVar("V")

#: What the values of a source are about: node names, pods as `namespace/name`, or whatever its plugin likes.
By = Literal["node", "pod", "key"]

#: What becomes of pods while a source has told nothing yet, or nothing for too long.
#:
#: `reject`: PreFilter rejects them on the plugin's behalf, unless its own `pre_filter` says Skip. `ignore`: they are
#: placed as if the plugin had nothing to say: it is skipped from PreFilter to Score. `hold`: PreEnqueue gates them, so
#: that they are not even tried. What else the plugin does (`reserve`, `permit`, ...) it does in any case.
WhenStale = Literal["reject", "ignore", "hold"]


class SourceChange(msgspec.Struct, Generic[V], frozen=True):
    """What is new in a source: values that are new or others than before, and keys that are there no more.

    A stream may yield it, to tell of a part. Where a hint gets it, `old` holds what these keys had before.
    """

    values: Mapping[str, V] = {}
    gone: tuple[str, ...] = ()
    old: Mapping[str, V] = {}


#: Fetches a source: a coroutine function, polled for all values; or an async generator of all values or of changes.
Fetch = Callable[[], Awaitable[Mapping[str, V]] | AsyncIterator[Mapping[str, V] | SourceChange[V]]]

#: Whether a change is worth another attempt for a pod that the source's plugin rejected.
Wakes = Callable[["PendingPod", SourceChange[V]], bool]


class SourceSettings(msgspec.Struct, frozen=True):
    """How a source is fetched, in seconds, and what becomes of pods without it: the arguments of `handle.source`."""

    by: By = "key"
    every: float = 15.0
    jitter: float = 0.1
    timeout: float | None = None
    retry: float = 1.0
    stale_after: float = 60.0
    when_stale: WhenStale = "reject"

    def complaint(self) -> str:
        """Say what is wrong with them, "" if nothing is."""
        if min(self.every, self.retry) <= 0 or (self.timeout is not None and self.timeout <= 0):
            return "every, retry and timeout must be more than 0 s"
        if not 0 <= self.jitter < 1:
            return f"jitter is a part of `every`, from 0 to below 1, not {self.jitter:g}"
        if self.stale_after <= self.every * (1 + self.jitter):
            return (
                f"it would be stale before it is fetched again: stale_after={self.stale_after:g}, every={self.every:g}"
            )
        return ""


class Source(Mapping[str, V]):
    """Outside data by key, as a plugin's hooks read it: `source[key]`, `source.get(key)`; the scheduler fills it.

    Nothing in it changes while a cycle goes on. `updated_at` is when it was last heard of, in seconds since 1970 (None:
    never); `error` what went wrong since, "" if nothing did. `updates` and `failures` count both.
    """

    def __init__(
        self,
        key: str,
        kind: type[V],
        fetch: Fetch[V],
        settings: SourceSettings,
        wakes: Wakes[V] | None = None,
    ) -> None:
        profile, plugin, name = key.rsplit("/", 2)
        #: `profile/plugin/name`.
        self.key: str = key
        self.profile: str = profile
        self.plugin: str = plugin
        self.name: str = name
        self.kind: type[V] = kind
        self.fetch: Fetch[V] = fetch
        self.settings: SourceSettings = settings
        self.updated_at: float | None = None
        self.error: str = ""
        self.updates: int = 0
        self.failures: int = 0
        self._wakes = wakes
        self._stale = False
        self._values: dict[str, V] = {}

    @property
    def fresh(self) -> bool:
        """Whether it has been heard of, and not too long ago."""
        return self.updated_at is not None and not self._stale

    @property
    def stale_at(self) -> float | None:
        """When it will be stale if nothing is heard, in seconds since 1970; None if it is not fresh."""
        return self.updated_at + self.settings.stale_after if self.updated_at is not None and self.fresh else None

    def wakes(self, pod: PendingPod, change: SourceChange[V] | None) -> bool:
        """Return whether a change, None for that of its freshness, is worth another attempt of a rejected pod."""
        if change is None:
            return True
        if self._wakes is not None:
            return bool(self._wakes(pod, change))
        return self.settings.by != "pod" or pod.key in change.values or pod.key in change.gone

    def checked(self, values: Mapping[str, object]) -> dict[str, V]:
        """Return values as a recording would give them back; ValueError names one that is not as declared."""
        if other := [key for key in values if not isinstance(key, str)]:
            raise ValueError(f"the key {other[0]!r} is no string")
        try:
            return self.converted(json.decode(json.encode(dict(values))))
        except (msgspec.MsgspecError, TypeError) as error:
            for key, value in values.items():
                with suppress(msgspec.MsgspecError, TypeError):
                    self.converted({key: json.decode(json.encode(value))})
                    continue
                wrong = str(error).partition(" - at `$")[0]  # without where it stands among others
                raise ValueError(f"{key!r} has the value {shown(value)}: {wrong}") from error
            raise ValueError(str(error)) from error

    def converted(self, values: Mapping[str, object]) -> dict[str, V]:
        """Return recorded values as they are declared."""
        kind: type[dict[str, V]] = dict[str, self.kind]  # type: ignore[name-defined]  # known at run time only
        return msgspec.convert(values, kind)

    # -- filled by the engine, between two cycles ------------------------------------------------------------------

    def update(self, at: float, values: Mapping[str, V], gone: tuple[str, ...] = ()) -> SourceChange[V]:
        """Take in what was heard at that time."""
        old = {key: self._values[key] for key in (*values, *gone) if key in self._values}
        self._values.update(values)
        for key in gone:
            self._values.pop(key, None)
        self.updated_at, self.error, self._stale = at, "", False
        self.updates += 1
        return SourceChange(values, gone, old)

    def fail(self, error: str) -> None:
        """Take in that it could not be heard."""
        self.error = error
        self.failures += 1

    @property
    def state(self) -> tuple[int, int, bool]:
        """What changes whenever it does."""
        return self.updates, self.failures, self.fresh

    def expire(self) -> None:
        """Let it be stale."""
        self._stale = True

    def take_over(self, other: Source[V]) -> None:
        """Hold what another source of the same key holds."""
        self._values, self._stale = dict(other), other._stale
        self.updated_at, self.error = other.updated_at, other.error
        self.updates, self.failures = other.updates, other.failures

    # -- read by hooks ---------------------------------------------------------------------------------------------

    def __getitem__(self, key: str) -> V:
        return self._values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    __hash__ = object.__hash__  # a source is itself, whatever it holds

    def __eq__(self, other: object) -> bool:
        return self is other

    def __repr__(self) -> str:
        state = "" if self.fresh else " absent" if self.updated_at is None else " stale"
        return f"<Source {self.key}: {len(self)} values{state}{', ' + self.error if self.error else ''}>"
