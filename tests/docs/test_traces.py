"""The document of traces names every span with its parent, and every attribute with its type and its spans."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import zip_longest
from typing import Any

from msgspec.structs import replace

from kframework import Simulation, Skip, Wait, unschedulable
from kframework.core.cycle.records import Binding
from kframework.observe.tracing.spans import Tracing
from kframework.testing import make_node
from tests.core.cycle.test_suspendable.test_attempts import FULL, ExtendedStage, keeping, preempter, preempting, stage
from tests.examples.clean_environment import ROOT
from tests.extension_points.scripted import plugin
from tests.scheduler.test_binding import Cycle
from tests.support.extenders import accept_except, extender
from tests.support.groups import TREES, below, gang, in_one, members, tree

DOCUMENT = (ROOT / "docs/reference/traces.md").read_text()
SPAN = re.compile(r"^\| `(?P<name>\w+)` \| (?:`(?P<parent>\w+)`)? ?\|", re.MULTILINE)
ATTRIBUTE = re.compile(r"^\| `(?P<name>[\w.]+)` \| (?P<type>\w+) \| (?P<spans>[^|]*) \|", re.MULTILINE)

TYPES = {"stringValue": "string", "intValue": "int", "doubleValue": "double", "arrayValue": "strings"}

HOOKS: dict[str, Any] = {
    "pre_filter": None,
    "filter": None,
    "pre_score": None,
    "score": 1,
    "normalize_score": lambda state, pod, scores: scores,
    "reserve": None,
    "permit": Wait(5),
}
BINDING: dict[str, Any] = {"pre_bind_pre_flight": None, "pre_bind": None, "bind": Skip, "post_bind": None}


def attempts() -> Iterator[ExtendedStage]:
    """Yield a stage for each way that an attempt may go."""
    extenders = [extender({"filter": accept_except("a", "b"), "prioritize": []})]
    yield stage(plugin("A", **HOOKS), extenders=extenders)
    yield stage(plugin("A", **HOOKS | {"permit": unschedulable("no")}), extenders=extenders)
    yield stage(plugin("A", pre_filter=ValueError("broken")), extenders=extenders)
    yield stage(FULL, preempting(), extenders=[preempter(keeping("a", "b"))])
    # One feasible node is not scored, but what is remembered of its score is brought up to date.
    yield stage(plugin("A", reads="pods", sign="alike", score=1), extenders=[extender({"filter": accept_except("a")})])


def bindings() -> Iterator[Binding]:
    """Yield a binding cycle for each way that it may go."""
    for hooks in (BINDING, BINDING | {"pre_bind": ValueError("broken")}):
        yield Cycle(plugin("A", **hooks), timed=True).binding


#: A group that needs two nodes of one rack.
GROUP = in_one("rack", gang("g", 2))
PODS = members("g", 2, cpu="3")


@cache
def spans() -> tuple[Mapping[str, Any], ...]:
    """Return the spans of attempts and bindings of all kinds, as they are exported; each has a trace of its own."""
    stream = io.StringIO()
    for staged, binding in zip_longest(attempts(), bindings()):
        staged.engine.timed_share = 1.0
        decision, tracing = staged.step(), Tracing.to_stream(stream)
        tracing.on_decision(decision)
        if binding is not None:
            tracing.on_binding(replace(binding, attempt=decision.attempt, waited=1.0))
    tracing = Tracing.to_stream(stream)
    for racks, above in (("aabb", []), ("ab", []), ("aa", [tree("t")])):
        nodes = [make_node(f"{rack}-{n}", cpu=4, labels={"rack": rack}) for n, rack in enumerate(racks)]
        group = below("t", GROUP) if above else GROUP
        with Simulation([*nodes, *above, group, *PODS], config=TREES, observers=[tracing]) as simulation:
            simulation.run(1)
    lines = (json.loads(line)["resourceSpans"][0] for line in stream.getvalue().splitlines())
    return tuple(line["scopeSpans"][0]["spans"][0] for line in lines)


def parents() -> set[tuple[str, str | None]]:
    """Return each span with its parent, by name."""
    names = {(span["traceId"], span["spanId"]): span["name"] for span in spans()}
    return {(span["name"], names.get((span["traceId"], span["parentSpanId"]))) for span in spans()}


def test_every_span_is_documented_under_its_parent() -> None:
    assert parents() == {(row["name"], row["parent"]) for row in SPAN.finditer(DOCUMENT)}


def test_every_attribute_is_documented_with_its_type_and_its_spans() -> None:
    told = {
        (row["name"], row["type"], span)
        for row in ATTRIBUTE.finditer(DOCUMENT)
        for span in re.findall(r"\w+", row["spans"])
    }
    cycles = ("scheduling_cycle", "binding_cycle", "group_cycle")
    parts = {name for name, parent in parents() if parent in cycles} - {"placement"}
    made = {
        (_named(attribute["key"]), TYPES[kind], "parts" if span["name"] in parts else span["name"])
        for span in spans()
        for attribute in span["attributes"]
        for kind in attribute["value"]
    }
    assert made == told


def _named(key: str) -> str:
    return re.sub(r"^kframework\.plugin\.\w+", "kframework.plugin.NAME", key)
