"""The scheduling cycle at 5,000 nodes, beside the budgets of the design (microseconds of processor time, median).

Run with `python -m benchmarks.cycle`. The engine is driven directly: pop, search, assume, reserve, permit; no binding.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from time import process_time_ns

import msgspec

from kframework import Plugin, hookimpl, unschedulable
from kframework.clock import SystemClock
from kframework.config.load import parse
from kframework.core.cycle.records import Decision
from kframework.core.cycle.results import Reservation
from kframework.core.cycle.run import Run, RunBinding
from kframework.core.host import Host
from kframework.core.plugin_handle import profiles_factory
from kframework.core.pod_engine import PodEngine
from kframework.core.runtime.registry import Registry
from kframework.objects import (
    Affinity,
    Container,
    LabelSelector,
    Node,
    NodeStatus,
    ObjectMeta,
    Pod,
    PodAffinityTerm,
    PodAntiAffinity,
    PodSpec,
    Resources,
    Service,
    ServiceSpec,
    TopologySpreadConstraint,
    WeightedPodAffinityTerm,
)
from kframework.scheduler.gc_policy import collect
from kframework.state.cluster import ClusterState
from kframework.state.inbox import BindingEnded, Synced, Upserted

NODES = 5_000
CYCLES = 2_000

CONFIGURATION = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
percentageOfNodesToScore: {percentage}
profiles:
- schedulerName: default-scheduler
  plugins:
    multiPoint:
      enabled: [{plugins}]
"""


class NaivePlugin(Plugin):
    """A naive scalar third-party plugin: a few node facts, no cache, no columnar form, called in every cycle."""

    name = "NaivePlugin"

    @hookimpl
    def filter(self, state, pod, node):  # type: ignore[no-untyped-def]  # written as a newcomer would
        """Pass every node that is not full."""
        return unschedulable("full") if len(node.pods) >= 1000 else None

    @hookimpl
    def score(self, state, pod, node):  # type: ignore[no-untyped-def]  # written as a newcomer would
        """Prefer nodes with few pods."""
        return max(0, 100 - len(node.pods))


class PodReadingPlugin(NaivePlugin):
    """The same plugin with `reads`: called for nodes whose pods changed."""

    name = "PodReadingPlugin"
    reads = "pods"


class RecordingHost(Host):
    """A host that keeps decisions and reservations, and binds nothing by itself."""

    def __init__(self) -> None:
        self.decisions: list[Decision] = []
        self.reservations: list[Reservation] = []

    def bind(self, reservation: Reservation) -> None:
        self.reservations.append(reservation)

    def report_decision(self, decision: Decision) -> None:
        self.decisions.append(decision)


class _BindingHost(RecordingHost):
    """Binds every run at once."""

    def __init__(self) -> None:
        super().__init__()
        self.runs: list[Run] = []

    @property
    def can_bind_runs(self) -> bool:
        return True

    def bind_run(self, run: Run) -> None:
        self.runs.append(run)


def make_engine(
    *, percentage: int = 0, plugins: tuple[type[Plugin], ...] = (), nodes: int = NODES
) -> tuple[PodEngine, RecordingHost]:
    """Make an engine with this number of nodes."""
    host = RecordingHost()
    return _engine(host, percentage, plugins, nodes), host


def schedule_in_runs(nodes: int, pods: int, warm: int, measured: AbstractContextManager[object]) -> None:
    """Place pods of one template without a cluster, in runs; only what the engine does with them is `measured`."""
    host = _BindingHost()
    engine = _engine(host, 0, (), nodes)
    _schedule(engine, host, range(warm), nullcontext())
    _schedule(engine, host, range(warm, warm + pods), measured)


