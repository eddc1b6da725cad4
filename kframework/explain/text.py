"""Explanations as text: the output of `kframework explain`, under forty lines unless it is wide."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from textwrap import wrap
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from kframework.errors import escape_text
from kframework.observe.text_table import NONE, format_count, table

if TYPE_CHECKING:
    from kframework.core.cycle.records import Decision
    from kframework.core.sources import SourceStatus
    from kframework.explain.explanation import (
        Assessment,
        Explanation,
        GroupExplanation,
        NodeChoice,
        NodeScore,
        PreemptionPreview,
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
        visible_items = self.first(names, most)
        more = (len(names) if count is None else count) - len(visible_items)
        return ", ".join(visible_items) + (f" and {more} more" if more > 0 else "")

    def lines(self, lines: Sequence[str], most: int, more: str) -> Iterator[str]:
        """Yield the lines to show, and last the number of others: `more` with its `{}` filled in."""
        visible_items = self.first(lines, most)
        yield from visible_items
        if len(visible_items) < len(lines):
            yield more.format(len(lines) - len(visible_items))


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


#: The number of reasons, example nodes, best nodes and placements, nodes with nominated pods, victims, remedies, wakers
#: and kinds of pods of a group shown.
_REASONS, _EXAMPLES, _TOP, _NOMINATED, _VICTIMS, _REMEDIES, _WAKERS, _MEMBERS = 5, 2, 3, 2, 3, 5, 3, 8

#: The width of a paragraph.
_WIDTH = 120

#: The participles of actions.
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
    "update_pod_generated_resource_claim": "resource claim created",
}


def format_explanation(explanation: Explanation, *, wide: bool = False) -> str:
    """Format an explanation as text; `wide` leaves nothing out."""
    layout = Layout(wide)
    remedies = [remedy.text for remedy in layout.first(explanation.remedies, _REMEDIES)]
    alone = " this pod alone" if explanation.group is not None else ""
    return format_sections(
        format_fields(_header_fields(explanation, layout)),
        () if explanation.group is None else _format_group(explanation.group, layout),
        () if explanation.choice is None else _format_choice_made(explanation.choice, layout),
        _format_assessment(explanation, layout),
        (f"WHAT WOULD HELP{alone}, each by itself:", *format_list(remedies)) if remedies else (),
        _format_preemption(explanation.preemption, layout) if explanation.preemption is not None else (),
        _format_end(explanation, layout),
    )


def _header_fields(explanation: Explanation, layout: Layout) -> dict[str, str]:
    tries, last = explanation.attempts, explanation.last_decision
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
        "Last attempt": "" if last is None else _format_last_attempt(explanation, last),
        "Condition": explanation.condition if last is None else "",
        "Message": last.message if layout.wide and last is not None else "",
    }


def _format_last_attempt(explanation: Explanation, last: Decision) -> str:
    when = f"{_format_span(explanation.at - last.popped_at)} ago"
    if last.node:
        ended = explanation.binding.message if explanation.binding is not None else ""
        return f"{when}: {_format_choice(last)}{f'; {ended}' if ended else ''}"
    assessment = explanation.assessment
    if explanation.group is not None and last.message == explanation.group.condition != "":
        return f"{when}, rejected with its group"
    if last.reasons and last.reasons == assessment.reasons and last.nodes == assessment.nodes:
        return f"{when}, with the same result as now"
    return f"{when}: {last.message}"


def _format_choice(decision: Decision) -> str:
    if not decision.best_nodes:
        return f"{decision.node}, the only feasible node of {decision.evaluated} evaluated"
    drawn = f", chosen at random from {decision.ties} with this score" if decision.ties > 1 else ""
    others = [f"{node} had {score}" for node, score in decision.best_nodes if node != decision.node]
    scores_of_others = f" ({', '.join(others)})" if others and not drawn else ""
    feasible = f"{decision.feasible} of {decision.evaluated} evaluated nodes fit"
    return f"{decision.node} with score {decision.score}{drawn}{scores_of_others}; {feasible}"


def _format_group(group: GroupExplanation, layout: Layout) -> Iterator[str]:
    pods = format_count(group.pods, "pod")
    if not group.exists:
        yield f"GROUP {group.name}: WAITS FOR a PodGroup (scheduling.k8s.io) of this name; there is none. Its pods:"
    else:
        policy = "not a gang" if group.minimum is None else f"a gang of at least {group.minimum}"
        domain = f", within one {group.domain}" if group.domain else ""
        tree = f", below CompositePodGroup {group.tree}" if group.tree else ""
        waiting = group.pods - group.scheduled
        room = "" if group.fits is None else f"; {group.fits} of {waiting} waiting find nodes together now"
        absent = (group.minimum or 0) - group.pods
        room = f"; it is not tried before {format_count(absent, 'more pod')} exist" if absent > 0 else room
        yield f"GROUP {group.name}, {policy}{tree}{domain}: {group.scheduled} of {pods} scheduled{room}."
        yield from (f"  Group {name} of the tree failed: {why}" for name, why in group.failed_groups.items())
        if group.lacks:
            yield f"  WAITS FOR {group.lacks}."
        if group.condition:
            yield f"  Condition: {group.condition}"
    first = group.failed_first.partition("/")[2]
    if first:
        yield f"  {first} failed first: {group.reason}"
    yield from _format_placements(group, layout)
    rows = list(_member_rows(group, first, layout))
    visible_rows = layout.first(rows, _MEMBERS)
    yield from format_table(("PODS", "STATE", "NODE", "MESSAGE"), visible_rows) if rows else ()
    if len(visible_rows) < len(rows):
        yield f"  ... and {len(rows) - len(visible_rows)} more rows; -o wide shows them"
    if group.remedies:
        yield "WHAT WOULD HELP the group, each by itself:"
        yield from format_list(remedy.text for remedy in group.remedies)


def _format_placements(group: GroupExplanation, layout: Layout) -> Iterator[str]:
    tried = len(group.placements) + group.placements_left_out
    rejected = [each for each in group.placements if not each.fits]
    if group.placement:
        yield f"  Placement: {group.placement}, of {tried} tried"
    elif tried:
        yield f"  None of {tried} placements fits:" if tried > 1 else "  The only placement does not fit:"
    if not group.placement or layout.wide:
        visible = layout.first(rejected, _TOP)
        rows = [
            (each.name, str(each.placed), each.failed_first.partition("/")[2] or NONE, each.reason or each.message)
            for each in visible
        ]
        yield from format_table(("PLACEMENT", "PODS", "FAILED FIRST", "MESSAGE"), rows) if rows else ()
        more = len(rejected) - len(visible) + group.placements_left_out
        if rows and more:
            yield f"  ... and {format_count(more, 'more placement')}{'' if layout.wide else '; -o wide shows more'}"


def _member_rows(group: GroupExplanation, first: str, layout: Layout) -> Iterator[tuple[str, str, str, str]]:
    """Yield a row for each kind of members, for each pod if it is wide; messages shown above are not repeated."""
    shown = {group.condition: "as the group", group.reason: f"as {first}", "": ""}
    for each in group.members:
        if each.pods == (group.failed_first,) and each.message == group.reason and not layout.wide:
            continue
        names, message = [pod.partition("/")[2] for pod in each.pods], shown.get(each.message, each.message)
        if layout.wide or len(names) == 1:
            nodes = each.nodes or (NONE,) * len(names)
            yield from ((name, each.state.value, node, message) for name, node in zip(names, nodes, strict=True))
        else:
            nodes = tuple(dict.fromkeys(each.nodes))
            where = layout.names(nodes, _EXAMPLES) or NONE
            yield f"{len(names)} pods", each.state.value, where, message


def _format_choice_made(choice: NodeChoice, layout: Layout) -> Iterator[str]:
    yield from wrap(f"WHY HERE: {choice.message}", width=_WIDTH, subsequent_indent="  ")
    if layout.wide and choice.weight_changes:
        yield f"  Each of these weights would put it on {choice.runner_up}:"
        rows = [(each.plugin, str(each.weight), str(each.new_weight)) for each in choice.weight_changes]
        yield from format_table(("PLUGIN", "WEIGHT", "INSTEAD"), rows)


def _format_assessment(explanation: Explanation, layout: Layout) -> Iterator[str]:
    assessment = explanation.assessment
    gated = " once it is no longer gated" if explanation.state.value == "gated" else ""
    again = " if it is scheduled again" if explanation.node else gated
    if assessment.fault:
        yield f"FAULT: {assessment.fault}"
    late = explanation.late_failure
    if late is not None:
        by = f" by {', '.join(late.plugins)}" if late.plugins else ""
        what = "REJECTED" if late.rejected else "FAILED"
        yield f"{what} at {late.point}{by} in the last attempt; explanations call no hook after Score."
    if not assessment.nodes:
        yield "There are no nodes."
    elif not assessment.feasible:
        yield f"WHY NOT: 0 of {_nodes(assessment.nodes)} fit{again}. ONLY: nodes rejected for this reason alone."
        yield from _format_rejections(assessment, layout)
    else:
        others = assessment.nodes - assessment.feasible
        rest = f", {others} do{'es' if others == 1 else ''} not" if others else ""
        yield f"WHERE: {assessment.feasible} of {_nodes(assessment.nodes)} fit{again}{rest}."
        yield from _format_scores(assessment, explanation.node, layout)
        if layout.wide and assessment.rejections:
            yield from _format_rejections(assessment, layout)
    for room in layout.first(assessment.kept_room, _NOMINATED):
        yield f"  Room on {room.node} is kept for {BRIEF.names(room.pods, _VICTIMS)}."


def _format_rejections(assessment: Assessment, layout: Layout) -> Iterator[str]:
    rejections = layout.first(assessment.rejections, _REASONS)
    rows = [
        (
            str(each.nodes),
            str(each.alone),
            each.plugin,
            each.reason,
            layout.names(each.examples, _EXAMPLES, each.nodes),
        )
        for each in rejections
    ]
    yield from format_table(("NODES", "ONLY", "PLUGIN", "REASON", "FOR EXAMPLE"), rows)
    more = len(assessment.rejections) - len(rejections) + assessment.reasons_left_out
    if more:
        yield f"  ... and {more} more reasons{'' if layout.wide else '; -o wide shows more'}"
    explained = set[str]()
    for details in assessment.details:
        if layout.wide or details.plugin not in explained:
            explained.add(details.plugin)
            yield f"  {details.plugin} on {details.node}:"
            yield from indent(details.lines, 2)


def _format_scores(assessment: Assessment, node: str, layout: Layout) -> Iterator[str]:
    if not assessment.top:
        return
    best = assessment.top[0]
    if assessment.feasible == 1:
        yield f"  It is {best.node}; a single feasible node is not scored."
        return
    if assessment.ties > 1:
        yield f"  {assessment.ties} nodes share the best score of {best.total}; one of them is chosen at random."
    elif len(assessment.top) > 1:
        second = assessment.top[1].node
        yield f"  {best.node} leads {second} by {assessment.margin}, mostly because of {assessment.decided_by}."
    own = next((each for each in assessment.top if each.node == node), None)
    if own is not None:
        rank = {1: "first", 2: "second", 3: "third"}.get(own.rank, f"{own.rank}th")
        yield f"  {node}, the pod's own node, ranks {rank} with {own.total}."
    if assessment.feasible > assessment.enough:
        yield f"  An attempt stops at {assessment.enough} feasible nodes; here all of them are compared."
    yield from indent(_score_table(assessment.top, node, layout))


def _score_table(top: Sequence[NodeScore], node: str, layout: Layout) -> Iterator[str]:
    nodes = [each for number, each in enumerate(top) if layout.wide or number < _TOP or each.node == node]
    rows: list[tuple[str, ...]] = []
    equal: list[str] = []
    for scores in zip(*(each.scores for each in nodes), strict=True):
        if not layout.wide and len({score.weighted for score in scores}) == 1 and len(nodes) > 1:
            equal.append(f"{scores[0].plugin} {scores[0].weighted}")
        else:
            cells = (f"{s.weighted} ({s.raw} -> {s.normalized})" if layout.wide else str(s.weighted) for s in scores)
            rows.append((scores[0].plugin, str(scores[0].weight), *cells))
    if rows:
        rows.append(("TOTAL", "", *(str(each.total) for each in nodes)))
        yield from table(("PLUGIN", "WEIGHT", *(each.node for each in nodes)), rows)
    else:
        yield f"For example: {', '.join(each.node for each in nodes)}."
    if equal:
        yield f"Equal on all of them: {', '.join(equal)}."


def _format_preemption(preemption: PreemptionPreview, layout: Layout) -> Iterator[str]:
    victims = layout.names(preemption.victims, _VICTIMS)
    if preemption.in_progress:
        yield f"PREEMPTION is in progress: waiting for {victims} to leave {preemption.node}."
    elif preemption.node:
        violated = preemption.broken_budgets
        budgets = f", violating {violated} budget{'' if violated == 1 else 's'}" if violated else ""
        yield f"PREEMPTION would help: evicting {victims} makes room on {preemption.node}{budgets}."
    else:
        yield f"PREEMPTION would not help: {preemption.why}{':' if preemption.reasons else '.'}"
        reasons = sorted(preemption.reasons.items(), key=lambda item: -item[1])
        yield from (f"  {_nodes(count)}: {reason}" for reason, count in layout.first(reasons, _VICTIMS))


def _format_end(explanation: Explanation, layout: Layout) -> Iterator[str]:
    if explanation.waiting is not None:
        yield from _format_waiting(explanation.waiting, explanation, layout)
    if explanation.sources:
        yield "OUTSIDE DATA that plugins use:"
        yield from (f"  {each.plugin}: source {each.source} {_format_source(each)}" for each in explanation.sources)
    yield from (f"Note: {note}." for note in explanation.notes)


def _format_waiting(waiting: Waiting, explanation: Explanation, layout: Layout) -> Iterator[str]:
    held = ", ".join(waiting.held_by)
    match explanation.state.value:
        case "active":
            others = waiting.active - 1
            yield f"WAITS FOR its turn{f', with {others} other active pods' if others else ''}."
        case "backoff":
            ends = _format_moment(waiting.until, explanation.at)
            yield f"WAITS FOR the end of its backoff, {ends}, or until no pod is active."
        case "waiting on permit":
            ends = _format_moment(waiting.until, explanation.at)
            yield f"WAITS FOR {held} to permit it, for {_format_wait(waiting, explanation)}; it is rejected {ends}."
        case "binding":
            hooks = ", ".join(f"{plugin}.{waiting.hook}" for plugin in waiting.held_by)
            yield f"WAITS in {hooks} for {_format_wait(waiting, explanation)}."
        case "gated":
            yield f"WAITS FOR {held}: {waiting.why}. It is checked again on these events:"
            yield from _format_wakers(waiting, layout)
        case _:
            yield "WAITS FOR one of these events, if it may help:"
            yield from _format_wakers(waiting, layout)
            yield f"  Without one it is retried {_format_moment(waiting.retried_at, explanation.at)}."


def _format_wait(waiting: Waiting, explanation: Explanation) -> str:
    since = explanation.at if waiting.queued_at is None else waiting.queued_at
    return f"{explanation.at - since:.0f} s, since {_format_moment(since, explanation.at).removeprefix('at ')}"


def _format_wakers(waiting: Waiting, layout: Layout) -> Iterator[str]:
    wakers = layout.first(waiting.wakers, _WAKERS)
    for waker in wakers:
        resources: dict[tuple[str, ...], list[str]] = {}
        for resource, actions in waker.events.items():
            resources.setdefault(tuple(actions), []).append(resource)
        events = "; ".join(
            f"{', '.join(names)} {', '.join(_ACTIONS.get(action, action) for action in actions)}"
            for actions, names in resources.items()
        )
        yield f"  {waker.plugin}: {events or 'no event'}"
    others = [waker.plugin for waker in waiting.wakers[len(wakers) :]]
    if others:
        yield f"  ... and events for {', '.join(others)}; -o wide shows them"


def _format_source(data: SourceStatus) -> str:
    error = f": {data.error}" if data.error else ""
    if data.age is None:
        return f"has no data yet{error}"
    values = f"{data.values} {data.by}{'' if data.values == 1 else 's'}"
    if data.fresh:
        return f"has {values}, updated {_format_span(data.age)} ago{f'; since then{error}' if error else ''}"
    return f"is stale: it has {values}, last updated {_format_span(data.age)} ago{error}"


def _nodes(count: int) -> str:
    return f"{count} node{'' if count == 1 else 's'}"


def _format_span(seconds: float) -> str:
    from kframework.config.duration import Duration

    return str(Duration(max(round(seconds), 0)))


def _format_moment(moment: float | None, now: float) -> str:
    from kframework.clock import rfc3339

    if moment is None:
        return "at some time"
    return f"at {rfc3339(moment)}, in {_format_span(moment - now)}" if moment > now else f"at {rfc3339(moment)}"
