"""The sources of all plugins of an engine: filled by messages, and stale without new ones."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from kframework.core.runtime.profile import Profile
from kframework.core.runtime.profiles import Profiles
from kframework.framework.source import Source, SourceChange
from kframework.state.inbox import SourceChanged, SourceFailed


class SourceUpdate(msgspec.Struct, frozen=True):
    """An update of a source: a change of its data, or None if it became fresh again or stale."""

    source: Source[object]
    change: SourceChange[object] | None = None


class Sources:
    """The sources declared by the plugins of these profiles."""

    def __init__(self, profiles: Profiles) -> None:
        self._by_key: dict[str, Source[object]] = {}
        self.follow(profiles)

    def follow(self, profiles: Profiles) -> None:
        """Hold the sources of these profiles instead; those that are there already keep their data."""
        self._by_key = {source.key: source for source in profiles.sources()}

    def __iter__(self) -> Iterator[Source[object]]:
        return iter(self._by_key.values())

    def apply(self, message: SourceChanged | SourceFailed) -> SourceUpdate | None:
        """Apply a source message; return None if no plugin here is affected."""
        source = self._by_key.get(message.source)
        if source is None:
            return None
        if isinstance(message, SourceFailed):
            old_error, is_visible = source.error, not source.fresh and source.settings.when_stale != "ignore"
            source._record_failure(message.error)
            # The rejection message of pods contains the error.
            return SourceUpdate(source) if is_visible and source.error != old_error else None
        was_fresh = source.fresh
        change = source._apply(message.at, source.convert(message.values), message.gone)
        if not was_fresh:
            return SourceUpdate(source)
        return SourceUpdate(source, change) if change.values or change.removed else None

    def copy_from(self, others: Sources) -> Iterator[SourceUpdate]:
        """Copy the state of sources with the same keys from `others`, and yield those that changed."""
        for source in self:
            other = others._by_key.get(source.key)
            if other is not None and other.state != source.state:
                source.copy_from(other)
                yield SourceUpdate(source)

    @property
    def deadline(self) -> float | None:
        """The time when the next source becomes stale, in seconds since 1970."""
        return min((at for source in self if (at := source.stale_at) is not None), default=None)

    def __bool__(self) -> bool:
        return bool(self._by_key)

    def expire(self, now: float) -> Iterator[SourceUpdate]:
        """Mark sources without a recent update as stale, and yield them."""
        for source in self:
            if source.stale_at is not None and source.stale_at <= now:
                source._expire()
                yield SourceUpdate(source)


class SourceStatus(msgspec.Struct, frozen=True, rename="camel"):
    """One source of a plugin: `values` is a count, `age` is in seconds (None before the first data).

    `fresh`: the plugin uses it; if not, `when_stale` decides what happens to pods. `error` is the latest failure since.
    """

    plugin: str
    source: str
    by: str
    values: int
    age: float | None
    stale_after: float | None
    fresh: bool
    when_stale: str
    error: str = ""


def source_status(profile: Profile, now: float) -> tuple[SourceStatus, ...]:
    """Describe the sources that the plugins of a profile use."""
    return tuple(
        SourceStatus(
            plugin,
            source.name,
            source.settings.keyed_by,
            len(source),
            None if source.updated_at is None else max(now - source.updated_at, 0.0),
            # JSON has no number for "never".
            source.settings.stale_after if source.settings.stale_after < float("inf") else None,
            source.fresh,
            source.settings.when_stale,
            source.error,
        )
        for plugin, sources in profile.sources.items()
        for source in sources
    )
