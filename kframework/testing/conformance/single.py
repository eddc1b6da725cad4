"""Kinds `single` and `preemption`: one pod to be scheduled in a cluster, plugin by plugin and as a whole."""

from __future__ import annotations

from collections.abc import Iterator, Set

from kframework.core.cycle.results import FitError
from kframework.core.runtime.points import PostFilterAnswer, PostFilterRound, run_post_filter_plugin
from kframework.core.runtime.registry import Registry
from kframework.core.runtime.steps import Step
from kframework.errors import ConfigError
from kframework.framework.answers import Diagnosis, Preempt
from kframework.objects import Pod
from kframework.state.pods import PendingPod
from kframework.testing.conformance.answers import PluginComparer, compare_pre_enqueue, with_own_errors
from kframework.testing.conformance.cases import Fact, Uncompared, compare_keys, unimplemented_plugin
from kframework.testing.conformance.claims import compare_allocations, compare_details, compare_writes, reserve_claims
from kframework.testing.conformance.recorded import RecordedCandidate, RecordedCycle, RecordedPostFilter, RecordedStatus
from kframework.testing.conformance.recorded_cluster import RecordedCluster
from kframework.testing.conformance.whole_cycle import WholeCycle
from kframework.testing.single_plugin import PROFILE
from kframework.values.status import Status

_CLAIMS, _PREEMPTION = "DynamicResources", "DefaultPreemption"


class SingleInput(RecordedCluster, frozen=True, kw_only=True):
    """A cluster and the pending pod."""

    pod: Pod


def compare(inputs: SingleInput, recorded: RecordedCycle, registry: Registry) -> Iterator[Fact | Uncompared]:
    """Compare a case, as far as its plugins exist here."""
    unsupported = list(inputs.unsupported_gates())
    if unsupported:
        yield from unsupported
        return
    try:
        engine = inputs.engine(registry)
    except ConfigError as error:
        yield Fact(("configError",), recorded.config_error or None, recorded.config_error or str(error))
        return
    if recorded.config_error:
        yield Fact(("configError",), recorded.config_error, None)
        return
    profile, nodes, installed = engine.profiles[PROFILE], engine.cluster.nodes, frozenset(registry)
    pod = PendingPod(inputs.pod, engine.cluster.interner)
    yield from (unimplemented_plugin("answers", name) for name in sorted(recorded.plugins - installed))
    yield from compare_pre_enqueue(recorded.pre_enqueue, profile, pod, installed)
    if recorded.pre_enqueue:
        return
    yield from PluginComparer(profile, pod, nodes, installed).compare(recorded)
    yield from _compare_cycle(recorded, WholeCycle(engine, pod), installed)


def _compare_cycle(recorded: RecordedCycle, cycle: WholeCycle, installed: Set[str]) -> Iterator[Fact | Uncompared]:
    yield from cycle.compare_cached()
    unimplemented = sorted(recorded.filtering_plugins - installed)
    if unimplemented:
        yield from (unimplemented_plugin("statuses, totals and messages", name) for name in unimplemented)
        return
    if recorded.nodes or not recorded.error:
        yield from compare_keys(with_own_errors(recorded.nodes, cycle.statuses), cycle.statuses, "nodes")
        yield Fact(("feasible",), list(recorded.feasible), cycle.feasible)
    yield Fact(("fitError",), recorded.fit_error, cycle.fit_error())
    yield Fact(("error",), bool(recorded.error), cycle.failed)
    if recorded.post_filter is not None:
        yield from compare_post_filter(recorded.post_filter, cycle, installed)
    if recorded.feasible and not recorded.error:
        for node in recorded.feasible:
            reservation = reserve_claims(cycle.engine, cycle.search.pod, cycle.search.state, node)
            yield from compare_allocations(recorded.allocations.get(node, {}), reservation, "allocations", node)
            yield from compare_details(
                recorded.allocation_details.get(node, {}), reservation, "allocationDetails", node
            )
        yield from _compare_totals(recorded, cycle, installed)


