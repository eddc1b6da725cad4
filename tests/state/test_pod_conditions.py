"""Conditions are found together that a pod meets one by one."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

import pytest

from kframework.objects.label_selectors import EVERYTHING, NOTHING, Requirement, Selector
from kframework.state import pod_conditions
from kframework.state.pod_conditions import PodConditions, SelectorColumns

KEYS, VALUES = "abc", "xyz"

Condition = tuple[Selector, frozenset[str], Selector]


def requirement(random: Random) -> Requirement:
    key, operator = random.choice(KEYS), random.choice(["=", "In", "NotIn", "Exists", "DoesNotExist"])
    count = {"=": 1, "In": 2, "NotIn": 2}.get(operator, 0)
    return Requirement(key, operator, tuple(random.choice(VALUES) for _ in range(count)))


def selector(random: Random) -> Selector:
    if random.random() < 0.2:
        return random.choice([NOTHING, EVERYTHING])
    return Selector(requirement(random) for _ in range(random.randint(1, 3)))


def condition(random: Random) -> Condition:
    namespaces = frozenset(name for name in "nm" if random.random() < 0.4)
    return selector(random), namespaces, NOTHING if random.random() < 0.5 else selector(random)


def labels(random: Random) -> Mapping[str, str]:
    return {key: random.choice(VALUES) for key in KEYS if random.random() < 0.6}


@pytest.mark.parametrize("seed", range(20))
def test_positions_are_those_of_the_conditions_that_are_met(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    random = Random(seed)
    monkeypatch.setattr(pod_conditions, "_MAX_NAMESPACES", 1)
    conditions, added = PodConditions(), list[Condition]()
    for _ in range(60):
        added.append(condition(random))
        conditions.add(*added[-1])
        namespace, namespace_labels, own = random.choice("nmo"), labels(random), labels(random)
        met = [
            position
            for position, (selector, namespaces, namespace_selector) in enumerate(added)
            if selector.matches(own) and (namespace in namespaces or namespace_selector.matches(namespace_labels))
        ]
        assert list(conditions.find(namespace, namespace_labels, own)) == met


def test_label_that_meets_two_requirements_of_a_selector_counts_for_both() -> None:
    columns = SelectorColumns()
    columns.add(Selector([Requirement("a", "In", ("x", "y")), Requirement("a", "In", ("x", "z"))]))
    assert [columns.match({"a": value}).tolist() for value in "xyz"] == [[True], [False], [False]]
