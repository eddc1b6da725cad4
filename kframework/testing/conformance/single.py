"""Kinds `single` and `preemption`: one pod to be scheduled in a cluster, plugin by plugin and as a whole."""

from __future__ import annotations

import re
from collections.abc import Iterator, Set

from kframework.config.in_tree import known_in_tree
from kframework.core.runtime.registry import Registry
from kframework.errors import ConfigError
from kframework.framework.status import Status
from kframework.objects import Pod
from kframework.state.pods import PendingPod
from kframework.testing.conformance import post_filter
from kframework.testing.conformance.answers import Answers, compare_pre_enqueue
from kframework.testing.conformance.facts import Fact, Uncompared, beside, not_built
from kframework.testing.conformance.recorded import Recorded
from kframework.testing.conformance.recorded_cluster import PROFILE, RecordedCluster
from kframework.testing.conformance.whole_cycle import WholeCycle


class Given(RecordedCluster, frozen=True, kw_only=True):
    """A cluster and the pending pod."""

    pod: Pod


def compare(given: Given, recorded: Recorded, registry: Registry) -> Iterator[Fact | Uncompared]:
    """Compare a case, as far as the plugins that it is about exist."""
    try:
        engine = given.engine(registry)
    except ConfigError as error:
        yield Fact(("configError",), recorded.config_error or None, recorded.config_error or str(error))
        return
    if recorded.config_error:
        yield Fact(("configError",), recorded.config_error, None)
        return
    profile, nodes, built = engine.profiles[PROFILE], engine.cluster.nodes, frozenset(registry)
    pod = PendingPod(given.pod, engine.cluster.interned)
    yield from (not_built("answers", name) for name in sorted(recorded.plugins - built))
    yield from compare_pre_enqueue(recorded, profile, pod, built)
    if recorded.pre_enqueue:
        return
    yield from Answers(profile, pod, nodes, built).compare(recorded)
    yield from _compare_cycle(recorded, WholeCycle(engine, pod), built)


def _compare_cycle(recorded: Recorded, cycle: WholeCycle, built: Set[str]) -> Iterator[Fact | Uncompared]:
    yield from cycle.doubts()
    silenced = sorted((recorded.filter_voices | _named_in(recorded.error)) - built)
    if silenced:
        yield from (not_built("verdicts, totals and messages", name) for name in silenced)
        return
    if recorded.nodes or not recorded.error:
        yield from beside(recorded.nodes, cycle.verdicts, "nodes")
        yield Fact(("feasible",), list(recorded.feasible), cycle.feasible)
    yield Fact(("fitError",), recorded.fit_error, cycle.fit_error)
    yield Fact(("error",), bool(recorded.error), cycle.failed)
    if recorded.post_filter is not None:
        yield from post_filter.compare(recorded.post_filter, cycle, built)
    if recorded.feasible and not recorded.error:
        yield from _compare_totals(recorded, cycle, built)


def _compare_totals(recorded: Recorded, cycle: WholeCycle, built: Set[str]) -> Iterator[Fact | Uncompared]:
    silenced = sorted((recorded.score_voices | _named_in(recorded.score_error)) - built)
    if silenced:
        yield from (not_built("totals", name) for name in silenced)
        return
    totals = cycle.totals
    yield Fact(("scoreError",), bool(recorded.score_error), isinstance(totals, Status))
    yield from beside(recorded.totals, totals if not isinstance(totals, Status) else {}, "totals")
    yield Fact(("best",), list(recorded.best), cycle.best)


def _named_in(message: str) -> Set[str]:
    """Return the plugins that an error names."""
    return known_in_tree.keys() & set(re.findall(r'"(\w+)"', message))
