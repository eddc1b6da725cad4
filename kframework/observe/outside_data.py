"""What the sources of plugins have told, for those who look on: how much, when, and what went wrong since."""

from __future__ import annotations

import msgspec

from kframework.core.runtime.profile import Profile


class OutsideData(msgspec.Struct, frozen=True):
    """One source of a plugin: `values` are counted, `age` is in seconds (None: it has told nothing yet).

    `fresh`: the plugin goes by it; if not, `when_stale` says what becomes of pods. `error` is what went wrong since.
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


def outside_data(profile: Profile, now: float) -> tuple[OutsideData, ...]:
    """Show what the plugins of a profile go by beside the cluster."""
    return tuple(
        OutsideData(
            plugin,
            source.name,
            source.settings.by,
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
