"""Explanations as text: the output of `kframework explain`, under forty lines unless it is wide."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from kframework.errors import escape_text
from kframework.observe.text_table import NONE, table

if TYPE_CHECKING:
    from kframework.core.cycle.records import Decision
    from kframework.core.sources import SourceStatus
    from kframework.explain.explanation import (
        Assessment,
        Explanation,
        NodeScore,
        Preemption,
        Waiting,
    )


T = TypeVar("T")


class Layout(NamedTuple):
    """The amount of detail in an explanation: a few of everything, or all of it if it is `wide`."""

    wide: bool

    def first(self, items: Sequence[T], most: int) -> Sequence[T]:
        """Return the items to show, at most `most` unless it is wide."""
        return items if self.wide else items[:most]

    def names(self, names: Sequence[str], most: int, count: int | None = None) -> str:
        """Return the names to show and the number of others; `count` is the total, if not all are named."""
        shown = self.first(names, most)
        more = (len(names) if count is None else count) - len(shown)
        return ", ".join(shown) + (f" and {more} more" if more > 0 else "")

    def lines(self, lines: Sequence[str], most: int, more: str) -> Iterator[str]:
        """Yield the lines to show, and last the number of others: `more` with its `{}` filled in."""
        shown = self.first(lines, most)
        yield from shown
        if len(shown) < len(lines):
            yield more.format(len(lines) - len(shown))


#: Show a few of everything.
BRIEF = Layout(wide=False)


def format_sections(*sections: Iterable[str]) -> str:
    """Join sections by empty lines and escape control characters; empty sections are left out."""
    texts = ("\n".join(map(escape_text, section)) for section in sections)
    return "\n\n".join(filter(None, texts)) + "\n"


def format_fields(fields: Mapping[str, str]) -> Iterator[str]:
    """Format fields as `Name: value`, with aligned values; empty fields are left out."""
    width = max(map(len, fields)) + 2
    return (f"{f'{name}:':{width}}{value}" for name, value in fields.items() if value)


def format_list(lines: Iterable[str]) -> Iterator[str]:
    """Write lines as the items of a list."""
    return (f"  - {line}" for line in lines)


def format_table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Write a table below a heading."""
    return indent(table(headers, rows))


def indent(lines: Iterable[str], levels: int = 1) -> Iterator[str]:
    """Indent lines by two spaces a level."""
    return (f"{'  ' * levels}{line}" for line in lines)


#: The number of reasons, example nodes, best nodes, nodes with nominated pods, victims, remedies and wakers shown.
_REASONS, _EXAMPLES, _TOP, _KEPT, _VICTIMS, _REMEDIES, _WAKERS = 5, 2, 3, 2, 3, 5, 3

#: The verbs for actions.
_ACTIONS = {
    "add": "added",
    "delete": "deleted",
    "update": "changed",
    "update_node_allocatable": "allocatable changed",
    "update_node_label": "labels changed",
    "update_node_taint": "taints changed",
    "update_node_condition": "conditions changed",
    "update_node_annotation": "annotations changed",
    "update_node_declared_feature": "declared features changed",
    "update_pod_label": "labels changed",
    "update_pod_scale_down": "scaled down",
    "update_pod_toleration": "tolerations added",
    "update_pod_scheduling_gates_eliminated": "gates removed",
    "update_pod_generated_resource_claim": "resource claim made",
}


def text_of(explanation: Explanation, *, wide: bool = False) -> str:
    """Format an explanation as text; `wide` leaves nothing out."""
    layout = Layout(wide)
    helping = [remedy.text for remedy in layout.first(explanation.help, _REMEDIES)]
    return format_sections(
        format_fields(_head(explanation, layout)),
        _placement(explanation, layout),
        ("WHAT WOULD HELP, each by itself:", *format_list(helping)) if helping else (),
        _preemption(explanation.preemption, layout) if explanation.preemption is not None else (),
        _end(explanation, layout),
    )


def _head(explanation: Explanation, layout: Layout) -> dict[str, str]:
    tries = explanation.attempts
    attempts = "never tried" if not tries else "tried once" if tries == 1 else f"tried {tries} times"
    return {
        "Pod": explanation.pod,
        "Scheduler": explanation.profile,
        "Requests": ", ".join(f"{resource} {amount}" for resource, amount in explanation.requests.items()),
        "Claims": ", ".join(explanation.claims),
        "Priority": str(explanation.priority or ""),
        "Status": f"{explanation.state}, {attempts}",
        "Node": explanation.node or NONE,
        "Nominated": explanation.nominated,
        "Last attempt": _then(explanation),
        "Condition": explanation.condition if explanation.then is None else "",
        "Message": explanation.then.message if layout.wide and explanation.then is not None else "",
    }


