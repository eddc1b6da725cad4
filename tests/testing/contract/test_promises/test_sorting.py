"""Keys that have no order, or another one the next time, are found."""

from __future__ import annotations

import math
from itertools import count

import pytest

from kframework import Plugin, hookimpl
from kframework.framework.plugin import Plugin as Base
from kframework.plugins.priority_sort import PrioritySort
from kframework.testing import ContractViolation
from kframework.testing.contract.probe import PluginUnderTest
from kframework.testing.contract.promises import PROMISES

# mypy: disable-error-code="no-untyped-def, no-untyped-call"


class Sorts(Base):
    name = "Sorts"

    def key(self, queued):
        raise NotImplementedError

    @hookimpl
    def queue_sort(self, queued):
        return self.key(queued)


class ByChance(Sorts):
    numbers = count()

    def key(self, queued):
        return next(self.numbers)


class NotANumber(Sorts):
    def key(self, queued):
        return math.inf - math.inf if "app" in queued.pod.labels else 1.0


class OfTwoKinds(Sorts):
    def key(self, queued):
        return queued.pod.name if "app" in queued.pod.labels else 1


class Missing(Sorts):
    def key(self, queued):
        return None


class Subsets(Sorts):
    def key(self, queued):
        return frozenset(queued.pod.labels)


class Beats(int):
    """Rock, paper, scissors."""

    def __lt__(self, other):
        return (other - self) % 3 == 1

    __hash__ = int.__hash__


class Circular(Sorts):
    def key(self, queued):
        return Beats(queued.pod.name.split("-")[1])


@pytest.mark.parametrize(
    ("plugin", "result"),
    [
        (ByChance, "answers 0, then "),
        (NotANumber, "answers nan, then nan"),
        (OfTwoKinds, "do not compare: TypeError"),
        (Missing, "answers None, which is no key"),
        (Subsets, "have no order"),
        (Circular, "but the first is not below the last"),
    ],
)
def test_keys_without_an_order_are_reported(plugin: type[Plugin], result: str) -> None:
    with pytest.raises(ContractViolation) as caught:
        PROMISES["test_sort_keys_are_total_and_stable"].check(PluginUnderTest(plugin=plugin))
    assert result in caught.value.result
    assert caught.value.call.startswith("queue_sort of pod ")
    assert "numbers and text" in caught.value.remedy


def test_sound_keys_pass() -> None:
    PROMISES["test_sort_keys_are_total_and_stable"].check(PluginUnderTest(plugin=PrioritySort))
