"""`kframework conformance`: replay recorded answers of kube-scheduler, and compare."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Annotated

import typer

from kframework.cli.options import Verbosity
from kframework.cli.printing import DataForm, print_answer, print_lines, print_table, progress_bar
from kframework.observe.text_table import NONE, format_count

if TYPE_CHECKING:
    from kframework.cli.answers import ConformanceSuite
    from kframework.testing.conformance.cases import Case
    from kframework.testing.conformance.replay import CaseComparison, ConformanceSummary, Suite

#: The number of differences listed per suite; JSON has them all.
_MAX_LISTED = 5


def command(
    files: Annotated[
        list[str], typer.Argument(metavar="FILE", help="File of recorded cases: JSON lines, plain or gzip; repeatable.")
    ],
    output: Annotated[
        DataForm | None,
        typer.Option("-o", "--output", help="Print JSON or YAML with every difference, instead of a table."),
    ] = None,
    emulated_version: Annotated[
        str | None, typer.Option(metavar="VERSION", help="Only the answers of this minor of Kubernetes, 1.36 or 1.37.")
    ] = None,
    show: Annotated[str | None, typer.Option(metavar="ID", help="Print only this case, field by field.")] = None,
    verbosity: Verbosity = 0,
) -> None:
    """Replay recorded answers of kube-scheduler and compare.

    Runs every case through the installed plugins and a whole scheduling cycle. Prints how many cases of each suite have
    no difference, and what was not compared. Exits 1 if a compared field differs.
    """
    from kframework.core.runtime.registry import Registry
    from kframework.testing.conformance.replay import ConformanceSummary, replay

    registry = Registry.from_installed()
    if show is not None:
        case = _find_case(show, files)
        comparison = replay(case.of_minor(emulated_version or case.minors()[-1]), registry)
        _print_case(comparison, output)
        raise typer.Exit(1 if comparison.differences else 0)
    summary = ConformanceSummary()
    for case in _with_progress(_read_cases(files)):
        for minor in case.minors():
            if emulated_version in (None, minor):
                summary.add(replay(case.of_minor(minor), registry))
    _print(summary, output)
    raise typer.Exit(0 if summary.overall.passed == summary.overall.total else 1)


def _read_cases(files: Sequence[str]) -> Iterator[Case]:
    from kframework.testing.conformance.cases import read

    for file in files:
        yield from read(file)


def _find_case(id: str, files: Sequence[str]) -> Case:
    from kframework.errors import InputError

    for case in _read_cases(files):
        if case.id == id:
            return case
    raise InputError(f"there is no case {id!r}", file=", ".join(files))


def _with_progress(cases: Iterator[Case]) -> Iterator[Case]:
    with progress_bar("cases") as update:
        for done, case in enumerate(cases):
            update(done, None)
            yield case


def _print(summary: ConformanceSummary, output: DataForm | None) -> None:
    from kframework.cli.answers import ConformanceResult
    from kframework.objects.problem import format_path

    if output is not None:
        print_answer(output, ConformanceResult(suites=tuple(map(_describe, summary))))
        return
    minors = sorted({suite.minor for suite in summary})
    passed = {(suite.name, suite.minor): f"{suite.passed}/{suite.total}" for suite in summary}
    names = dict.fromkeys(suite.name for suite in summary)
    print_table(("SUITE", *minors), [(name, *(passed.get((name, minor), "") for minor in minors)) for name in names])
    rows: list[tuple[str, ...]] = []
    for suite in summary:
        differences = [(case, fact) for case, facts in suite.differences.items() for fact in facts]
        for case, fact in differences[:_MAX_LISTED]:
            rows.append((case, format_path(fact.path), _format_value(fact.expected), _format_value(fact.got)))
        if len(differences) > _MAX_LISTED:
            more = f"and {len(differences) - _MAX_LISTED} more in {format_count(len(suite.differences), 'case')}"
            rows.append((suite.name, more, "", ""))
    if rows:
        print_lines("")
        print_table(("CASE", "FIELD", "EXPECTED", "GOT"), rows)
    if summary.overall.uncompared:
        print_lines("", "not compared:")
    for reason, same in groupby(summary.overall.uncompared, key=lambda part: part.reason):
        parts = [f"{part.part} of {format_count(part.cases, 'case')}" for part in same]
        print_lines(f"  {reason}: {', '.join(parts)}")
    print_lines("", f"total  {summary.overall.passed}/{summary.overall.total}")


def _describe(suite: Suite) -> ConformanceSuite:
    from kframework.cli.answers import ConformanceSuite, FieldDifference
    from kframework.objects.problem import format_path

    differences = (
        FieldDifference(case=case, field=format_path(fact.path), expected=fact.expected, got=fact.got)
        for case, facts in suite.differences.items()
        for fact in facts
    )
    return ConformanceSuite(
        suite=suite.name,
        emulated_version=suite.minor,
        passed=suite.passed,
        total=suite.total,
        differences=tuple(differences),
        uncompared=tuple(suite.uncompared),
    )


def _print_case(comparison: CaseComparison, output: DataForm | None) -> None:
    from kframework.cli.answers import ComparedField, ConformanceCase
    from kframework.objects.problem import format_path

    if output is not None:
        compared = (
            ComparedField(field=format_path(fact.path), same=not fact.differs, expected=fact.expected, got=fact.got)
            for fact in comparison.facts
        )
        print_answer(output, ConformanceCase(case=comparison.case, fields=tuple(compared)))
        return
    rows = [
        (format_path(fact.path), "NO" if fact.differs else "yes", _format_value(fact.expected), _format_value(fact.got))
        for fact in comparison.facts
    ]
    print_table(("FIELD", "SAME", "EXPECTED", "GOT"), rows)
    if comparison.uncompared:
        print_lines("", "not compared:")
    for uncompared in comparison.uncompared:
        print_lines(f"  {uncompared.reason}: {uncompared.part}")


def _format_value(value: object) -> str:
    """Format a value as a table cell: statuses as text, others as JSON."""
    import msgspec

    from kframework.testing.conformance.recorded import RecordedStatus

    if value is None:
        return NONE
    return str(value) if isinstance(value, RecordedStatus | str) else msgspec.json.encode(value).decode()
