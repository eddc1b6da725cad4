"""The class has one test for each promise that its plugin makes."""

from __future__ import annotations

from typing import ClassVar

import pytest

from kframework import Plugin
from kframework.testing import PluginContract
from kframework.testing.contract.promises import PROMISES

MODULE = """
from kframework import Plugin, hookimpl
from kframework.testing import PluginContract, make_node


class Twice(Plugin):
    name = "Twice"

    @hookimpl
    def score(self, state, pod, node):
        return 101 if node.name == "given" else 1


class Few(PluginContract):
    nodes = [make_node("given")]
    examples = 1


class TestTwice(Few):
    plugin = Twice
"""


@pytest.mark.slow
def test_only_applicable_promises_are_collected(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(MODULE)
    result = pytester.runpytest_subprocess("-p", "no:randomly", "-v", "-rA")
    result.assert_outcomes(passed=3, failed=2)
    lines = [line for line in result.outlines if "::TestTwice::" in line and "%]" in line]
    assert [line.split("::")[2].split()[0] for line in lines] == [
        "test_cached_answers_stay_valid",
        "test_scores_are_in_range",
        "test_hooks_have_no_side_effects",
        "test_new_instance_answers_alike",
        "test_replay_decides_alike",
    ]
    result.stdout.fnmatch_lines(["*call:   score of pod *, node given", "*result: 101 does not lie in 0..100"])


def test_every_promise_has_a_test() -> None:
    assert [name for name in vars(PluginContract) if name.startswith("test_")] == list(PROMISES)


def test_contract_class_must_name_its_plugin() -> None:
    with pytest.raises(
        TypeError, match="TestUnnamed: `plugin` must be a plugin class, as in `plugin = Mine`, not None"
    ):
        type("TestUnnamed", (PluginContract,), {})
    with pytest.raises(TypeError, match="not 'Mine'"):
        type("TestWords", (PluginContract,), {"plugin": "Mine"})


def test_subclass_may_override_a_test() -> None:
    from kframework.plugins.image_locality import ImageLocality
    from kframework.plugins.priority_sort import PrioritySort

    class Ours(PluginContract):
        plugin: ClassVar[type[Plugin]] = PrioritySort

        def test_sort_keys_are_total_and_stable(self) -> None:
            """In our own way."""

    class Theirs(Ours):
        plugin: ClassVar[type[Plugin]] = ImageLocality

    class Again(Theirs):
        plugin = PrioritySort

    own = Ours.test_sort_keys_are_total_and_stable
    assert own is not PluginContract.test_sort_keys_are_total_and_stable
    assert Theirs.test_sort_keys_are_total_and_stable is None  # not collected
    assert Theirs.test_scores_are_in_range is PluginContract.test_scores_are_in_range
    assert Again.test_sort_keys_are_total_and_stable is own


SLOW = """
import time
from time import sleep

from kframework import Plugin, hookimpl
from kframework.testing import PluginContract


class Slow(Plugin):
    name = "Slow"

    @hookimpl
    def filter(self, state, pod, node):
        time.sleep(600)
        sleep(600)


class TestSlow(PluginContract):
    plugin = Slow
    examples = 1
"""


@pytest.mark.slow
def test_sleeping_hook_fails_one_test_and_slows_no_other(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(SLOW)
    result = pytester.runpytest_subprocess("-p", "no:randomly", "-q")
    result.assert_outcomes(passed=4, failed=1)
    result.stdout.fnmatch_lines(["*result: calls time.sleep, which blocks the scheduler"])


UNUSABLE = SLOW.replace("state, pod, node", "state, pod, nodes")


@pytest.mark.slow
def test_unloadable_plugin_is_reported_without_checker_frames(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(UNUSABLE)
    result = pytester.runpytest_subprocess("-p", "no:randomly", "-q", "-k", "side_effects")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["E *ConfigError: *hook filter: takes (state, pod, nodes) where the contract says (state, pod, node) (*.py:11)"]
    )
    assert sum(line.startswith(">") for line in result.outlines) == 1
