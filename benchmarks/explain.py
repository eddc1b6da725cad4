"""Explanations at 5,000 nodes that run 45,000 pods: in all, and the longest slice in which others wait (milliseconds).

Run with `python -m benchmarks.explain`. Time is that of this thread, so that what else the machine does counts little;
the budget is a second in all and 2 ms for a slice. Each pod is explained several times, and the quickest time is shown.
"""

from __future__ import annotations

from collections.abc import Iterator
from time import thread_time

import msgspec

from kframework.clock import SystemClock
from kframework.config.load import default_configuration
from kframework.core.cycle.records import Decision
from kframework.core.host import Host
from kframework.core.plugin_handle import profiles_factory
from kframework.core.pod_engine import PodEngine
from kframework.core.runtime.registry import Registry
from kframework.explain.explainer import explain_steps
from kframework.explain.explanation import Explanation
from kframework.objects import Affinity, ApiObject, Pod, TopologySpreadConstraint
from kframework.observe.history import History
from kframework.scheduler.extenders import Extenders
from kframework.scheduler.gc_policy import collect, reduced_gc
from kframework.state.inbox import Synced, Upserted
from kframework.testing import make_node, make_pod

NODES, PODS, TIMES = 5_000, 9, 5

APART = msgspec.convert(
    {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}}
            ]
        }
    },
    Affinity,
)
SPREAD = msgspec.convert(
    {
        "maxSkew": 1,
        "topologyKey": "topology.kubernetes.io/zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    },
    TopologySpreadConstraint,
)

PENDING: dict[str, Pod] = {
    "too large for what is left": make_pod("large", cpu=2),
    "kept apart from others": make_pod("apart", cpu="100m", affinity=APART),
    "spread over zones": make_pod("spread", cpu=2, labels={"app": "web"}, topology_spread=[SPREAD]),
    "a label that no node has": make_pod("ssd", cpu=2, node_selector={"disk": "nvme"}),
    "important, preemption helps": make_pod("urgent", cpu=2, priority=10),
    "important, and nothing helps": make_pod("huge", cpu=200, priority=10),
    "fits on 4,000 nodes": make_pod("small", cpu="100m"),
}


class DecisionRecorder(Host):
    """A host that only records decisions."""

    def __init__(self) -> None:
        self.history = History()

    def report_decision(self, decision: Decision) -> None:
        self.history.on_decision(decision)


def cluster() -> Iterator[ApiObject]:
    """Create nodes that are nearly full; every fifth is tainted."""
    for number in range(NODES):
        name, zone = f"node-{number}", f"zone-{number % 3}"
        taints = ["dedicated=gpu:NoSchedule"] if number % 5 == 0 else []
        yield make_node(name, zone=zone, labels={"kubernetes.io/hostname": name}, cpu=8, memory="32Gi", taints=taints)
        for pod in range(PODS):
            yield make_pod(f"pod-{number}-{pod}", cpu="800m", node_name=name, labels={"app": "web"})


def make_engine(pod: Pod, observed: DecisionRecorder) -> PodEngine:
    """Make an engine that has tried the pod."""
    configuration = default_configuration()
    profiles = profiles_factory(configuration, Registry.from_installed(), observed)
    engine = PodEngine.from_configuration(configuration, SystemClock(), observed, Extenders(), profiles)
    for obj in (*cluster(), pod):
        engine.offer(Upserted(obj))
    engine.offer(Synced())
    engine.step()
    return engine


def slices(engine: PodEngine, history: History, uid: str) -> tuple[Explanation, list[float]]:
    """Explain a pod; return how long each slice took, in seconds."""
    pod = engine.handlers.pending.get(uid) or engine.cluster.pods[uid]
    work = explain_steps(engine, history, pod)
    spans: list[float] = []
    while True:
        began = thread_time()
        try:
            next(work)
        except StopIteration as end:
            spans.append(thread_time() - began)
            return end.value, spans
        spans.append(thread_time() - began)


def main() -> None:
    print(f"{'pod':<30}  {'all':>6}  {'longest':>7}  {'slices':>6}  {'bytes':>6}")
    for name, pod in PENDING.items():
        observed = DecisionRecorder()
        engine = make_engine(pod, observed)
        with reduced_gc():
            collect()
            runs = [slices(engine, observed.history, pod.metadata.uid) for _ in range(TIMES)]
        total = min(sum(spans) for _, spans in runs)
        longest = min(max(spans) for _, spans in runs)
        size = len(msgspec.json.encode(runs[0][0]))
        print(f"{name:<30}  {total * 1e3:6.1f}  {longest * 1e3:7.2f}  {len(runs[0][1]):6}  {size:6}")


if __name__ == "__main__":
    main()
