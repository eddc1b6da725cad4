"""The documents name the rooms that imports are held to, in the same order."""

from __future__ import annotations

import re
from collections.abc import Iterable

from tests.architecture.rooms import ROOMS
from tests.architecture.sources import ROOT

PAGE = ROOT / "docs/explanation/architecture.md"
CONTRIBUTING = ROOT / "CONTRIBUTING.md"

#: The command is no room that a reader looks for.
UNLISTED = {"__main__"}


def test_drawing_shows_the_packages_in_order() -> None:
    drawing = PAGE.read_text().partition("<!-- not run: a drawing -->\n```\n")[2].partition("```")[0]
    columns = (re.split(r" {3,}", line)[0] for line in re.sub(r"(?<=\w)  (?=\w)", " ", drawing).splitlines())
    assert rooms_in(word for column in columns for word in column.split()) == list(ROOMS)


def test_table_describes_the_packages_in_order() -> None:
    table = PAGE.read_text().partition("| Room | What it is |")[2].partition("\n\n")[0]
    first_cells = (line.split("|")[1] for line in table.splitlines() if line.startswith("| ["))
    named = rooms_in(name for cell in first_cells for name in re.findall(r"\[([\w.]+)\]", cell))
    assert named == [room for room in ROOMS if room not in UNLISTED]


def test_files_in_the_table_of_changes_exist() -> None:
    assert missing_files(PAGE.read_text().partition("| Change | Product |")[2].partition("\n\n")[0]) == []


def missing_files(table: str) -> list[str]:
    """Return the files of the product in the second cells of a table that do not exist; NAME and * stand for any."""
    cells = (line.split(" | ")[1] for line in table.splitlines() if line.startswith("| ") and " | " in line)
    paths = (path for cell in cells for path in re.findall(r"`([a-z_]+/[a-z_/.]+\.(?:py|js|txt))`", cell))
    return [path for path in paths if not (ROOT / "kframework" / path).exists()]


def test_missing_file_is_reported() -> None:
    table = "| A field | `objects/node.py`; `attic/box.py` (`_write`), `plugins/NAME.py` | tests |"
    assert missing_files(table) == ["attic/box.py"]


def test_contributing_lists_the_packages_in_order() -> None:
    paragraph = CONTRIBUTING.read_text().partition("The rooms, ground first")[2].partition(". [")[0]
    assert rooms_in(re.findall(r"`([\w.]+)`", paragraph)) == [room for room in ROOMS if room not in UNLISTED]


def rooms_in(words: Iterable[str]) -> list[str]:
    """Return the words that name rooms, as they come."""
    return [word for word in words if word in ROOMS]


def test_other_words_are_ignored() -> None:
    assert rooms_in(["state", "attic", "core.queue"]) == ["state", "core.queue"]