def _schedule(engine: PodEngine, host: _BindingHost, numbers: range, measured: AbstractContextManager[object]) -> None:
    for number in numbers:
        engine.offer(Upserted(pod(number, 0)))
    apply_messages(engine)
    placed = 0
    while placed < len(numbers):
        with measured:
            engine.step()
        run = host.runs.pop()
        placed += len(run)
        engine.offer(RunBinding(run, 0.0, 0, 0, {}))
        apply_messages(engine)


def apply_messages(engine: PodEngine) -> None:
    """Apply the offered messages."""
    for message in engine.inbox.drain():
        engine._apply(message)


def _engine(host: Host, percentage: int, plugins: tuple[type[Plugin], ...], nodes: int) -> PodEngine:
    text = CONFIGURATION.format(percentage=percentage, plugins=", ".join(f"{{name: {p.name}}}" for p in plugins))
    profiles = profiles_factory(parse(text), Registry.with_plugins(*plugins), host)
    engine = PodEngine(ClusterState(), SystemClock(), host, profiles, verifying=False)
    for index in range(nodes):
        engine.offer(Upserted(_node(index)))
    engine.offer(Synced())
    engine.step()
    # As the scheduler does once it is in sync.
    collect()
    return engine


def _node(index: int) -> Node:
    capacity: dict[str, str | int | float] = {"cpu": "64", "memory": "256Gi", "pods": "1000"}
    labels = {"topology.kubernetes.io/zone": f"zone-{index % 3}", "kubernetes.io/hostname": f"node-{index}"}
    return Node(
        metadata=ObjectMeta(name=f"node-{index}", labels=labels),
        status=NodeStatus(capacity=capacity, allocatable=capacity),
    )


#: What is in the spec of a template's pods beside their container.
Shape = Callable[[LabelSelector], dict[str, object]]


def without_constraints(own: LabelSelector) -> dict[str, object]:
    """Set no constraints on other pods."""
    return {}


def with_anti_affinity(own: LabelSelector) -> dict[str, object]:
    """Keep the pods of a workload on different nodes, and rather in different zones."""
    strictly = PodAffinityTerm(topology_key="kubernetes.io/hostname", label_selector=own)
    rather = PodAffinityTerm(topology_key="topology.kubernetes.io/zone", label_selector=own)
    keep_away = PodAntiAffinity(
        required_during_scheduling_ignored_during_execution=(strictly,),
        preferred_during_scheduling_ignored_during_execution=(
            WeightedPodAffinityTerm(weight=100, pod_affinity_term=rather),
        ),
    )
    return {"affinity": Affinity(pod_anti_affinity=keep_away)}


def with_spread(own: LabelSelector) -> dict[str, object]:
    """Spread the pods of a workload evenly over zones, and rather over nodes."""
    constraints = (("topology.kubernetes.io/zone", "DoNotSchedule"), ("kubernetes.io/hostname", "ScheduleAnyway"))
    return {
        "topology_spread_constraints": tuple(
            TopologySpreadConstraint(max_skew=1, topology_key=key, when_unsatisfiable=action, label_selector=own)
            for key, action in constraints
        )
    }


def pod(index: int, template: int, shape: Shape = without_constraints) -> Pod:
    """Make a pod of a template."""
    labels = {"app": str(template)}
    requests: dict[str, str | int | float] = {"cpu": f"{100 + template}m", "memory": "200Mi"}
    return Pod(
        metadata=ObjectMeta(name=f"pod-{index}", namespace="default", uid=f"uid-{index}", labels=labels),
        spec=msgspec.structs.replace(
            PodSpec(containers=(Container(name="main", resources=Resources(requests=requests)),)),
            **shape(LabelSelector(match_labels=labels)),
        ),
    )


def cycles(
    engine: PodEngine,
    host: RecordingHost,
    templates: int,
    count: int,
    first: int = 0,
    shape: Shape = without_constraints,
) -> Iterator[int]:
    """Schedule pods one after the other; yield the nanoseconds of each step."""
    for index in range(first, first + count):
        engine.offer(Upserted(pod(index, index % templates, shape)))
        apply_messages(engine)
        began = process_time_ns()
        engine.step()
        yield process_time_ns() - began
        reservation = host.reservations.pop()
        engine.offer(BindingEnded(reservation.pod.uid, reservation.attempt, None))
        apply_messages(engine)


