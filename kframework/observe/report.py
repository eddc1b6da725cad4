"""The result of a simulation or a replay as one self-contained HTML file."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from kframework.observe.web.nodes import node_pods, nodes
from kframework.observe.web.pods import Queues, queues
from kframework.observe.web.profiles import profile_parts
from kframework.observe.web.sections import Section
from kframework.observe.web.summary import attempts, summary
from kframework.observe.web.view import EngineView, report_page
from kframework.scheduler.scheduler import E

#: The maximum numbers of each in a report, so that the file opens at once; explanations are per sort.
ATTEMPTS, PODS, NODES, EXPLANATIONS = 2_000, 2_000, 300, 100


def report(shown: EngineView[E], *, title: str, start: float | None = None) -> str:
    """Create the report of an engine's state and of its history.

    Times are shown as seconds since `start`, or without one as times of day.
    """
    engine, history = shown.engine, shown.history
    table = engine.cluster.nodes
    listed = (info.name for info in table) if len(table) <= NODES else ()
    found = {name: node_pods(engine.cluster, name) for name in listed}
    waiting, sections = queues(shown, most=PODS), shown.sections()
    chosen = _chosen(waiting, sections)
    # A live page requests the same parts one by one.
    data = {
        "title": title,
        "start": start,
        "summary": summary(shown, counted=history.kept),
        "queues": waiting,
        "attempts": attempts(history, shown=ATTEMPTS),
        "sections": sections,
        "nodes": nodes(table),
        "node_pods": {name: pods for name, pods in found.items() if pods is not None},
        "profiles": profile_parts(engine.profiles, history, engine.clock.now(), counted=history.kept),
        "details": {
            sort: {name: known for name in names if (known := shown.details(sort, name)).sections}
            for sort, names in chosen.items()
        },
        "explanations": {sort: shown.explanations(sort, names) for sort, names in chosen.items()},
    }
    return report_page(title, msgspec.json.encode(data)).html


def _chosen(waiting: Queues, sections: Iterable[Section]) -> dict[str, list[str]]:
    """Choose what there is more of, by sort: what the tables lead to, and pods that wait.

    Of these one for each message comes first, then others.
    """
    first = {pod.message: pod.pod for pod in reversed(waiting.pods)}
    chosen = {"pod": dict.fromkeys((*reversed(first.values()), *(pod.pod for pod in waiting.pods)))}
    for section in sections:
        for ref in section.refs():
            chosen.setdefault(ref.to, {})[ref.name] = None
    return {sort: list(names)[:EXPLANATIONS] for sort, names in chosen.items() if sort != "node"}
