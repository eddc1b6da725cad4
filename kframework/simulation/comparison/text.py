"""A comparison in words: its headline, the rows of its tables, and Markdown for a pull request."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from html import escape

from kframework.errors import escape_text
from kframework.observe.text_table import NONE, format_count
from kframework.simulation.comparison.result import ConfigurationComparison, MeasureDifference, PodChange
from kframework.simulation.sweep.summary import format_mean, format_number

#: The headers of the tables.
POD_HEADERS, MEASURE_HEADERS, CAUSE_HEADERS = (
    ("POD", "BASELINE", "NEW", "DIFFERENCE", "WHY"),
    ("MEASURE", "BASELINE", "NEW", "DIFFERENCE"),
    ("PODS", "DIFFERENCE", "WHY"),
)
WIDE_POD_HEADERS: tuple[str, ...] = (*POD_HEADERS[:-1], "ATTEMPT", "PLUGIN", "LEAD IN SCORES", "WHY")

#: The maximum number of pods in Markdown: a comment on GitHub has at most 65,536 characters.
MAX_MARKDOWN_PODS = 100

#: Differences of measures below this are not printed; JSON has all.
_NEGLIGIBLE = 5e-5

#: Characters that mean something in Markdown.
_MARKUP = re.compile(r"([\\`*_\[\]|~@#])")


def headline(result: ConfigurationComparison) -> str:
    """Summarise a comparison in one sentence."""
    pods = format_count(result.pods, "pod") if result.pods < 1000 else f"{result.pods:,} pods"
    if not result.moved:
        return f"This change moves none of {pods}"
    sentence = f"This change moves {result.moved:,} of {pods}"
    lost = result.changes.get(PodChange.FITS_NO_MORE, 0)
    if not lost:
        return sentence
    reasons = (each.reason for each in result.causes if each.change is PodChange.FITS_NO_MORE)
    reason = next(filter(None, reasons), "")
    return f"{sentence}; {lost:,} no longer fit{'s' if lost == 1 else ''}{f', because {reason}' if reason else ''}"


def describe(result: ConfigurationComparison) -> str:
    """Say what was compared."""
    return f"{result.new} compared with {result.baseline} on {', '.join(result.source)}"


def pod_rows(result: ConfigurationComparison) -> Iterator[tuple[str, ...]]:
    """Yield the cells of each pod that differs."""
    for each in result.differences:
        yield each.pod, each.baseline or NONE, each.new or NONE, each.change, each.message


def wide_pod_rows(result: ConfigurationComparison) -> Iterator[tuple[str, ...]]:
    """Yield the cells of each pod with its attempt, and how the lead of the new node changed by plugin."""
    for each, (*cells, message) in zip(result.differences, pod_rows(result), strict=True):
        scores = () if each.cause is None else each.cause.scores
        leads = ", ".join(
            f"{score.plugin} {_format_lead(score.baseline)} → {_format_lead(score.new)}" for score in scores
        )
        plugin = "" if each.cause is None else each.cause.plugin
        yield *cells, str(each.attempt or NONE), plugin or NONE, leads or NONE, message


def _format_lead(lead: int | None) -> str:
    return NONE if lead is None else f"{lead:+}" if lead else "0"


def cause_rows(result: ConfigurationComparison) -> Iterator[tuple[str, ...]]:
    """Yield the cells of each reason with its number of pods."""
    for each in result.causes:
        yield f"{each.pods:,}", each.change, each.reason


def measure_rows(result: ConfigurationComparison) -> Iterator[tuple[str, ...]]:
    """Yield the cells of each measure, with `*` if its difference is larger than chance."""
    for each in result.measures:
        yield (
            each.measure.replace("_", " "),
            format_mean(each.baseline, each.baseline_margin),
            format_mean(each.new, each.new_margin),
            _format_difference(each),
        )


def _format_difference(measure: MeasureDifference) -> str:
    if not measure.difference or abs(measure.difference) < _NEGLIGIBLE:
        return ""
    sign = "+" if measure.difference > 0 else "-"
    return f"{sign}{format_number(abs(measure.difference), 3)}{'*' if measure.is_significant else ''}"


def measures_note(result: ConfigurationComparison) -> str:
    """Say how far the differences of measures may be due to chance, or why there are no measures; "" if neither."""
    if not result.seeds:
        return "no waiting times or utilisation: a recording continues as it happened, whatever is decided"
    if not any(each.difference for each in result.measures):
        return ""
    if len(result.seeds) == 1:
        return "one seed: differences of measures may be due to chance"
    return f"means over {len(result.seeds)} seeds, ± 95 % confidence; * marks differences larger than chance"


def format_markdown(result: ConfigurationComparison) -> str:
    """Write a comparison as a comment for a pull request."""
    return "\n".join(_markdown_lines(result)) + "\n"


def _markdown_lines(result: ConfigurationComparison) -> Iterator[str]:
    yield f"### {_escape(headline(result))}"
    yield ""
    yield f"{_escape(describe(result))}."
    if result.causes:
        yield from _markdown_table(CAUSE_HEADERS, [*cause_rows(result)])
    if result.measures:
        yield from _markdown_table(MEASURE_HEADERS, [*measure_rows(result)])
    if note := measures_note(result):
        yield ""
        yield f"{_escape(note).capitalize()}."
    if result.differences:
        rows = [*pod_rows(result)]
        yield ""
        yield f"<details><summary>{len(rows):,} pods</summary>"
        yield from _markdown_table(POD_HEADERS, rows[:MAX_MARKDOWN_PODS])
        if len(rows) > MAX_MARKDOWN_PODS:
            yield ""
            yield f"… and {len(rows) - MAX_MARKDOWN_PODS:,} more"
        yield ""
        yield "</details>"


def _markdown_table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield ""
    yield f"| {' | '.join(header.capitalize() for header in headers)} |"
    yield f"|{' --- |' * len(headers)}"
    for row in rows:
        yield f"| {' | '.join(map(_escape, row))} |"


def _escape(text: str) -> str:
    """Escape text from a cluster: it must neither end a cell nor mention anyone."""
    return _MARKUP.sub(r"\\\1", escape(escape_text(text), quote=False)).replace("\\@", "@\u200b")
