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
COUNTED_ATTEMPTS = 1_000

#: The timed points of an attempt and its binding cycle, in the order in which they run.
_ORDER = (
    "pre_enqueue", "queue_sort", "sign", "pre_filter", "filter", "extender_filter", "post_filter", "extender_preempt",
    "pre_score", "score", "normalize_score", "extender_prioritize", "assume", "reserve", "permit", "wait_on_permit",
    "pre_bind_pre_flight", "pre_bind", "bind", "post_bind", "unreserve",
)  # fmt: skip  # one name a line would hide the order

#: The nanoseconds that were spent, by point.
_Spent = defaultdict[str, list[int]]


class PointTime(msgspec.Struct, frozen=True):
    """The number of timed calls of a point, and their total in nanoseconds."""

    point: str
    calls: int
    total: int


class PluginView(msgspec.Struct, frozen=True):
    """A plugin: its distribution, its points (and its position at each, from 1), and its time at each."""

    name: str
    distribution: str
    weight: int | None
    positions: dict[str, int]
    times: list[PointTime]


class ProfileView(msgspec.Struct, frozen=True):
    """A profile: its plugins, their sources, and the times of its points in `attempts` attempts that were timed."""

    name: str
    attempts: int
    points: list[PointTime]
    plugins: list[PluginView]
    sources: tuple[SourceStatus, ...] = ()


def profile_views(
    profiles: Profiles, history: History, now: float, *, counted: int = COUNTED_ATTEMPTS
) -> list[ProfileView]:
    decisions = history.recent(counted)
    return [
        _profile_view(profile, [decision for decision in decisions if decision.profile == name], history, now)
        for name, profile in profiles.items()
    ]


def _profile_view(profile: Profile, decisions: Sequence[Decision], history: History, now: float) -> ProfileView:
    points: _Spent = defaultdict(list)
    plugins: defaultdict[str, _Spent] = defaultdict(lambda: defaultdict(list))
    timed = set()
    for record, steps in _records(decisions, history):
        if steps:
            timed.add(record.attempt)
        for point, nanoseconds, _ in steps:
            points[point].append(nanoseconds)
        for point, plugin, nanoseconds, _ in record.plugins:
            plugins[plugin][point].append(nanoseconds)
    weights = {step.name: step.weight for step in profile.scores}
    return ProfileView(
        profile.name,
        len(timed),
        _times(points),
        [
            PluginView(
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


def _times(spent: _Spent) -> list[PointTime]:
    point_times = [PointTime(point, len(times), sum(times)) for point, times in spent.items()]
    return sorted(point_times, key=lambda time: _ORDER.index(time.point) if time.point in _ORDER else len(_ORDER))


def _records(
    decisions: Iterable[Decision], history: History
) -> Iterator[tuple[Decision | Binding, Sequence[PointTiming]]]:
    for decision in decisions:
        yield decision, decision.timings
        binding = history.binding_for(decision)
        if binding is not None:
            yield binding, binding.steps
