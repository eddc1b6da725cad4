"""The profiles with their plugins, and where the time of the last attempts went."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from kframework.core.cycle.decision import Binding, Decision
from kframework.core.runtime.profile import Profile
from kframework.core.runtime.profiles import Profiles
from kframework.core.runtime.timing import PointTiming
from kframework.observe.history import History

#: So many attempts are looked at.
COUNTED = 1_000

#: What an attempt and its binding cycle are timed by, in the order in which they come by it.
_ORDER = (
    "pre_enqueue", "queue_sort", "sign", "pre_filter", "filter", "extender_filter", "post_filter", "extender_preempt",
    "pre_score", "score", "normalize_score", "extender_prioritize", "assume", "reserve", "permit", "wait_on_permit",
    "pre_bind_pre_flight", "pre_bind", "bind", "post_bind", "unreserve",
)  # fmt: skip  # one name a line would hide the order


class Time(msgspec.Struct, frozen=True):
    """How often something was timed, and how long it took all in all, in nanoseconds."""

    what: str
    times: int
    total: int


class PluginPart(msgspec.Struct, frozen=True):
    """A plugin: whose it is, at which points it stands (and in which place there, from 1), and what it took there."""

    name: str
    distribution: str
    weight: int | None
    places: dict[str, int]
    times: list[Time]


class ProfilePart(msgspec.Struct, frozen=True):
    """A profile: its plugins, and how long the extension points took over `attempts` attempts.

    Plugins are timed in some of the attempts only, or not at all.
    """

    name: str
    attempts: int
    points: list[Time]
    plugins: list[PluginPart]


class _Ledger:
    """Adds up times under their names, in the order of their first entry."""

    def __init__(self) -> None:
        self._entries: dict[tuple[str, ...], list[int]] = {}

    def add(self, nanoseconds: int, *name: str) -> None:
        entry = self._entries.setdefault(name, [0, 0])
        entry[0] += 1
        entry[1] += nanoseconds

    def under(self, *prefix: str) -> Iterator[Time]:
        for name, (times, total) in self._entries.items():
            if name[:-1] == prefix:
                yield Time(name[-1], times, total)


def profile_parts(profiles: Profiles, history: History, *, counted: int = COUNTED) -> list[ProfilePart]:
    """Show the profiles, and where the time of so many of the last attempts went."""
    decisions = history.recent(counted)
    return [
        _part(profile, [decision for decision in decisions if decision.profile == name], history)
        for name, profile in profiles.items()
    ]


def _part(profile: Profile, decisions: Sequence[Decision], history: History) -> ProfilePart:
    points, plugins = _Ledger(), _Ledger()
    for record, steps in _records(decisions, history):
        for point, nanoseconds, _ in steps:
            points.add(nanoseconds, point)
        for point, plugin, nanoseconds, _ in record.plugins:
            plugins.add(nanoseconds, plugin, point)
    weights = {step.name: step.weight for step in profile.scores}
    return ProfilePart(
        profile.name,
        len(decisions),
        sorted(points.under(), key=lambda time: _place(time.what)),
        [
            PluginPart(
                name,
                profile.distributions.get(name) or "",
                weights.get(name),
                {point: names.index(name) + 1 for point, names in profile.points.items() if name in names},
                sorted(plugins.under(name), key=lambda time: _place(time.what)),
            )
            for name in profile.plugins
        ],
    )


def _records(
    decisions: Iterable[Decision], history: History
) -> Iterator[tuple[Decision | Binding, Iterable[PointTiming]]]:
    for decision in decisions:
        yield decision, decision.timings
        binding = history.binding(decision)
        if binding is not None:
            yield binding, binding.steps


def _place(point: str) -> int:
    return _ORDER.index(point) if point in _ORDER else len(_ORDER)
