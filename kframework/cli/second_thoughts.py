"""What another configuration would have decided of the recording of another engine, printed."""

from __future__ import annotations

import sys
from collections import Counter
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from kframework.cli.printing import print_json, print_table
from kframework.errors import visible
from kframework.verbosity import say

if TYPE_CHECKING:
    from kframework.observe.recording.engines import Otherwise, SecondThoughts
    from kframework.observe.recording.reader import Recorded


class Form(StrEnum):
    """The forms of the differences, beside the plain table."""

    WIDE = "wide"
    JSON = "json"


def reconsider_by_engine(recorded: Recorded, config: str, output: Form | None) -> None:
    """Have the engine whose recording it is ask this configuration, and print where it disagrees."""
    from kframework.clock import rfc3339
    from kframework.observe.recording.engines import kind_of_recording

    thoughts = kind_of_recording(recorded).reconsider(Path(recorded.file), config)
    found = thoughts.differences
    if output is Form.JSON:
        counts = {f"{thoughts.noun}s": len(thoughts.asked), "cutOff": thoughts.cut_off}
        items = [_item(each, thoughts.noun, thoughts.subject) for each in found]
        print_json({**counts, "differences": items})
    elif found and output is Form.WIDE:
        headers = (thoughts.noun.upper(), "TIME", thoughts.subject.upper(), *_HEADERS)
        print_table(headers, [(each.account, rfc3339(each.at), *_row(each)) for each in found])
    elif found:
        print_table(
            (f"{thoughts.noun.upper()}S", thoughts.subject.upper(), *_HEADERS),
            [(_named(each), *_row(each[0])) for each in _stretches(thoughts)],
        )
    sys.stdout.flush()  # so that the last line comes last where both streams go to one place
    say_cut_off(thoughts.cut_off)
    say_differences(f"{len(thoughts.asked)} {thoughts.noun}s", config, Counter(each.kind for each in found))


_HEADERS = ("RECORDED", "NOW", "DIFFERENCE", "MESSAGE")


def say_cut_off(cut_off: bool) -> None:
    """Say that a recording ends in the middle, if it does."""
    if cut_off:
        say("notice", "the recording ends in the middle: its writer was stopped, or is still at work")


def say_differences(asked: str, by: str, kinds: Counter[str]) -> None:
    """Say in the last line what was decided again, and how often in which way it was otherwise."""
    counts = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
    found = f"{kinds.total()} otherwise ({counts})" if counts else "all alike"
    sys.stderr.write(f"{asked} decided again by {visible(by)}: {found}\n")


def _stretches(thoughts: SecondThoughts) -> list[list[Otherwise]]:
    """Put differences together of which one goes on where the one before ended."""
    places = {account: place for place, account in enumerate(thoughts.asked)}
    stretches: list[list[Otherwise]] = []
    last: dict[str, list[Otherwise]] = {}
    for each in thoughts.differences:
        before = last.get(each.subject)
        if before and before[-1].kind == each.kind and places[before[-1].account] + 1 == places[each.account]:
            before.append(each)
        else:
            last[each.subject] = [each]
            stretches.append(last[each.subject])
    return stretches


def _named(stretch: list[Otherwise]) -> str:
    first, last = stretch[0].account, stretch[-1].account
    return first if first == last else f"{first}-{last}"


def _row(each: Otherwise) -> tuple[str, ...]:
    return each.subject, each.recorded, each.now, each.kind, each.message


def _item(each: Otherwise, noun: str, subject: str) -> dict[str, object]:
    said = {noun: each.account, "at": each.at, subject: each.subject, "difference": each.kind, "message": each.message}
    return {**said, **each.details}