def _then(explanation: Explanation) -> str:
    then = explanation.then
    if then is None:
        return ""
    when = f"{_span(explanation.at - then.popped_at)} ago"
    if then.node:
        ended = explanation.binding.message if explanation.binding is not None else ""
        return f"{when}: {_choice(then)}{f'; {ended}' if ended else ''}"
    if then.reasons and then.reasons == explanation.now.reasons and then.nodes == explanation.now.nodes:
        return f"{when}, with the same result as now"
    return f"{when}: {then.message}"


def _choice(then: Decision) -> str:
    if not then.top:
        return f"{then.node}, the only node that fitted of {_nodes(then.evaluated)} looked at"
    drawn = f", drawn from {then.ties} that shared it" if then.ties > 1 else ""
    others = [f"{node} had {score}" for node, score in then.top if node != then.node]
    ahead = f" ({', '.join(others)})" if others and not drawn else ""
    fitted = f"{then.feasible} of {_nodes(then.evaluated)} looked at fitted"
    return f"{then.node} with score {then.score}{drawn}{ahead}; {fitted}"


def _placement(explanation: Explanation, layout: Layout) -> Iterator[str]:
    now = explanation.now
    gated = " once it is let in" if explanation.state.value == "gated" else ""
    again = " if it were scheduled again" if explanation.node else gated
    if now.fault:
        yield f"FAULT: {now.fault}"
    if not now.nodes:
        yield "There are no nodes."
    elif not now.feasible:
        yield f"WHY NOT: {_nodes(now.nodes, 'none')} would do{again}. ALONE: nothing else stands against the pod there."
        yield from _rejections(now, layout)
    else:
        rest = f", {now.nodes - now.feasible} would not" if now.feasible < now.nodes else ""
        yield f"WHERE: {now.feasible} of {_nodes(now.nodes)} would do{again}{rest}."
        yield from _best(now, explanation.node, layout)
        if layout.wide and now.rejections:
            yield from _rejections(now, layout)
    for kept in layout.first(now.kept_room, _KEPT):
        yield f"  On {kept.node} room is kept for {BRIEF.names(kept.pods, _VICTIMS)}."


def _rejections(now: Assessment, layout: Layout) -> Iterator[str]:
    shown = layout.first(now.rejections, _REASONS)
    rows = [
        (
            str(each.nodes),
            str(each.alone),
            each.plugin,
            each.reason,
            layout.names(each.examples, _EXAMPLES, each.nodes),
        )
        for each in shown
    ]
    yield from format_table(("NODES", "ALONE", "PLUGIN", "REASON", "FOR EXAMPLE"), rows)
    more = len(now.rejections) - len(shown) + now.reasons_left_out
    if more:
        yield f"  ... and {more} more reasons{'' if layout.wide else '; -o wide shows more'}"
    explained = set[str]()
    for details in now.details:
        if layout.wide or details.plugin not in explained:
            explained.add(details.plugin)
            yield f"  On {details.node} {details.plugin} finds:"
            yield from indent(details.lines, 2)


def _best(now: Assessment, node: str, layout: Layout) -> Iterator[str]:
    if not now.top:
        return
    best = now.top[0]
    if now.feasible == 1:
        yield f"  It is {best.node}; where there is no choice, nothing is scored."
        return
    if now.ties > 1:
        yield f"  {now.ties} nodes share the best score of {best.total}: one of them would be drawn."
    elif len(now.top) > 1:
        yield f"  {best.node} is ahead of {now.top[1].node} by {now.margin}, most by what {now.decided_by} says."
    own = next((each for each in now.top if each.node == node), None)
    if own is not None:
        place = {1: "first", 2: "second", 3: "third"}.get(own.place, f"{own.place}th")
        yield f"  {node}, where the pod is, comes {place} with {own.total}."
    if now.feasible > now.enough:
        yield f"  An attempt looks at the first {now.enough} that would do; here all of them are compared."
    yield from indent(_score_table(now.top, node, layout))


def _score_table(top: Sequence[NodeScore], node: str, layout: Layout) -> Iterator[str]:
    """Format the best nodes side by side; unless it is wide, without plugins that score all of them equally."""
    shown = [each for number, each in enumerate(top) if layout.wide or number < _TOP or each.node == node]
    rows: list[tuple[str, ...]] = []
    alike: list[str] = []
    for scores in zip(*(each.scores for each in shown), strict=True):
        if not layout.wide and len({score.weighted for score in scores}) == 1 and len(shown) > 1:
            alike.append(f"{scores[0].plugin} {scores[0].weighted}")
        else:
            cells = (f"{s.weighted} ({s.raw} -> {s.normalized})" if layout.wide else str(s.weighted) for s in scores)
            rows.append((scores[0].plugin, str(scores[0].weight), *cells))
    if rows:
        rows.append(("TOTAL", "", *(str(each.total) for each in shown)))
        yield from table(("PLUGIN", "WEIGHT", *(each.node for each in shown)), rows)
    else:
        yield f"These are {', '.join(each.node for each in shown)}, for example."
    if alike:
        yield f"The same for all of them: {', '.join(alike)}."


