"""The result of a simulation or a replay as one HTML file, which needs nothing beside itself."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from kframework.core.pod_engine import PodEngine
from kframework.observe.explain.account import explain
from kframework.observe.explain.explanation import Explanation
from kframework.observe.history import History
from kframework.observe.web.document import report_page
from kframework.observe.web.nodes import NodePods, Nodes, node_pods, nodes
from kframework.observe.web.pods import Queues, queues
from kframework.observe.web.profiles import ProfilePart, profile_parts
from kframework.observe.web.summary import Attempts, Summary, attempts, summary

#: So much of everything stands in a report, so that it stays a file that opens at once.
ATTEMPTS, PODS, NODES, EXPLANATIONS = 2_000, 2_000, 300, 100

#: So many nodes are asked about in all for the explanations, but for the first few of these: each asks about all nodes.
_ASKED, _EXPLAINED = 50_000, 10


class _Data(msgspec.Struct, frozen=True):
    """What the page of a report is made from; a page that is alive asks for the same parts one by one."""

    title: str
    start: float | None
    summary: Summary
    queues: Queues
    attempts: Attempts
    nodes: Nodes
    node_pods: Mapping[str, NodePods]
    profiles: list[ProfilePart]
    explanations: Mapping[str, Explanation]


def report(engine: PodEngine, history: History, *, title: str, start: float | None = None) -> str:
    """Make the report of how things stand in an engine, and of what its history remembers.

    Moments are shown as seconds since `start`, or without one as times of day.
    """
    everything = len(history.recent(engine.attempts))
    table = engine.cluster.nodes
    shown = (info.name for info in table) if len(table) <= NODES else ()
    found = {name: node_pods(engine.cluster, name) for name in shown}
    waiting = queues(engine, history, shown=PODS)
    data = _Data(
        title,
        start,
        summary(engine, history, counted=everything),
        waiting,
        attempts(history, engine.attempts, shown=ATTEMPTS),
        nodes(table),
        {name: pods for name, pods in found.items() if pods is not None},
        profile_parts(engine.profiles, history, engine.clock.now(), counted=everything),
        _explanations(engine, history, waiting),
    )
    return report_page(title, msgspec.json.encode(data)).html


def _explanations(engine: PodEngine, history: History, waiting: Queues) -> dict[str, Explanation]:
    """Explain pods that wait: one for each message first, then others."""
    first = {pod.message: pod.pod for pod in reversed(waiting.pods)}
    chosen = dict.fromkeys((*reversed(first.values()), *(pod.pod for pod in waiting.pods)))
    most = min(EXPLANATIONS, max(_EXPLAINED, _ASKED // max(len(engine.cluster.nodes), 1)))
    pending = {pod.key: pod for pod in engine.handlers.pending.values()}
    return {pod: explain(engine, history, pending[pod]) for pod in list(chosen)[:most]}
