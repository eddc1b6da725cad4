"""Results of replays: notices of versions, the differences as tables or JSON, and a summary."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from kframework.cli.options import WideForm
from kframework.cli.printing import print_json, print_table
from kframework.clock import rfc3339
from kframework.errors import escape_text
from kframework.explain.text import BRIEF
from kframework.observe.text_table import NONE, format_count
from kframework.verbosity import notify_user

if TYPE_CHECKING:
    from kframework.observe.recording.diff import DecisionDiff, ReplayResult, Unrepeated
    from kframework.observe.recording.reader import RecordingReader

#: The number of names in a notice; JSON has all of them.
_MAX_NAMES = 5

_HEADERS = ("RECORDED", "NOW", "DIFFERENCE", "MESSAGE")
_WIDE_HEADERS = (
    "ATTEMPT", "TIME", "POD", "PROFILE", "RECORDED", "SCORE", "FEASIBLE", "NOW", "SCORE", "FEASIBLE", "DIFFERENCE",
    "MESSAGE",
)  # fmt: skip

#: The fields of a decision in JSON: the outcome, without measurements.
_DECISION_FIELDS = (
    "result",
    "node",
    "score",
    "ties",
    "best_nodes",
    "evaluated",
    "feasible",
    "reasons",
    "nominated",
    "victims",
    "message",
)


def report_versions(recorded: RecordingReader) -> None:
    """Report that other versions may decide otherwise, and that a beginning is missing."""
    from kframework._version import __version__
    from kframework.observe.recording.engines import distribution_of

    maker, this = recorded.header.made_by, f"kframework {__version__}"
    if maker != this:
        notify_user("notice", f"recorded by {maker}, replayed by {this}: decisions may differ")
    recorded_by, installed = recorded.header.distribution, distribution_of(recorded.header.engine)
    if installed and recorded_by != installed:
        notify_user("notice", f"recorded with {recorded_by}, replayed by {installed}: decisions may differ")
    if recorded.header.part > 1:
        part = recorded.header.part
        notify_user("notice", f"part {part} of a recording; starts from the state at the end of part {part - 1}")


def print_differences(result: ReplayResult, output: WideForm | None) -> None:
    """Print a table of the decisions that differ, or all as JSON."""
    differences = [diff for diff in result.differences if diff.subject]
    if output is WideForm.JSON:
        from kframework.cli.answers import ReplayDifferences

        answer = ReplayDifferences(
            compared={record: len(names) for record, names in result.compared.items()},
            part=result.part,
            not_repeated=result.unrepeated,
            cut_off=result.cut_off,
            differences=[_to_item(diff) for diff in result.differences],
        )
        print_json(answer)
    elif differences and differences[0].record != "attempt":
        _print_engine_records(differences, result, output)
    elif differences and output is WideForm.WIDE:
        print_table(_WIDE_HEADERS, [_wide_row(diff) for diff in differences])
    elif differences:
        print_table(("ATTEMPT", "POD", *_HEADERS), [(str(diff.name), *_row(diff)) for diff in differences])


def _print_engine_records(differences: Sequence[DecisionDiff], result: ReplayResult, output: WideForm | None) -> None:
    """Print the differences in an engine's own records, such as sessions; consecutive ones share a row."""
    record, subject = differences[0].record.upper(), differences[0].subject_kind.upper()
    if output is WideForm.WIDE:
        rows = [(str(diff.name), rfc3339(diff.at), *_row(diff)) for diff in differences]
        print_table((record, "TIME", subject, *_HEADERS), rows)
    else:
        rows = [(names, *_row(diff)) for names, diff in _merge_consecutive(differences, result)]
        print_table((f"{record}S", subject, *_HEADERS), rows)


def _to_item(diff: DecisionDiff) -> dict[str, object]:
    recorded, replayed = _decision_fields(diff.recorded), _decision_fields(diff.replayed)
    decisions = {"recorded": recorded, "now": replayed}
    if diff.record == "attempt":
        return {"attempt": diff.name, "pod": diff.subject, "difference": diff.kind, **decisions}
    if not diff.subject:
        return {"account": diff.title, "difference": ", ".join(diff.fields), **decisions}
    about = {diff.record: diff.name, "at": diff.at, diff.subject_kind: diff.subject}
    return {**about, "difference": diff.kind, "message": diff.message, **diff.details, **decisions}


