"""The profiles with their plugins, and where the time of the last attempts went."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from kframework.core.cycle.records import Binding, Decision
from kframework.core.runtime.profile import Profile
from kframework.core.runtime.profiles import Profiles
from kframework.core.runtime.timing import PointTiming
from kframework.core.sources import SourceStatus, source_status
from kframework.observe.history import History

#: The number of attempts that are evaluated.
COUNTED = 1_000

#: The timed points of an attempt and its binding cycle, in the order in which they run.
_ORDER = (
    "pre_enqueue", "queue_sort", "sign", "pre_filter", "filter", "extender_filter", "post_filter", "extender_preempt",
    "pre_score", "score", "normalize_score", "extender_prioritize", "assume", "reserve", "permit", "wait_on_permit",
    "pre_bind_pre_flight", "pre_bind", "bind", "post_bind", "unreserve",
)  # fmt: skip  # one name a line would hide the order

#: The nanoseconds that were spent, by point.
_Ledger = defaultdict[str, list[int]]


class Time(msgspec.Struct, frozen=True):
    """The number of times that something was timed, and its total in nanoseconds."""

    what: str
    times: int
    total: int


class PluginPart(msgspec.Struct, frozen=True):
    """A plugin: its distribution, its points (and its place at each, from 1), and its time at each."""

    name: str
    distribution: str
    weight: int | None
    places: dict[str, int]
    times: list[Time]


class ProfilePart(msgspec.Struct, frozen=True):
    """A profile: its plugins, and how long the extension points took over `attempts` attempts that were timed.

    Plugins are timed in some of the attempts only, or not at all. `outside` is their data from outside the cluster.
    """

    name: str
    attempts: int
    points: list[Time]
    plugins: list[PluginPart]
    outside: tuple[SourceStatus, ...] = ()


def profile_parts(profiles: Profiles, history: History, now: float, *, counted: int = COUNTED) -> list[ProfilePart]:
    """Return the profiles, and where the time of the last `counted` attempts went."""
    decisions = history.recent(counted)
    return [
        _part(profile, [decision for decision in decisions if decision.profile == name], history, now)
        for name, profile in profiles.items()
    ]


def _part(profile: Profile, decisions: Sequence[Decision], history: History, now: float) -> ProfilePart:
    points: _Ledger = defaultdict(list)
    plugins: defaultdict[str, _Ledger] = defaultdict(lambda: defaultdict(list))
    timed = set()
    for record, steps in _records(decisions, history):
        if steps:
            timed.add(record.attempt)
        for point, nanoseconds, _ in steps:
            points[point].append(nanoseconds)
        for point, plugin, nanoseconds, _ in record.plugins:
            plugins[plugin][point].append(nanoseconds)
    weights = {step.name: step.weight for step in profile.scores}
    return ProfilePart(
        profile.name,
        len(timed),
        _times(points),
        [
            PluginPart(
                name,
                profile.distributions.get(name) or "",
                weights.get(name),
                {point: names.index(name) + 1 for point, names in profile.points.items() if name in names},
                _times(plugins[name]),
            )
            for name in profile.plugins
        ],
        source_status(profile, now),
    )


def _times(ledger: _Ledger) -> list[Time]:
    times = [Time(point, len(took), sum(took)) for point, took in ledger.items()]
    return sorted(times, key=lambda time: _ORDER.index(time.what) if time.what in _ORDER else len(_ORDER))


def _records(
    decisions: Iterable[Decision], history: History
) -> Iterator[tuple[Decision | Binding, Sequence[PointTiming]]]:
    for decision in decisions:
        yield decision, decision.timings
        binding = history.binding(decision)
        if binding is not None:
            yield binding, binding.steps
