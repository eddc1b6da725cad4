"""A source reads like a mapping, says how old it is, and takes in only what a recording gives back."""

from __future__ import annotations

import math
from collections import ChainMap
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import msgspec
import pytest

from kframework import Source, SourceChange
from kframework.framework.source import By, SourceSettings
from kframework.state.pods import PendingPod, TemplateInterner
from kframework.testing import make_pod

WEB = PendingPod(make_pod("web"), TemplateInterner())


class Quota(msgspec.Struct, frozen=True):
    cpu: float
    owner: str = ""


async def nothing() -> dict[str, Any]:
    return {}


def source(kind: type[Any] = float, by: By = "key", **options: Any) -> Source[Any]:
    return Source("default-scheduler/Load/load", kind, nothing, SourceSettings(by, stale_after=60), **options)


def test_it_is_a_mapping_that_changes_by_updates() -> None:
    load = source()
    assert (dict(load), load.fresh, load.updated_at, load.stale_at) == ({}, False, None, None)
    load.update(100.0, {"a": 0.5, "b": 0.7})
    change = load.update(110.0, {"a": 0.6, "c": 1.0}, ("b", "never"))
    assert dict(load) == {"a": 0.6, "c": 1.0}
    assert change == SourceChange({"a": 0.6, "c": 1.0}, ("b", "never"), {"a": 0.5, "b": 0.7})
    assert (load.fresh, load.updated_at, load.stale_at, load.updates) == (True, 110.0, 170.0, 2)


def test_it_is_stale_until_it_is_heard_again() -> None:
    load = source()
    load.update(0.0, {"a": 1.0})
    load.fail("no route")
    assert (load.fresh, load.error, load.failures) == (True, "no route", 1)
    load.expire()
    assert (load.fresh, load.stale_at, dict(load)) == (False, None, {"a": 1.0})
    assert repr(load) == "<Source default-scheduler/Load/load: 1 values stale, no route>"
    load.update(1.0, {})
    assert (load.fresh, load.error) == (True, "")


def test_two_sources_are_two_whatever_they_hold() -> None:
    assert source() != source()
    assert len({source(), source()}) == 2


@pytest.mark.parametrize(
    ("kind", "told", "held"),
    [
        (float, {"a": 1}, {"a": 1.0}),
        (Quota, {"a": Quota(2.0, "me")}, {"a": Quota(2.0, "me")}),
        (Quota, {"a": {"cpu": 2}}, {"a": Quota(2.0)}),
        (tuple[str, ...], {"a": ["x", "y"]}, {"a": ("x", "y")}),
        (float, MappingProxyType({"a": 1.0}), {"a": 1.0}),
        (float, ChainMap({"a": 1.0}, {"b": 2.0}), {"a": 1.0, "b": 2.0}),
    ],
)
def test_values_are_taken_in_as_they_are_declared(
    kind: type[Any], told: Mapping[str, Any], held: dict[str, Any]
) -> None:
    assert source(kind).checked(told) == held


@pytest.mark.parametrize(
    ("kind", "told", "complaint"),
    [
        (float, {"a": 1.0, "b": "much"}, "'b' has the value 'much': Expected `float`, got `str`"),
        (float, {"a": math.nan}, "'a' has the value nan: Expected `float`, got `null`"),
        (
            Quota,
            {"a": Quota(1.0), "c": {"cpu": None}},
            r"'c' has the value {'cpu': None}: Expected `float`, got `null`",
        ),
        (float, {"a": object()}, "'a' has the value <object"),
        (float, {"a": 1.0, 1: 1.0}, "the key 1 is no string"),
    ],
)
def test_what_a_recording_would_not_give_back_is_refused(kind: type[Any], told: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        source(kind).checked(told)


@pytest.mark.parametrize(
    ("by", "change", "wakes"),
    [
        ("key", SourceChange({"other": 1.0}), True),
        ("node", SourceChange({"a": 1.0}), True),
        ("pod", SourceChange({"default/other": 1.0}), False),
        ("pod", SourceChange({"default/web": 1.0}), True),
        ("pod", SourceChange(gone=("default/web",)), True),
        ("pod", None, True),
    ],
)
def test_a_change_wakes_whom_it_may_help(by: By, change: SourceChange[float] | None, wakes: bool) -> None:
    assert source(by=by).wakes(WEB, change) is wakes


def test_a_hint_looks_at_the_change_but_is_not_asked_about_freshness() -> None:
    asked = []

    def helps(pod: PendingPod, change: SourceChange[float]) -> bool:
        asked.append((pod.name, change))
        return change.values["a"] < change.old["a"]

    load = source(wakes=helps)
    load.update(0.0, {"a": 1.0})
    assert [load.wakes(WEB, load.update(1.0, {"a": value})) for value in (2.0, 1.5)] == [False, True]
    assert load.wakes(WEB, None)
    assert len(asked) == 2


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"every": 0}, "every, retry and timeout must be more than 0 s"),
        ({"retry": -1.0}, "every, retry and timeout must be more than 0 s"),
        ({"timeout": 0.0}, "every, retry and timeout must be more than 0 s"),
        ({"jitter": 1.0}, "jitter is a part of `every`, from 0 to below 1, not 1"),
        ({"every": 60.0}, "it would be stale before it is fetched again: stale_after=60, every=60"),
        ({"every": 60.0, "stale_after": math.inf}, ""),
        ({}, ""),
    ],
)
def test_settings_that_make_no_sense_are_refused(options: dict[str, Any], complaint: str) -> None:
    assert SourceSettings(**options).complaint() == complaint