def _preemption(preemption: Preemption, layout: Layout) -> Iterator[str]:
    victims = layout.names(preemption.victims, _VICTIMS)
    if preemption.in_progress:
        have = "has" if len(preemption.victims) == 1 else "have"
        yield f"PREEMPTION is under way: {victims} must go from {preemption.node}, and {have} not ended yet."
    elif preemption.node:
        broken = preemption.broken_budgets
        budgets = f", breaking {broken} disruption budgets" if broken else ""
        yield f"PREEMPTION would help: on {preemption.node}, if {victims} went{budgets}."
    else:
        yield f"PREEMPTION would not help: {preemption.why}{':' if preemption.reasons else '.'}"
        reasons = sorted(preemption.reasons.items(), key=lambda item: -item[1])
        yield from (f"  {_nodes(count)}: {reason}" for reason, count in layout.first(reasons, _VICTIMS))


def _end(explanation: Explanation, layout: Layout) -> Iterator[str]:
    if explanation.waiting is not None:
        yield from _waiting(explanation.waiting, explanation, layout)
    if explanation.outside:
        yield "OUTSIDE DATA that plugins go by:"
        yield from (f"  {each.plugin}: source {each.source} {_on_message(each)}" for each in explanation.outside)
    yield from (f"Note: {note}." for note in explanation.notes)


def _waiting(waiting: Waiting, explanation: Explanation, layout: Layout) -> Iterator[str]:
    held = ", ".join(waiting.held_by)
    match explanation.state.value:
        case "active":
            others = waiting.active - 1
            yield f"WAITS FOR its turn{f', with {others} other active pods' if others else ''}."
        case "backoff":
            ends = _moment(waiting.until, explanation.at)
            yield f"WAITS FOR the end of its backoff, {ends}, or for a moment with nothing else to do."
        case "waiting on permit":
            ends = _moment(waiting.until, explanation.at)
            yield f"WAITS FOR {held} to permit it, for {_seconds(waiting, explanation)}; they give up {ends}."
        case "binding":
            hooks = ", ".join(f"{plugin}.{waiting.hook}" for plugin in waiting.held_by)
            yield f"WAITS in {hooks} for {_seconds(waiting, explanation)}."
        case "gated":
            yield f"WAITS FOR {held}: {waiting.why}. It is looked at again when one of these happens:"
            yield from _wakers(waiting, layout)
        case _:
            yield "WAITS FOR one of these, if it may help:"
            yield from _wakers(waiting, layout)
            yield f"  It is tried all the same {_moment(waiting.retried_at, explanation.at)}."


def _seconds(waiting: Waiting, explanation: Explanation) -> str:
    since = explanation.at if waiting.queued_at is None else waiting.queued_at
    return f"{explanation.at - since:.0f} s, since {_moment(since, explanation.at).removeprefix('at ')}"


def _wakers(waiting: Waiting, layout: Layout) -> Iterator[str]:
    shown = layout.first(waiting.wakers, _WAKERS)
    for waker in shown:
        resources: dict[tuple[str, ...], list[str]] = {}
        for resource, actions in waker.events.items():
            resources.setdefault(tuple(actions), []).append(resource)
        events = "; ".join(
            f"{', '.join(names)} {', '.join(_ACTIONS.get(action, action) for action in actions)}"
            for actions, names in resources.items()
        )
        yield f"  {waker.plugin}: {events or 'nothing that it has named'}"
    others = [waker.plugin for waker in waiting.wakers[len(shown) :]]
    if others:
        yield f"  ... and what {', '.join(others)} would look at; -o wide shows it"


def _on_message(data: SourceStatus) -> str:
    error = f": {data.error}" if data.error else ""
    if data.age is None:
        return f"has no data yet{error}"
    values = f"{data.values} {data.by}{'' if data.values == 1 else 's'}"
    if data.fresh:
        return f"told of {values} {_span(data.age)} ago{f'; since then{error}' if error else ''}"
    return f"is stale: it last told of {values} {_span(data.age)} ago{error}"


def _nodes(count: int, word: str = "") -> str:
    number = f"{word} of {count}" if word else str(count)
    return f"{number} node{'' if count == 1 else 's'}"


def _span(seconds: float) -> str:
    from kframework.config.duration import Duration

    return str(Duration(max(round(seconds), 0)))


def _moment(moment: float | None, now: float) -> str:
    from kframework.clock import rfc3339

    if moment is None:
        return "at some time"
    return f"at {rfc3339(moment)}, in {_span(moment - now)}" if moment > now else f"at {rfc3339(moment)}"
