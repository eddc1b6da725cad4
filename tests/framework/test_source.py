"""A source reads like a mapping, says how old it is, and takes in only what a recording gives back."""

from __future__ import annotations

import math
import re
from collections import ChainMap
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import msgspec
import pytest

from kframework import Source, SourceChange
from kframework.framework.source import KeyedBy, SourceSettings
from kframework.state.pod_templates import TemplateInterner
from kframework.state.pods import PendingPod
from kframework.testing import make_pod

WEB = PendingPod(make_pod("web"), TemplateInterner())


class Quota(msgspec.Struct, frozen=True):
    cpu: float
    owner: str = ""


async def nothing() -> dict[str, Any]:
    return {}


def source(kind: type[Any] = float, keyed_by: KeyedBy = "key", **options: Any) -> Source[Any]:
    return Source("default-scheduler/Load/load", kind, nothing, SourceSettings(keyed_by, stale_after=60), **options)


def test_source_is_a_mapping_that_changes_by_updates() -> None:
    load = source()
    assert (dict(load), load.fresh, load.updated_at, load.stale_at) == ({}, False, None, None)
    load._apply(100.0, {"a": 0.5, "b": 0.7})
    change = load._apply(110.0, {"a": 0.6, "c": 1.0}, ("b", "never"))
    assert dict(load) == {"a": 0.6, "c": 1.0}
    assert change == SourceChange({"a": 0.6, "c": 1.0}, ("b", "never"), {"a": 0.5, "b": 0.7})
    assert (load.fresh, load.updated_at, load.stale_at, load.updates) == (True, 110.0, 170.0, 2)


def test_source_is_stale_until_the_next_update() -> None:
    load = source()
    load._apply(0.0, {"a": 1.0})
    load._record_failure("no route")
    assert (load.fresh, load.error, load.failures) == (True, "no route", 1)
    load._expire()
    assert (load.fresh, load.stale_at, dict(load)) == (False, None, {"a": 1.0})
    assert repr(load) == "<Source default-scheduler/Load/load: 1 values stale, no route>"
    load._apply(1.0, {})
    assert (load.fresh, load.error) == (True, "")


def test_sources_are_compared_by_identity() -> None:
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
def test_values_are_converted_to_the_declared_type(
    kind: type[Any], told: Mapping[str, Any], held: dict[str, Any]
) -> None:
    assert source(kind).validate(told) == held


@pytest.mark.parametrize(
    ("kind", "told", "complaint"),
    [
        (float, {"a": 1.0, "b": "much"}, "'b' has the value 'much': expected a number, got a string"),
        (float, {"a": math.nan}, "'a' has the value nan: expected a number, got null"),
        (
            Quota,
            {"a": Quota(1.0), "c": {"cpu": None}},
            r"'c' has the value {'cpu': None}: expected a number, got null",
        ),
        (float, {"a": object()}, "'a' has the value <object"),
        (float, {"a": 1.0, 1: 1.0}, "the key 1 is not a string"),
    ],
)
def test_values_that_cannot_be_recorded_are_rejected(kind: type[Any], told: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        source(kind).validate(told)


@pytest.mark.parametrize(
    ("keyed_by", "change", "wakes"),
    [
        ("key", SourceChange({"other": 1.0}), True),
        ("node", SourceChange({"a": 1.0}), True),
        ("pod", SourceChange({"default/other": 1.0}), False),
        ("pod", SourceChange({"default/web": 1.0}), True),
        ("pod", SourceChange(removed=("default/web",)), True),
        ("pod", None, True),
    ],
)
def test_change_requeues_pods_by_key(keyed_by: KeyedBy, change: SourceChange[float] | None, wakes: bool) -> None:
    assert source(keyed_by=keyed_by).wakes_pod(WEB, change) is wakes


def test_wakes_pod_is_called_for_changes_but_not_for_freshness() -> None:
    asked = []

    def helps(pod: PendingPod, change: SourceChange[float]) -> bool:
        asked.append((pod.name, change))
        return change.values["a"] < change.old["a"]

    load = source(wakes_pod=helps)
    load._apply(0.0, {"a": 1.0})
    assert [load.wakes_pod(WEB, load._apply(1.0, {"a": value})) for value in (2.0, 1.5)] == [False, True]
    assert load.wakes_pod(WEB, None)
    assert len(asked) == 2


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"every": 0}, "every must be greater than 0 s, not 0"),
        ({"every": -15}, "every must be greater than 0 s, not -15"),
        ({"every": math.nan}, "every must be greater than 0 s, not nan"),
        ({"every": math.inf, "stale_after": math.inf}, "every and retry must be finite"),
        ({"every": "15s"}, "every is '15s': use a number"),
        ({"retry": -1.0}, "retry must be greater than 0 s, not -1"),
        ({"retry": math.nan}, "retry must be greater than 0 s, not nan"),
        ({"retry": math.inf}, "every and retry must be finite"),
        ({"timeout": 0.0}, "timeout must be greater than 0 s, not 0"),
        ({"timeout": math.nan}, "timeout must be greater than 0 s, not nan"),
        ({"jitter": math.nan}, "jitter must be a fraction of `every`, at least 0 and less than 1, not nan"),
        ({"stale_after": math.nan}, "data would be stale before the next fetch: stale_after=nan, every=15"),
        ({"stale_after": 0}, "data would be stale before the next fetch: stale_after=0, every=15"),
        ({"keyed_by": "zone"}, "keyed_by is 'zone': use one of node, pod, key"),
        ({"when_stale": "skip"}, "when_stale is 'skip': use one of reject, ignore, gate"),
        ({"jitter": 1.0}, "jitter must be a fraction of `every`, at least 0 and less than 1, not 1"),
        ({"every": 60.0}, "data would be stale before the next fetch: stale_after=60, every=60"),
    ],
)
def test_invalid_source_settings_raise_value_error(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(problem)}$"):
        SourceSettings(**options).validate()


@pytest.mark.parametrize("options", [{"every": 60.0, "stale_after": math.inf}, {}])
def test_valid_source_settings_pass_validation(options: dict[str, Any]) -> None:
    SourceSettings(**options).validate()
