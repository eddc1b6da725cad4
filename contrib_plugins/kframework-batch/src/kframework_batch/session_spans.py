"""Traces of sessions: a span of each, of its actions, and of the turns of jobs, made of its account.

Spans have measured durations and follow each other without a gap: accounts have no start times of parts.
"""

from __future__ import annotations

from collections import Counter
from itertools import chain, repeat

from kframework.engine import Span, SpanAttributes, Tracing
from kframework_batch.account import Part, SessionAccount, SessionObserver, TaskVerdict, Turn
from kframework_batch.account_rows import format_reasons

#: The spans of measured parts besides actions, by kind.
_SPAN_NAMES = {"open": "open_session", "close": "close_session"}


class SessionSpans(SessionObserver):
    """An observer that has sessions traced, if they are of the sample."""

    def __init__(self, tracing: Tracing) -> None:
        self._tracing = tracing

    def session_ended(self, account: SessionAccount) -> None:
        self._tracing.record_span(f"session {account.uid}", account.sample_value, lambda: span_of(account))


def span_of(account: SessionAccount) -> Span:
    start = began = round(account.at * 1e9)
    turns: dict[str, list[tuple[Turn, int]]] = {}
    took = chain(account.took, repeat(0))  # early accounts have no durations
    for turn, nanoseconds in zip(account.turns, took, strict=False):
        turns.setdefault(turn.action, []).append((turn, nanoseconds))
    parts: list[Span] = []
    for kind in ("open", "action", "close"):
        of_kind = [part for part in account.parts if part.kind == kind]
        if kind == "action":
            for part in of_kind:
                parts.append(_action(part, began, turns.get(part.name, [])))
                began += part.took
        elif of_kind:  # a session that ended early was not closed
            plugins = {f"kframework.plugin.{part.name}": part.took / 1e9 for part in of_kind}
            parts.append(Span(_SPAN_NAMES[kind], began, sum(part.took for part in of_kind), plugins))
            began += parts[-1].took
    attributes: SpanAttributes = {
        "kframework.session": account.uid,
        "kframework.nodes.total": account.nodes,
        "kframework.turns": len(account.turns),
        "kframework.bound": len(account.bound),
        "kframework.evicted": len(account.evicted),
    }
    return Span("session", start, sum(part.took for part in parts), attributes, tuple(parts), account.failure)


def _action(part: Part, start: int, turns: list[tuple[Turn, int]]) -> Span:
    attributes: SpanAttributes = {"kframework.action": part.name, "kframework.turns": len(turns)}
    spans, began = list[Span](), start
    for turn, took in turns:
        spans.append(Span("turn", began, took, _attributes(turn)))
        began += took
    return Span("action", start, part.took, attributes, tuple(spans))


def _attributes(turn: Turn) -> SpanAttributes:
    verdicts = Counter(map(_verdict, turn.verdicts))
    rejectors = dict.fromkeys((turn.plugin, *(verdict.plugin for verdict in turn.verdicts)))
    attributes: SpanAttributes = {
        "kframework.message": format_reasons(turn),
        "kframework.rejectors": tuple(filter(None, rejectors)),
        "kframework.victims": tuple(victim.pod for victim in turn.victims),
        "kframework.hypernode": turn.hypernode,
    }
    return {
        "k8s.namespace.name": turn.job.rpartition("/")[0].rpartition("/")[2],
        "kframework.job": turn.job,
        "kframework.queue": turn.queue,
        "kframework.action": turn.action,
        "kframework.outcome": turn.outcome.value,
        "kframework.tasks.had": turn.had,
        "kframework.tasks.minimum": turn.minimum,
        **{f"kframework.tasks.{kind}": count for kind, count in sorted(verdicts.items())},
        **{name: value for name, value in attributes.items() if value},
    }


def _verdict(verdict: TaskVerdict) -> str:
    if not verdict.node:
        return "rejected"
    return "promised" if verdict.promised else "placed"
