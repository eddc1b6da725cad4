"""The log: the messages of a reader, what is trimmed, what a what-if may discard."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kframework.state.log import UNREAD, Log


def filled(limit: int, entries: int) -> Log[int]:
    """Make a log to which the rows 0, 1, 2, ... were appended."""
    log: Log[int] = Log(limit)
    for row in range(entries):
        log.append(row)
    return log


def test_reader_gets_what_came_since() -> None:
    log = filled(10, 3)
    assert log.since(0) == [0, 1, 2]
    assert log.since(2) == [2]
    assert log.since(3) == []
    log.append(0)
    assert log.since(3) == [0]


def test_new_reader_has_everything_to_read() -> None:
    assert Log(4).since(UNREAD) is None
    assert filled(4, 2).since(UNREAD) is None


@pytest.mark.parametrize(
    ("entries", "kept"),
    [(0, 0), (4, 4), (8, 8), (9, 4), (10, 5), (13, 8), (14, 4)],
)
def test_log_keeps_one_to_two_times_its_limit(entries: int, kept: int) -> None:
    log = filled(4, entries)
    assert len(log._entries) == kept
    assert log.end == entries
    assert log.since(entries - kept) == list(range(entries - kept, entries))
    assert log.since(entries - kept - 1) is None


def test_raised_limit_holds_from_the_next_entry() -> None:
    log = filled(2, 4)
    log.limit = 4
    for row in range(4, 8):
        log.append(row)
    assert log.since(0) == list(range(8))


def test_unread_entries_are_discarded() -> None:
    log = filled(10, 2)
    reader = log.end
    log.since(reader)
    mark = log.end
    log.append(7)
    log.append(8)
    assert log.discard_since(mark)
    assert log.end == mark
    log.append(9)
    assert log.since(reader) == [9]


@pytest.mark.parametrize("read_after", [1, 2])
def test_read_entries_stay(read_after: int) -> None:
    log = filled(10, 2)
    mark = log.end
    for entry in (1, 2):
        log.append(entry)
        if entry == read_after:
            log.since(0)
    assert not log.discard_since(mark)
    assert log.since(mark) == [1, 2]


def test_first_reader_counts_too() -> None:
    log = filled(10, 2)
    mark = log.end
    log.append(7)
    assert log.since(UNREAD) is None
    position = log.end
    assert not log.discard_since(mark)
    log.append(8)
    assert log.since(position) == [8]


def test_mark_before_what_was_trimmed_cuts_nothing() -> None:
    log: Log[int] = Log(2)
    for row in range(6):
        log.append(row)
    assert not log.discard_since(1)
    assert log.since(3) == [3, 4, 5]


@given(
    st.integers(1, 4),
    st.lists(st.one_of(st.integers(0, 5), st.sampled_from(["read 0", "read 1", "mark", "cut"])), max_size=40),
)
def test_readers_miss_nothing(limit: int, steps: list[int | str]) -> None:
    """A row counts its changes; what a cut takes away is undone first. A reader's counts are true when it has read."""
    log: Log[int] = Log(limit)
    changes = dict.fromkeys(range(6), 0)
    marks: list[tuple[int, dict[int, int]]] = []
    copies: list[dict[int, int]] = [{}, {}]
    readers = [log.reader(), log.reader()]
    for step in steps:
        match step:
            case int():
                changes[step] += 1
                log.append(step)
            case "mark":
                marks.append((log.end, dict(changes)))
            case "cut" if marks:
                mark, before = marks.pop()
                for row in [row for row in changes if changes[row] != before[row]]:
                    changes[row] = before[row]
                    log.append(row)
                log.discard_since(mark)
            case "read 0" | "read 1":
                number = int(step[-1])
                rows = readers[number].read_new()
                copies[number].update({row: changes[row] for row in (changes if rows is None else rows)})
                assert copies[number] == changes


def test_reader_gets_each_change_once() -> None:
    log = filled(10, 2)
    reader = log.reader()
    assert reader.read_new() is None
    assert reader.read_new() == []
    log.append(7)
    assert reader.read_new() == [7]
    assert reader.read_new() == []
    reader.restart()
    assert reader.read_new() is None