def _decision_fields(decision: object) -> object:
    """Return a decision's fields for JSON; an engine's own record unchanged."""
    from kframework.core.cycle.records import Decision

    if not isinstance(decision, Decision):
        return decision
    return {field: getattr(decision, field) for field in _DECISION_FIELDS}


def _row(diff: DecisionDiff) -> tuple[str, ...]:
    return diff.subject, diff.recorded_text, diff.replayed_text, diff.kind, diff.message


def _wide_row(diff: DecisionDiff) -> tuple[str, ...]:
    from kframework.core.cycle.records import Decision

    decision = diff.recorded or diff.replayed
    assert isinstance(decision, Decision)
    recorded = (diff.recorded_text, *_score_and_feasible(diff.recorded))
    replayed = (diff.replayed_text, *_score_and_feasible(diff.replayed))
    about = (str(diff.name), rfc3339(diff.at), diff.subject, decision.profile)
    return *about, *recorded, *replayed, diff.kind, diff.message


def _score_and_feasible(decision: object) -> tuple[str, str]:
    """Return score and number of feasible nodes; a score only if there were several nodes to choose from."""
    from kframework.core.cycle.records import Decision

    if not isinstance(decision, Decision):
        return NONE, NONE
    return str(decision.score) if decision.best_nodes else NONE, str(decision.feasible)


def _merge_consecutive(differences: Sequence[DecisionDiff], result: ReplayResult) -> list[tuple[str, DecisionDiff]]:
    """Merge equal differences of one subject in consecutive records: return the records' names, and the first."""
    positions = {name: position for position, name in enumerate(result.compared[differences[0].record])}
    stretches: list[list[DecisionDiff]] = []
    latest: dict[str, list[DecisionDiff]] = {}
    for diff in differences:
        before = latest.get(diff.subject)
        if before and before[-1].kind == diff.kind and positions[before[-1].name] + 1 == positions[diff.name]:
            before.append(diff)
        else:
            latest[diff.subject] = [diff]
            stretches.append(latest[diff.subject])
    ends = ((stretch[0], stretch[-1]) for stretch in stretches)
    return [(f"{first.name}" if first is last else f"{first.name}-{last.name}", first) for first, last in ends]


def report_unrepeated(unrepeated: Unrepeated, *, cut_off: bool) -> None:
    """Report what a replay did not decide again."""
    if cut_off:
        notify_user("notice", "the recording is incomplete: its writer was killed, or still runs")
    for what, names in _format_unrepeated(unrepeated):
        notify_user("notice", f"not repeated: {what}: {BRIEF.names(names, _MAX_NAMES)}")


def _format_unrepeated(unrepeated: Unrepeated) -> Iterator[tuple[str, Sequence[str]]]:
    if unrepeated.late_rejections:
        yield "attempts that failed in Reserve or Permit", list(map(str, unrepeated.late_rejections))
    if unrepeated.earlier_pods:
        yield "attempts at pods from before the recording", list(map(str, unrepeated.earlier_pods))
    if unrepeated.gated_pods:
        yield "PreEnqueue of gated pods", unrepeated.gated_pods
    if unrepeated.hooks:
        yield "calls of hooks", unrepeated.hooks


def summarise_replay(result: ReplayResult, configuration: str) -> None:
    """Print the number of repeated decisions and of differences by kind, as the last line."""
    sys.stdout.flush()  # so that the summary is last if both streams have one destination
    report_unrepeated(result.unrepeated, cut_off=result.cut_off)
    compared = " and ".join(format_count(len(names), record) for record, names in result.compared.items())
    kinds = Counter(diff.kind for diff in result.differences)
    counts = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
    skipped = len(result.unrepeated.late_rejections) + len(result.unrepeated.earlier_pods)
    same = result.attempts - skipped
    outcomes = {
        f"{kinds.total()} different ({counts})": bool(counts),
        f"{same} the same" if skipped else "all the same": not counts and (same or not skipped),
        f"{skipped} not repeated": bool(skipped),
    }
    outcome = ", ".join(text for text, applies in outcomes.items() if applies)
    sys.stderr.write(f"{compared} replayed with {escape_text(configuration)}: {outcome}\n")
