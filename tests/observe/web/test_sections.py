"""Tables of an engine's own: the first rows are made and no others, and what they lead to is found."""

from __future__ import annotations

from collections.abc import Iterator

from kframework.observe.web.sections import MAX_ROWS, Ref, Row, Section, SectionColumn

TITLES = (SectionColumn("Job"), SectionColumn("Queue"))


def rows(made: list[int]) -> Iterator[Row]:
    for number in range(10 * MAX_ROWS):
        made.append(number)
        yield Row((Ref("job", f"job-{number}"), "blue"))


def test_section_creates_only_the_first_rows_and_has_the_total() -> None:
    made: list[int] = []
    section = Section.from_rows("jobs", "Jobs", TITLES, rows(made), 10 * MAX_ROWS, note="Of today.")
    assert (len(section.rows), len(made), section.total, section.note) == (
        MAX_ROWS,
        MAX_ROWS,
        10 * MAX_ROWS,
        "Of today.",
    )


def test_section_refs_are_listed_in_order() -> None:
    shown = (Row((Ref("job", "a"), "x", None)), Row(("y", Ref("node", "n", "that one"), {"cpu": (1, 2)})))
    assert list(Section("s", "S", (), shown, 2).refs()) == [Ref("job", "a"), Ref("node", "n", "that one")]
