"""The results of a simulation or a replay as one self-contained HTML file."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from kframework.observe.web.nodes import describe_node, list_nodes
from kframework.observe.web.pods import Queues, list_queues
from kframework.observe.web.profiles import profile_views
from kframework.observe.web.sections import Section
from kframework.observe.web.summary import list_attempts, summarise_scheduler
from kframework.observe.web.view import EngineView, report_page
from kframework.scheduler.scheduler import E

#: The maximum numbers of each in a report, so that the file opens at once; explanations are per sort.
MAX_ATTEMPTS, MAX_PODS, MAX_NODES, MAX_EXPLANATIONS = 2_000, 2_000, 300, 100


def report(view: EngineView[E], *, title: str, start: float | None = None) -> str:
    """Create the report of an engine; times are seconds since `start`, or without it times of day."""
    engine, history = view.engine, view.history
    table = engine.cluster.nodes
    listed = (info.name for info in table) if len(table) <= MAX_NODES else ()
    pods_by_node = {name: describe_node(engine.cluster, name) for name in listed}
    waiting, sections = list_queues(view, most=MAX_PODS), view.sections()
    names_by_kind = _select_details(waiting, sections)
    # A live page requests the same parts one by one.
    data = {
        "title": title,
        "start": start,
        "summary": summarise_scheduler(view, counted=history.max_records),
        "queues": waiting,
        "attempts": list_attempts(history, limit=MAX_ATTEMPTS),
        "sections": sections,
        "nodes": list_nodes(table),
        "nodePods": {name: pods for name, pods in pods_by_node.items() if pods is not None},
        "profiles": profile_views(engine.profiles, history, engine.clock.now(), counted=history.max_records),
        "details": {
            kind: {name: known for name in names if (known := view.details(kind, name)).sections}
            for kind, names in names_by_kind.items()
        },
        "explanations": {kind: view.explanations(kind, names) for kind, names in names_by_kind.items()},
    }
    return report_page(title, msgspec.json.encode(data)).html


def _select_details(waiting: Queues, sections: Iterable[Section]) -> dict[str, list[str]]:
    """Choose what to explain, by kind: references of tables, and waiting pods, one for each message before others."""
    first = {pod.message: pod.pod for pod in reversed(waiting.pods)}
    names_by_kind = {"pod": dict.fromkeys((*reversed(first.values()), *(pod.pod for pod in waiting.pods)))}
    for section in sections:
        for ref in section.refs():
            names_by_kind.setdefault(ref.kind, {})[ref.name] = None
    return {kind: list(names)[:MAX_EXPLANATIONS] for kind, names in names_by_kind.items() if kind != "node"}
