"""Kind `sequence`: pods scheduled one after another, each assigned before the next is scheduled."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from kframework.core.runtime.registry import Registry
from kframework.objects import ApiStruct, DeviceRequestAllocationResult, Pod
from kframework.state.pods import PendingPod
from kframework.testing.conformance.answers import compare_pre_enqueue
from kframework.testing.conformance.cases import Fact, Uncompared, compare_keys
from kframework.testing.conformance.claims import compare_allocations, reserve_claims, store_allocations
from kframework.testing.conformance.recorded import RecordedStatus
from kframework.testing.conformance.recorded_cluster import RecordedCluster
from kframework.testing.conformance.whole_cycle import WholeCycle
from kframework.testing.single_plugin import PROFILE
from kframework.values.status import Status


class SequenceInput(RecordedCluster, frozen=True, kw_only=True):
    """A cluster and the pods to be scheduled, in order."""

    pending_pods: tuple[Pod, ...]


class RecordedStep(ApiStruct, frozen=True, kw_only=True):
    """The result for one pod."""

    pod: str
    totals: dict[str, int] = msgspec.field(default_factory=dict)
    best: tuple[str, ...] = ()
    host: str = ""
    fit_error: str = ""
    error: str = ""
    pre_enqueue: dict[str, RecordedStatus] = msgspec.field(default_factory=dict)
    allocations: dict[str, tuple[DeviceRequestAllocationResult, ...]] = msgspec.field(default_factory=dict)


class SequenceResult(ApiStruct, frozen=True, kw_only=True):
    """The results for the pods, in order."""

    steps: tuple[RecordedStep, ...]


def compare(inputs: SequenceInput, recorded: SequenceResult, registry: Registry) -> Iterator[Fact | Uncompared]:
    """Schedule the pods in turn; each is assigned to kube-scheduler's node, so that each step is compared by itself."""
    engine, installed = inputs.engine(registry), frozenset(registry)
    yield Fact(("steps",), len(recorded.steps), len(inputs.pending_pods))
    for number, (step, unscheduled) in enumerate(zip(recorded.steps, inputs.pending_pods, strict=False)):
        pod = PendingPod(unscheduled, engine.cluster.interner)
        yield from compare_pre_enqueue(step.pre_enqueue, engine.profiles[PROFILE], pod, installed, "steps", number)
        if step.pre_enqueue:
            continue
        cycle = WholeCycle(engine, pod)
        yield Fact(("steps", number, "pod"), step.pod, pod.key)
        yield from cycle.compare_cached()
        yield from _compare_step(number, step, cycle)
        if step.host:
            reservation = reserve_claims(engine, pod, cycle.search.state, step.host)
            yield from compare_allocations(step.allocations, reservation, "steps", number, "allocations")
            engine.cluster.assume(pod, step.host)
            store_allocations(engine, pod, reservation)


def _compare_step(number: int, step: RecordedStep, cycle: WholeCycle) -> Iterator[Fact]:
    totals = cycle.totals
    yield from compare_keys(step.totals, totals if not isinstance(totals, Status) else {}, "steps", number, "totals")
    best = cycle.best
    yield Fact(("steps", number, "best"), list(step.best), best)
    yield Fact(("steps", number, "host"), step.host, best[0] if best else "")
    yield Fact(("steps", number, "fitError"), step.fit_error, cycle.fit_error())
    yield Fact(("steps", number, "error"), bool(step.error), cycle.failed or isinstance(totals, Status))
