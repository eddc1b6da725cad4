"""Kind `sequence`: pods scheduled one after another, each placed before the next has its turn."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from kframework.config.default_plugins import ALPHA_PLUGINS
from kframework.core.runtime.registry import Registry
from kframework.objects import ApiStruct, DeviceRequestAllocationResult, Pod
from kframework.state.pods import PendingPod
from kframework.testing.conformance.answers import compare_pre_enqueue
from kframework.testing.conformance.cases import Fact, Uncompared, beside, not_built
from kframework.testing.conformance.claims import PROFILE, compare_allocations, place, reserved
from kframework.testing.conformance.recorded import Verdict
from kframework.testing.conformance.recorded_cluster import RecordedCluster
from kframework.testing.conformance.whole_cycle import WholeCycle
from kframework.values.status import Status

#: Plugins of the default set without effect in any recorded case: none uses declared features.
_SILENT = {"NodeDeclaredFeatures"}


class Given(RecordedCluster, frozen=True, kw_only=True):
    """A cluster and the pods to be scheduled, in order."""

    pending_pods: tuple[Pod, ...]


class Step(ApiStruct, frozen=True, kw_only=True):
    """The result for one pod."""

    pod: str
    totals: dict[str, int] = msgspec.field(default_factory=dict)
    best: tuple[str, ...] = ()
    host: str = ""
    fit_error: str = ""
    error: str = ""
    pre_enqueue: dict[str, Verdict] = msgspec.field(default_factory=dict)
    allocations: dict[str, tuple[DeviceRequestAllocationResult, ...]] = msgspec.field(default_factory=dict)


class Recorded(ApiStruct, frozen=True, kw_only=True):
    """The results for the pods, in order."""

    steps: tuple[Step, ...]


def compare(given: Given, recorded: Recorded, registry: Registry) -> Iterator[Fact | Uncompared]:
    """Schedule the pods in turn; each is placed where kube-scheduler placed it, so that steps are compared singly.

    A step does not record the plugins that affected it. While one of the profile's is missing, the comparison is
    reduced: the nodes that are recorded as feasible must be so for the others.
    """
    engine, built = given.engine(registry), frozenset(registry)
    chooses = {"pre_filter", "filter", "score"}
    missing = (name for name in given.missing(registry) if name not in _SILENT)
    silenced = [name for name in missing if not chooses.isdisjoint(ALPHA_PLUGINS.get(name, {"filter"}))]
    yield from (not_built("steps", name) for name in silenced)
    yield Fact(("steps",), len(recorded.steps), len(given.pending_pods))
    for number, (step, unscheduled) in enumerate(zip(recorded.steps, given.pending_pods, strict=False)):
        pod = PendingPod(unscheduled, engine.cluster.interner)
        yield from compare_pre_enqueue(step.pre_enqueue, engine.profiles[PROFILE], pod, built, "steps", number)
        if step.pre_enqueue:
            continue
        cycle = WholeCycle(engine, pod)
        yield Fact(("steps", number, "pod"), step.pod, pod.key)
        yield from cycle.doubts()
        if silenced:
            feasible = [name for name in step.totals if name in cycle.feasible]
            yield Fact(("steps", number, "feasible"), list(step.totals), feasible)
        else:
            yield from _compare_step(number, step, cycle)
        if step.host:
            found = reserved(engine, pod, cycle.search.state, step.host)
            yield from compare_allocations(step.allocations, found, "steps", number, "allocations")
            engine.cluster.assume(pod, step.host)
            place(engine, pod, found)


def _compare_step(number: int, step: Step, cycle: WholeCycle) -> Iterator[Fact]:
    totals = cycle.totals
    yield from beside(step.totals, totals if not isinstance(totals, Status) else {}, "steps", number, "totals")
    best = cycle.best
    yield Fact(("steps", number, "best"), list(step.best), best)
    yield Fact(("steps", number, "host"), step.host, best[0] if best else "")
    yield Fact(("steps", number, "fitError"), step.fit_error, cycle.fit_error())
    yield Fact(("steps", number, "error"), bool(step.error), cycle.failed or isinstance(totals, Status))
