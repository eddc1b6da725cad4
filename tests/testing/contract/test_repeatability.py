"""A plugin that a new instance, or a replay, would not repeat is found."""

from __future__ import annotations

import random
from typing import ClassVar

import pytest

from kframework import Plugin, hookimpl, unschedulable
from kframework.testing import ContractViolation
from kframework.testing.contract.probe import PluginUnderTest
from kframework.testing.contract.promises import PROMISES

# mypy: disable-error-code="no-untyped-def, no-untyped-call"


class Odd(Plugin):
    name = "Odd"

    @hookimpl
    def filter(self, state, pod, node):
        return unschedulable("an even number of pods") if len(node.pods) % 2 == 0 else None


class Remembers(Odd):
    """Knows a node as it first met it."""

    def __init__(self, args, handle):
        super().__init__(args, handle)
        self.met = {}

    @hookimpl
    def filter(self, state, pod, node):
        return None if self.met.setdefault(node.name, len(node.pods)) % 2 else unschedulable("an even number of pods")


class Shares(Odd):
    """Keeps in the class what `close` takes away from everybody."""

    open = True

    @hookimpl
    def filter(self, state, pod, node):
        return None if type(self).open else unschedulable("closed")

    async def close(self):
        type(self).open = False


class ClosesBadly(Odd):
    async def close(self):
        raise OSError("it was never open")


class StartsFirst(ClosesBadly):
    async def start(self):
        raise AssertionError("what it does outside is nothing for this check")


class Counts(Odd):
    """Goes on counting where another instance ended."""

    called: ClassVar[list[object]] = []

    @hookimpl
    def pre_filter(self, state, pod, nodes):
        self.called.append(pod)
        return unschedulable("not now") if len(self.called) % 7 in (0, 1) else None


class Chances(Odd):
    @hookimpl
    def filter(self, state, pod, node):
        return unschedulable("no luck") if random.random() < 0.5 else None


RELOAD, REPLAY = "test_new_instance_answers_alike", "test_replay_decides_alike"


@pytest.mark.parametrize("test", [RELOAD, REPLAY])
@pytest.mark.parametrize("plugin", [Odd, StartsFirst])
def test_plugin_without_state_of_its_own_passes(plugin: type[Plugin], test: str) -> None:
    PROMISES[test].check(PluginUnderTest(plugin=plugin, examples=4))


@pytest.mark.parametrize(
    ("plugin", "test", "call", "result", "remedy"),
    [
        (Remembers, RELOAD, "a new instance: all hooks of pod", ", not ", "base answers on the handle"),
        (Shares, RELOAD, "after the old one is closed: all hooks of pod", "closed", "a class attribute is shared"),
        (ClosesBadly, RELOAD, "close", "raises OSError: it was never open", "release what `start` took"),
        (Counts, REPLAY, "in a replay", "got", "keep nothing in the class"),
        (Chances, REPLAY, "in a replay", "attempt", "chance from handle.random"),
    ],
)
def test_plugin_with_hidden_state_is_reported(
    plugin: type[Plugin], test: str, call: str, result: str, remedy: str
) -> None:
    with pytest.raises(ContractViolation) as caught:
        PROMISES[test].check(PluginUnderTest(plugin=plugin))
    assert call in caught.value.call
    assert result in caught.value.result
    assert remedy in caught.value.remedy


async def test_contract_is_checked_inside_a_running_loop() -> None:
    with pytest.raises(ContractViolation):
        PROMISES[RELOAD].check(PluginUnderTest(plugin=ClosesBadly, examples=1))
