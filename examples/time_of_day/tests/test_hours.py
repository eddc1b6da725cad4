"""TimeOfDay: who waits, until when, and what the clocks of people do to it. Virtual time begins at midnight, UTC."""

from __future__ import annotations

from datetime import datetime

import pytest
from time_of_day import RUN, TimeOfDay, TimeOfDayArgs

from kframework import ConfigError
from kframework.testing import (
    PluginContract,
    Scenario,
    ScenarioResult,
    create,
    make_node,
    make_pod,
    patch,
    pending_pod,
    stub_handle,
)

HOUR = 3600.0
BATCH = make_pod("batch", labels={RUN: "off-peak"})
EARLY = {"from": "04:00", "to": "06:00"}


def scenario(args: dict[str, str]) -> Scenario:
    pods = [make_pod("web"), BATCH]
    return Scenario(nodes=[make_node("node")], pods=pods, plugins=[TimeOfDay], args={"TimeOfDay": args})


def tried_after(result: ScenarioResult, pod: str) -> list[float]:
    """Return when a pod was tried, in hours since midnight."""
    midnight = result.decisions_on("web")[0].popped_at
    return [round((decision.popped_at - midnight) / HOUR, 3) for decision in result.decisions_on(pod)]


def test_off_peak_pod_is_gated_without_an_attempt() -> None:
    result = scenario(EARLY).run(until=5 * HOUR)
    assert result.node_of("batch") == "node"
    assert tried_after(result, "batch") == [4]
    assert result.decisions_on("batch")[0].requeued_by == "TimeOfDay/hours"


@pytest.mark.slow
def test_off_peak_pod_is_gated_again_after_the_hours() -> None:
    late = make_pod("late", labels={RUN: "off-peak"})
    result = scenario(EARLY).at(7 * HOUR, create(late)).run(until=30 * HOUR)
    assert tried_after(result, "late") == [28]


def test_no_pod_is_gated_off_peak() -> None:
    assert tried_after(scenario({}).run(), "batch") == [0]


def test_hours_are_in_the_configured_time_zone() -> None:
    result = scenario({"timeZone": "America/New_York"}).run(until=2 * HOUR)
    assert tried_after(result, "batch") == [1]


def test_pod_without_label_is_not_gated() -> None:
    hurried = patch(BATCH, {"metadata": {"labels": {RUN: None}}})
    assert tried_after(scenario(EARLY).at(HOUR, hurried).run(until=2 * HOUR), "batch") == [1]


def test_gated_pod_has_a_message() -> None:
    held = TimeOfDay(TimeOfDayArgs(), stub_handle()).pre_enqueue(pending_pod(BATCH))
    assert held is not None and held.message == "waits for the hours from 20:00 to 06:00 (UTC)"


@pytest.mark.parametrize(
    ("day", "start", "end", "hours"),
    [
        ("2026-03-28", "20:00", "06:00", 9),  # the clocks are put forward at 2
        ("2026-10-24", "20:00", "06:00", 11),  # and back at 3
        ("2026-03-29", "02:30", "03:30", 0),  # begins at an hour that is left out
        ("2026-06-01", "08:00", "20:00", 12),
    ],
)
def test_hours_follow_daylight_saving_time(day: str, start: str, end: str, hours: int) -> None:
    args = TimeOfDayArgs.model_validate({"from": start, "to": end, "timeZone": "Europe/Berlin"})
    noon = datetime.fromisoformat(f"{day}T12:00+00:00").timestamp()
    _, (begins, ends), _ = args.spans(noon)
    assert (ends - begins) / HOUR == hours


@pytest.mark.parametrize(
    ("args", "complaint"),
    [
        ({"from": "24:00"}, "from"),
        ({"from": 1200}, "from"),
        ({"from": "06:00"}, "never be off-peak"),
        ({"timeZone": "Europe/Nowhere"}, "timeZone"),
    ],
)
def test_invalid_args_are_rejected(args: dict[str, str], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        scenario(args).run()


class TestContract(PluginContract):
    plugin = TimeOfDay
    pods = [BATCH]
    sources = {"hours": {"off-peak": False}}
