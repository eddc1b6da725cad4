"""Sources of outside data: declared by a plugin with `handle.source`, and read by its hooks.

    def __init__(self, args: LoadArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self.load = handle.source("load", float, self.fetch, keyed_by="node", stale_after=60, when_stale="ignore")

    async def fetch(self) -> dict[str, float]: ...

    @hookimpl
    def score(self, state, pod, node):
        return round(100 * (1 - self.load.get(node.name, 0.0)))

The scheduler fetches it in the background; the result is a message like any other: it takes effect between two cycles,
is recorded, and comes from the file in a replay. So hooks never wait, and read plain data.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Generic, Literal, TypeVar, get_args

import msgspec
from msgspec import json

from kframework.errors import safe_repr
from kframework.objects.codec import locate_decode_error

if TYPE_CHECKING:
    from kframework.state.pods import PendingPod

V = TypeVar("V")

#: The keys of a source: node names, pods as `namespace/name`, or any other keys.
KeyedBy = Literal["node", "pod", "key"]

#: What happens to pods while a source has no data yet, or none that is recent enough.
#:
#: `reject`: PreFilter rejects them on the plugin's behalf, unless its own `pre_filter` answers Skip. `ignore`: the
#: plugin is skipped from PreEnqueue to Score. `gate`: PreEnqueue gates them, so that they are not even tried. Its other
#: hooks (`reserve`, `permit`, ...) run in any case.
WhenStale = Literal["reject", "ignore", "gate"]


class SourceChange(msgspec.Struct, Generic[V], frozen=True):
    """A change of a source: new or changed values, and removed keys.

    A generator may yield it instead of all values. For a hint, `old` holds the previous values of these keys.
    """

    values: Mapping[str, V] = {}
    removed: tuple[str, ...] = ()
    old: Mapping[str, V] = {}


#: Fetches a source: a coroutine function, polled for all values; or an async generator of all values or of changes.
Fetch = Callable[[], Awaitable[Mapping[str, V]] | AsyncIterator[Mapping[str, V] | SourceChange[V]]]

#: Whether a change is worth another attempt for a pod that the source's plugin rejected.
WakesPod = Callable[["PendingPod", SourceChange[V]], bool]


class SourceSettings(msgspec.Struct, frozen=True):
    """The arguments of `handle.source`: how a source is fetched, in seconds, and what happens to pods without it."""

    keyed_by: KeyedBy = "key"
    every: float = 15.0
    jitter: float = 0.1
    timeout: float | None = None
    retry: float = 1.0
    stale_after: float = 60.0
    when_stale: WhenStale = "reject"

    def validate(self) -> None:
        """Raise ValueError for invalid settings."""
        for setting, choices in (("keyed_by", get_args(KeyedBy)), ("when_stale", get_args(WhenStale))):
            if getattr(self, setting) not in choices:
                raise ValueError(f"{setting} is {getattr(self, setting)!r}: use one of {', '.join(choices)}")
        for setting in ("every", "jitter", "timeout", "retry", "stale_after"):
            value = getattr(self, setting)
            if not isinstance(value, int | float) and not (value is None and setting == "timeout"):
                raise ValueError(f"{setting} is {value!r}: use a number")
            if setting in ("every", "retry", "timeout") and value is not None and not 0 < value:
                raise ValueError(f"{setting} must be greater than 0 s, not {value:g}")
        if math.inf in (self.every, self.retry):
            raise ValueError("every and retry must be finite")
        if not 0 <= self.jitter < 1:
            raise ValueError(f"jitter must be a fraction of `every`, at least 0 and less than 1, not {self.jitter:g}")
        # Negated, since no comparison with NaN holds.
        if not self.stale_after > self.every * (1 + self.jitter):
            times = f"stale_after={self.stale_after:g}, every={self.every:g}"
            raise ValueError(f"data would be stale before the next fetch: {times}")


class Source(Mapping[str, V]):
    """Outside data by key, as a plugin's hooks read it: `source[key]`, `source.get(key)`; the scheduler fills it.

    Nothing in it changes during a cycle. `updated_at` is the time of the last data, in seconds since 1970 (None:
    never); `error` the latest failure since, "" if none. `updates` and `failures` count both.
    """

    def __init__(
        self,
        key: str,
        kind: type[V],
        fetch: Fetch[V],
        settings: SourceSettings,
        wakes_pod: WakesPod[V] | None = None,
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
        self._wakes_pod = wakes_pod
        self._stale = False
        self._values: dict[str, V] = {}

    @property
    def fresh(self) -> bool:
        """Whether data has arrived and is not older than `stale_after`."""
        return self.updated_at is not None and not self._stale

    @property
    def stale_at(self) -> float | None:
        """The time when it becomes stale without new data, in seconds since 1970; None if it is not fresh."""
        return self.updated_at + self.settings.stale_after if self.updated_at is not None and self.fresh else None

    def wakes_pod(self, pod: PendingPod, change: SourceChange[V] | None) -> bool:
        """Return whether a change of data, or of freshness (None), justifies another attempt of a rejected pod."""
        if change is None:
            return True
        if self._wakes_pod is not None:
            return bool(self._wakes_pod(pod, change))
        return self.settings.keyed_by != "pod" or pod.key in change.values or pod.key in change.removed

    def validate(self, values: Mapping[str, object]) -> dict[str, V]:
        """Return values as they would be read from a recording; ValueError names one of the wrong type."""
        if invalid := [key for key in values if not isinstance(key, str)]:
            raise ValueError(f"the key {invalid[0]!r} is not a string")
        try:
            return self.convert(json.decode(json.encode(dict(values))))
        except (msgspec.MsgspecError, TypeError) as error:
            for key, value in values.items():
                with suppress(msgspec.MsgspecError, TypeError):
                    self.convert({key: json.decode(json.encode(value))})
                    continue
                problem = locate_decode_error(error, None)  # its path is that among all values
                raise ValueError(f"{key!r} has the value {safe_repr(value)}: {problem.message}") from error
            raise ValueError(str(error)) from error

    def convert(self, values: Mapping[str, object]) -> dict[str, V]:
        """Return recorded values as they are declared."""
        kind: type[dict[str, V]] = dict[str, self.kind]  # type: ignore[name-defined]  # known at run time only
        return msgspec.convert(values, kind)

    # -- filled by the engine, between two cycles ------------------------------------------------------------------

    def _apply(self, at: float, values: Mapping[str, V], removed: tuple[str, ...] = ()) -> SourceChange[V]:
        """Apply data received at that time."""
        old = {key: self._values[key] for key in (*values, *removed) if key in self._values}
        self._values.update(values)
        for key in removed:
            self._values.pop(key, None)
        self.updated_at, self.error, self._stale = at, "", False
        self.updates += 1
        return SourceChange(values, removed, old)

    def _record_failure(self, error: str) -> None:
        self.error = error
        self.failures += 1

    @property
    def state(self) -> tuple[int, int, bool]:
        """A value that changes whenever the source does."""
        return self.updates, self.failures, self.fresh

    def _expire(self) -> None:
        self._stale = True

    def copy_from(self, other: Source[V]) -> None:
        """Copy the content of another source with the same key."""
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

    __hash__ = object.__hash__  # compared by identity, regardless of content

    def __eq__(self, other: object) -> bool:
        return self is other

    def __repr__(self) -> str:
        state = "" if self.fresh else " absent" if self.updated_at is None else " stale"
        return f"<Source {self.key}: {len(self)} values{state}{', ' + self.error if self.error else ''}>"