def _compare_totals(recorded: RecordedCycle, cycle: WholeCycle, installed: Set[str]) -> Iterator[Fact | Uncompared]:
    unimplemented = sorted(recorded.scoring_plugins - installed)
    if unimplemented:
        yield from (unimplemented_plugin("totals", name) for name in unimplemented)
        return
    totals = cycle.totals
    yield Fact(("scoreError",), bool(recorded.score_error), isinstance(totals, Status))
    yield from compare_keys(recorded.totals, totals if not isinstance(totals, Status) else {}, "totals")
    yield Fact(("best",), list(recorded.best), cycle.best)


def compare_post_filter(
    recorded: RecordedPostFilter, cycle: WholeCycle, installed: Set[str]
) -> Iterator[Fact | Uncompared]:
    """Compare each of the default set's two plugins by itself, and the whole step if both exist."""
    if not isinstance(cycle.outcome, FitError):
        yield Fact(("postFilter",), recorded, None)
        return
    diagnosis = cycle.outcome.diagnosis
    steps = {step.name: step for step in cycle.profile.post_filter}
    if _CLAIMS in steps:
        yield from _compare_claims(recorded, _run_post_filter(steps[_CLAIMS], cycle, diagnosis).status)
    if _PREEMPTION in steps:
        yield from _compare_preemption(recorded, _run_post_filter(steps[_PREEMPTION], cycle, diagnosis))
    missing = [name for name in (_CLAIMS, _PREEMPTION) if name not in installed]
    if missing:
        yield from (unimplemented_plugin("postFilter", name) for name in missing)
    else:
        answer = PostFilterRound(cycle.profile).run(cycle.search.state, cycle.search.pod, diagnosis)
        message = _message_of(answer)
        yield Fact(("postFilter", "code"), recorded.code, answer.status.code.title)
        yield Fact(("postFilter", "message"), recorded.message, message)
        after = cycle.fit_error(message)
        yield Fact(("postFilter", "fitErrorAfterPostFilter"), recorded.fit_error_after_post_filter, after)
        yield from compare_writes(cycle.engine, recorded.deallocates, recorded.deletes)


def _message_of(answer: PostFilterAnswer) -> str:
    """Return what PostFilter adds to the pod's message, once the best candidate is chosen."""
    result = answer.result
    if not isinstance(result, Preempt) or result.describe is None or not result.candidates:
        return answer.status.message
    return result.describe(min(result.candidates, key=result.key))  # type: ignore[arg-type]  # keys compare


def _run_post_filter(step: Step, cycle: WholeCycle, diagnosis: Diagnosis) -> PostFilterAnswer:
    return run_post_filter_plugin(cycle.profile, step, cycle.search.state, cycle.search.pod, diagnosis)


def _compare_claims(recorded: RecordedPostFilter, status: Status) -> Iterator[Fact]:
    """Compare the part before DefaultPreemption's, or in place of it; a success hides it."""
    if recorded.code == "Unschedulable":
        before = recorded.message.partition("preemption: ")[0].removesuffix(", ")
        yield Fact(("postFilter", _CLAIMS), before, status.message)
    elif recorded.code == "Error" and (recorded.preemption is None or recorded.preemption.code != "Error"):
        yield Fact(("postFilter", _CLAIMS), recorded.message, status.message)


def _compare_preemption(recorded: RecordedPostFilter, answer: PostFilterAnswer) -> Iterator[Fact]:
    yield Fact(("postFilter", "preemption"), recorded.preemption, RecordedStatus.from_status(answer.status))
    if not isinstance(answer.result, Preempt):
        yield Fact(("postFilter", "nominatedNode"), recorded.nominated_node, "")
        return
    got = {
        candidate.node: RecordedCandidate(
            victims=tuple(victim.key for victim in candidate.victims), pdb_violations=candidate.pdb_violations
        )
        for candidate in answer.result.candidates
    }
    yield from compare_keys(recorded.candidates, got, "postFilter", "candidates")
    candidate = min(answer.result.candidates, key=answer.result.key)  # type: ignore[arg-type]  # keys compare
    if candidate.node not in recorded.nominated_any_of:
        yield Fact(("postFilter", "nominatedNode"), recorded.nominated_node, candidate.node)
    victims = got[recorded.nominated_node].victims if recorded.nominated_node in got else ()
    yield Fact(("postFilter", "victims"), recorded.victims, victims)
