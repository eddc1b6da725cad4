"""The questions come by everything that a plugin can answer."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from kframework import Plugin
from kframework.core.runtime.hooks import marked_hooks
from kframework.plugins.node_resources_fit.plugin import INSUFFICIENT
from kframework.testing import Coverage
from kframework.testing.contract.probe import PluginProbe, PluginUnderTest, run_check
from kframework.testing.contract.promises import CacheCheck, check_columnar_forms, check_score_range
from tests.contract.case import World
from tests.contract.cases import CASES
from tests.contract.line_coverage import LineCoverage
from tests.contract.plugins import ASKED, holding, placing
from tests.support import scale
from tests.support.scale import sampled

#: So many clusters for each plugin and world.
EXAMPLES = max(scale.EXAMPLES // 3, 1)
#: What the questions come by at least so often counts as covered.
LEAST = 5

PLACING = placing()

every_plugin = pytest.mark.parametrize("name", PLACING)


def check(name: str, world: World, examples: int, seed: int = 0) -> Coverage:
    """Ask about answers, by all promises that are about them."""
    cache_check = CacheCheck()

    def run_checks(probe: PluginProbe) -> None:
        check_columnar_forms(probe)
        check_score_range(probe)
        cache_check(probe)

    subject = PluginUnderTest(
        plugin=PLACING[name],
        args=world.args,
        nodes=world.nodes,
        pods=world.pods,
        objects=world.objects,
        sources=world.sources,
        minors=world.minors,
        feature_gates=world.feature_gates,
        examples=CASES[name].times * examples,
        seed=seed,
    )
    return run_check(subject, run_checks, in_what_if=cache_check.check_cached)


def measure_coverage(name: str) -> Coverage:
    """Check a plugin in all its worlds, and add up what was come by."""
    total = Coverage()
    for world in CASES[name].worlds:
        check_at_random(name, world, total)
    return total


def check_at_random(name: str, world: World, total: Coverage) -> None:
    @settings(max_examples=EXAMPLES, derandomize=True, database=None, phases=[Phase.generate])
    @given(seed=st.integers(0, 2**32))
    def run(seed: int) -> None:
        coverage = check(name, world, examples=1, seed=seed)
        total.reasons.update(coverage.reasons)
        total.codes.update(coverage.codes)
        total.scores.update(coverage.scores)
        total.passes += coverage.passes

    run()


def test_every_plugin_has_a_case() -> None:
    assert CASES.keys() == PLACING.keys() | holding().keys(), "add it to a module beside this one, and to `cases`"


@pytest.mark.slow
@pytest.mark.parametrize("name", sampled(PLACING))
def test_every_answer_of_a_plugin_is_covered(name: str) -> None:
    coverage, case = measure_coverage(name), CASES[name]
    assert coverage.reasons.keys() == case.reasons
    assert min(coverage.reasons.values(), default=LEAST) >= LEAST, coverage.reasons
    assert coverage.codes.keys() == (case.codes if case.reasons else set())
    assert min(coverage.codes.values(), default=LEAST) >= LEAST
    asks_nodes = bool(marked_hooks(PLACING[name]).keys() & {"filter", "filter_nodes"} - case.unasked)
    assert (coverage.passes >= LEAST) is asks_nodes
    assert {score for score in case.scores if coverage.scores[score] >= LEAST} == case.scores
    assert bool(coverage.scores) is bool(case.scores)


def test_ignored_resources_cause_no_rejection() -> None:
    case = CASES["NodeResourcesFit"]
    coverage = check("NodeResourcesFit", case.worlds[-1], EXAMPLES)
    ignored = {INSUFFICIENT.format(resource) for resource in ("example.com/gpu", "other.example.com/fpga")}
    assert coverage.reasons.keys() == case.reasons - ignored


def answers_missed(lines: LineCoverage) -> set[str]:
    """Return the lines that were missed, but for the rules of Args, which config/test_args.py breaks one by one."""
    return {line for line in lines.missed(LEAST) if not re.match(r"\w+Args\.\w*problems: ", line)}


def files_of(plugin: type[Plugin]) -> set[str]:
    """Return the files of the plugin's class and of those that it is derived from, Plugin excluded."""
    return {inspect.getfile(each) for each in plugin.__mro__ if issubclass(each, Plugin) and each is not Plugin}


@pytest.mark.long
@every_plugin
def test_every_line_of_a_hook_is_covered(name: str) -> None:
    """Without the lines of what only events ask, which are not entered at all."""
    plugin, case = PLACING[name], CASES[name]
    with LineCoverage(files_of(plugin)) as lines:
        for world in case.worlds:
            check(name, world, examples=LEAST)
    assert answers_missed(lines) <= case.unreached
    assert {hook for hook in ASKED if _code(plugin, hook) not in {*lines.entered, None}} == case.unasked


@every_plugin
def test_excepted_lines_exist(name: str) -> None:
    lines = {line.strip() for file in files_of(PLACING[name]) for line in Path(file).read_text().splitlines()}
    assert {line.partition(": ")[2] for line in CASES[name].unreached} <= lines


def _code(plugin: type[Plugin], hook: str) -> object:
    return getattr(plugin, hook).__code__ if hook in marked_hooks(plugin) else None


def test_uncovered_lines_are_reported() -> None:
    def often(number: int) -> str:
        if number:
            return "never"
        return "always"

    with LineCoverage([__file__]) as lines:
        for _ in range(LEAST):
            often(0)
    assert [line.split(".")[-1] for line in lines.missed(LEAST)] == ['often: return "never"']
