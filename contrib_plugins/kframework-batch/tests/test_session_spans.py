"""Sessions are traced with their actions and turns, as their accounts have them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from kframework_batch.account import SessionAccount
from kframework_batch.action import Action
from kframework_batch.plugin import BatchPlugin, hookimpl
from kframework_batch.session import Session
from kframework_batch.session_spans import SessionSpans, span_of
from kframework_batch.testing import Stage, make_gang, make_node, make_queue
from msgspec.structs import replace
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from kframework import PluginError
from kframework.objects import ObjectMeta, PriorityClass
from kframework.observe.tracing.spans import SAMPLE_ALL, Tracing

CONFIG = """
actions: "enqueue, allocate, preempt"
tiers:
- plugins: [{name: priority}, {name: gang}]
- plugins: [{name: predicates}, {name: proportion}, {name: nodeorder}]
"""

REFERENCE = (Path(__file__).parents[3] / "docs/reference/batch.md").read_text()
SPAN = re.compile(r"^\| `(?P<name>\w+)` \| (?:`(?P<parent>\w+)`)? ?\|", re.MULTILINE)
ATTRIBUTE = re.compile(r"^\| `(?P<name>\w+\.[\w.]+)` \| (?P<spans>(?:`\w+`,? ?)+)\|", re.MULTILINE)


class Spans:
    """The spans that an observer of sessions makes."""

    def __init__(self, rate: int = SAMPLE_ALL) -> None:
        self._exporter = InMemorySpanExporter()
        self.observer = SessionSpans(Tracing(SimpleSpanProcessor(self._exporter), rate_per_million=rate, seed=0))

    @classmethod
    def of(cls, *accounts: SessionAccount) -> Spans:
        """Return those of these sessions."""
        spans = cls()
        for account in accounts:
            spans.observer.on_account(account)
        return spans

    @property
    def all(self) -> tuple[ReadableSpan, ...]:
        return self._exporter.get_finished_spans()

    def named(self, name: str) -> list[ReadableSpan]:
        """List the spans of a name."""
        return [span for span in self.all if span.name == name]


class Farewell(BatchPlugin):
    """A plugin that looks at what came of a session."""

    name = "farewell"

    @hookimpl
    def on_session_close(self, session: Session) -> None:
        """Look."""


def closing() -> Stage:
    """Let a plugin close the session, and one gang take room from another."""
    low = make_gang("low", 2, minimum=0, on=["n", "n"])
    urgent = make_gang("urgent", 1, priority_class="high")
    high = PriorityClass(metadata=ObjectMeta(name="high"), value=100)
    plain = CONFIG.replace("{name: proportion}", "{name: farewell}")
    return Stage(plain, nodes=[make_node("n", cpu=2)], gangs=[low, urgent], objects=[high], classes=[Farewell])


def said(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def stage() -> Stage:
    """Let one gang have room, and one lack it."""
    gangs = [make_gang("fits", 2, queue="a"), make_gang("large", 9, queue="a"), make_gang("other", 1, queue="b")]
    nodes = [make_node("n1", cpu=4), make_node("n2", cpu=2)]
    return Stage(CONFIG, nodes=nodes, queues=[make_queue("a"), make_queue("b")], gangs=gangs)


def test_session_span_contains_actions_and_turns() -> None:
    account = stage().session().accounts[-1]
    spans = Spans.of(account)
    (root,) = spans.named("session")
    assert said(root) == {
        "kframework.session": account.uid,
        "kframework.nodes.total": 2,
        "kframework.turns": len(account.turns),
        "kframework.bound": len(account.bound),
        "kframework.evicted": len(account.evicted),
    }
    assert [said(span)["kframework.action"] for span in spans.named("action")] == ["enqueue", "allocate", "preempt"]
    turns = [
        (at["kframework.action"], at["kframework.job"], at["kframework.queue"], at["kframework.outcome"])
        for at in map(said, spans.named("turn"))
    ]
    assert turns == [(turn.action, turn.job, turn.queue, turn.outcome.value) for turn in account.turns]
    assert len({span.context.trace_id for span in spans.all if span.context}) == 1


def test_turn_spans_have_task_counts_and_reasons() -> None:
    account = stage().session().accounts[-1]
    by_job = {(at["kframework.action"], at["kframework.job"]): at for at in map(said, Spans.of(account).named("turn"))}
    fits, large = by_job["allocate", "default/fits"], by_job["allocate", "default/large"]
    assert [fits[f"kframework.tasks.{each}"] for each in ("placed", "had", "minimum")] == [2, 2, 2]
    assert fits["k8s.namespace.name"] == "default"
    assert "kframework.message" not in fits
    assert large["kframework.tasks.rejected"] == 6
    assert large["kframework.rejectors"] == ("proportion",)
    assert "queue a has no share left for it" in large["kframework.message"]


def test_spans_start_at_clock_time_and_have_measured_durations() -> None:
    account = stage().session().accounts[-1]
    spans = Spans.of(account)
    (root,) = spans.named("session")
    assert root.start_time == round(account.at * 1e9)
    assert lasted(root) == sum(part.took for part in account.parts)
    actions = [part.took for part in account.parts if part.kind == "action"]
    assert [lasted(span) for span in spans.named("action")] == actions
    assert [lasted(span) for span in spans.named("turn")] == list(account.took)
    assert all(took > 0 for took in account.took)
    for action in spans.named("action"):
        inside = [turn for turn in spans.named("turn") if turn.parent == action.context]
        assert sum(map(lasted, inside)) <= lasted(action)
        assert inside == [] or inside[0].start_time == action.start_time
    parts = [span for span in spans.all if span.parent == root.context]
    assert [one.end_time for one in parts] == [*(two.start_time for two in parts[1:]), root.end_time]


def lasted(span: ReadableSpan) -> int:
    assert span.start_time is not None and span.end_time is not None
    return span.end_time - span.start_time


def test_span_of_failed_session_is_an_error() -> None:
    class Broken(Action):
        name = "broken"

        def run(self, session: Any) -> Any:
            yield
            raise ValueError("no")

    made = Stage(CONFIG.replace("preempt", "broken"), nodes=[make_node("n")], classes=[Broken])
    with pytest.raises(PluginError):
        made.session()
    (root,) = Spans.of(made.accounts[-1]).named("session")
    assert root.status.status_code is StatusCode.ERROR
    assert "plugin 'broken', hook run: ValueError: no" in str(root.status.description)


def test_sessions_are_sampled_by_their_sample_value() -> None:
    made = stage().session(40)
    spans = Spans(rate=500_000)
    for account in made.accounts:
        spans.observer.on_account(account)
    traced = {said(span)["kframework.session"] for span in spans.named("session")}
    assert traced == {account.uid for account in made.accounts if account.sample_value < 0.5}
    assert 0 < len(traced) < 40
    assert len({span.context.trace_id for span in spans.all if span.context}) == len(traced)


def test_account_without_turn_durations_is_traced() -> None:
    account = stage().session().accounts[-1]
    assert [part.took for part in span_of(replace(account, took=())).parts] == [
        part.took for part in span_of(account).parts
    ]


def parents_of(trace: Iterable[ReadableSpan]) -> set[tuple[str, str | None]]:
    names = {span.context.span_id: span.name for span in trace if span.context}
    return {(span.name, names[span.parent.span_id] if span.parent else None) for span in trace}


def test_every_span_and_attribute_is_documented() -> None:
    traces = [Spans.of(made.session().accounts[-1]).all for made in (stage(), closing())]
    parents = set().union(*map(parents_of, traces))
    assert {(row["name"], row["parent"]) for row in SPAN.finditer(REFERENCE)} == parents
    told = {(row["name"], span) for row in ATTRIBUTE.finditer(REFERENCE) for span in re.findall(r"\w+", row["spans"])}
    found = {(re.sub(r"plugin\..*", "plugin.NAME", name), span.name) for span in chain(*traces) for name in said(span)}
    assert found <= told
    assert {name for name, _ in told - found} <= {"kframework.hypernode"}
