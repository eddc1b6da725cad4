"""The profiles: the plugins of each point, and the time that the last attempts took."""

from __future__ import annotations

from kframework.core.runtime.profiles import Profiles
from kframework.observe.history import History
from kframework.observe.web.profiles import PluginView, PointTime, ProfileView, profile_views
from kframework.values.status import Code
from tests.extension_points.scripted import plugin, profile
from tests.observe.web.records import binding, decision, history

OK = Code.SUCCESS
PROFILES = Profiles(
    {
        "default-scheduler": profile(
            plugin("Fit", filter=None, score=0), plugin("Tint", filter=None, permit=None), weights={"Fit": 3}
        )
    }
)


def part(past: History, **options: int) -> ProfileView:
    (found,) = profile_views(PROFILES, past, 0.0, **options)
    return found


def named(found: ProfileView, name: str) -> PluginView:
    (plugin,) = (each for each in found.plugins if each.name == name)
    return plugin


def test_plugin_view_has_distribution_and_positions() -> None:
    found = part(history())
    assert named(found, "Fit") == PluginView("Fit", "acme 1.0", 3, {"filter": 1, "score": 1}, [])
    assert named(found, "Tint") == PluginView("Tint", "acme 1.0", None, {"filter": 2, "permit": 1}, [])
    assert [each.name for each in found.plugins] == ["Sort", "Fit", "Tint", "Binder"]


def test_point_times_are_summed_in_point_order() -> None:
    past = history(
        decision(1, "a", timings=(("score", 5, OK), ("filter", 7, OK))),
        binding(1, "a", steps=(("bind", 100, OK),)),
        decision(2, "b", timings=(("filter", 3, OK),)),
    )
    assert part(past).points == [PointTime("filter", 2, 10), PointTime("score", 1, 5), PointTime("bind", 1, 100)]
    assert part(past).attempts == 2


def test_plugin_times_cover_timed_attempts_only() -> None:
    past = history(
        decision(1, "a", plugins=(("filter", "Fit", 4, OK), ("filter", "Tint", 1, OK))),
        binding(1, "a", plugins=(("permit", "Tint", 2, OK),)),
        decision(2, "b", plugins=(("filter", "Fit", 6, OK),)),
        decision(3, "c"),
    )
    assert named(part(past), "Fit").times == [PointTime("filter", 2, 10)]
    assert named(part(past), "Tint").times == [PointTime("filter", 1, 1), PointTime("permit", 1, 2)]


def test_attempts_that_were_not_timed_do_not_count() -> None:
    past = history(decision(1, "a"), decision(2, "b"), binding(2, "b", steps=(("bind", 100, OK),)))
    assert part(past).attempts == 1


def test_attempts_by_another_profile_do_not_count() -> None:
    assert part(history(decision(profile="other", timings=(("filter", 1, OK),)))).attempts == 0


def test_only_the_last_attempts_are_counted() -> None:
    past = history(*(decision(number, timings=(("filter", number, OK),)) for number in (1, 2, 3)))
    assert part(past, counted=2).points == [PointTime("filter", 2, 5)]