def measure(title: str, budget: str, run: Callable[[], list[int]]) -> None:
    """Print the median and the 99th percentile of a case beside its budget."""
    times = run()
    median, high = statistics.median(times) / 1000, sorted(times)[int(len(times) * 0.99)] / 1000
    print(f"{title:<58}{median:>9.1f}{high:>9.1f}  {budget:>8}")


def time_case(
    templates: int = 1,
    count: int = CYCLES,
    percentage: int = 0,
    plugins: tuple[type[Plugin], ...] = (),
    shape: Shape = without_constraints,
    services: int = 0,
) -> list[int]:
    """Time the cycles of one case after a warm-up; the pods of the first templates have a Service each."""
    engine, host = make_engine(percentage=percentage, plugins=plugins)
    for template in range(services):
        selector = ServiceSpec(selector={"app": str(template)})
        engine.offer(Upserted(Service(metadata=ObjectMeta(name=f"s-{template}", namespace="default"), spec=selector)))
    list(cycles(engine, host, templates, max(50, 2 * templates), shape=shape))
    return list(cycles(engine, host, templates, count, first=100_000, shape=shape))


def time_unschedulable() -> list[int]:
    """Time the attempts of pods that fit nowhere, for two reasons."""
    engine, _ = make_engine()
    times = []
    for index in range(300):
        engine.offer(Upserted(pod(index, 99_000 + index % 10)))
        apply_messages(engine)
        began = process_time_ns()
        engine.step()
        times.append(process_time_ns() - began)
    return times[50:]


def time_new_templates() -> list[int]:
    """Time the first pod of each of many templates."""
    engine, host = make_engine()
    return list(cycles(engine, host, 200, 200))


def main() -> None:
    """Run every case."""
    print(f"{'5,000 nodes, microseconds per cycle':<58}{'median':>9}{'p99':>9}  {'budget':>8}")
    measure("repeated template, sampled", "60", lambda: time_case())
    measure("repeated template, all nodes scored", "100", lambda: time_case(percentage=100))
    measure("200 templates in turn, sampled", "150", lambda: time_case(templates=200))
    measure("200 templates in turn, all nodes scored", "220", lambda: time_case(templates=200, percentage=100))
    measure("first pod of a new template", "1000", time_new_templates)
    measure("a pod that fits nowhere", "", time_unschedulable)
    measure("spread by the system defaults (a Service), repeated", "80", lambda: time_case(services=1))
    measure("spread by the system defaults (Services), 200 workloads", "200", lambda: time_case(200, services=200))
    measure("spread constraints of its own, repeated template", "80", lambda: time_case(shape=with_spread))
    measure("spread constraints of their own, 200 workloads", "200", lambda: time_case(200, shape=with_spread))
    measure("inter-pod anti-affinity, repeated template", "80", lambda: time_case(shape=with_anti_affinity))
    measure("inter-pod anti-affinity, 200 workloads", "200", lambda: time_case(200, shape=with_anti_affinity))
    measure("with a signed scalar plugin, repeated template", "60+5", lambda: time_case(plugins=(PodReadingPlugin,)))
    measure(
        "with a signed scalar plugin, 20 templates", "", lambda: time_case(templates=20, plugins=(PodReadingPlugin,))
    )
    measure("without it, 20 templates", "", lambda: time_case(templates=20))
    measure("with an unsigned scalar plugin, sampled", "+300", lambda: time_case(count=300, plugins=(NaivePlugin,)))
    measure(
        "with an unsigned scalar plugin, all nodes",
        "+1500",
        lambda: time_case(count=100, percentage=100, plugins=(NaivePlugin,)),
    )


if __name__ == "__main__":
    main()
