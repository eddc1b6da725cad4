"""What differs between minors of Kubernetes is asked in few places, when profiles are compiled."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.architecture.sources import listed, modules

#: The most places that may ask for the minor or a gate.
MOST = 40

_QUESTION = re.compile(r"\.is_1_36\b|\bgates\.is_enabled\(")


def test_questions_for_the_minor_are_few() -> None:
    places = [place for name, path in modules().items() for place in questions(name, path.read_text())]
    assert 0 < len(places) <= MOST, listed(places)


def questions(module: str, source: str) -> Iterator[str]:
    """Yield the lines that ask for the minor or a gate."""
    for number, line in enumerate(source.splitlines(), 1):
        if _QUESTION.search(line):
            yield f"{module}:{number}: {line.strip()}"


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("if handle.feature_gates.is_1_36: ...", 1),
        ('self.scores = gates.is_enabled("StorageCapacityScoring")', 1),
        ("def is_1_36(self) -> bool: ...", 0),
        ("log.is_enabled(5)", 0),
    ],
)
def test_question_is_found(source: str, found: int) -> None:
    assert len(list(questions("planted", source))) == found
