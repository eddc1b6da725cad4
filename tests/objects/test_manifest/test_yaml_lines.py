"""Line numbers in a YAML or JSON text."""

from __future__ import annotations

import pytest

from kframework.objects.manifest import find_line
from kframework.objects.problem import FieldPath

TEXT = """\
# a comment
a: 1
---
list:
- x: {y: 1}
  z: [1,
    2]
-
  x: 3
? [complex, key]
: value
last:
  deep: yes
"""


@pytest.mark.parametrize(
    ("document", "path", "line"),
    [
        (0, ("a",), 2),
        (1, (), 4),
        (1, ("list",), 4),
        (1, ("list", 0), 5),
        (1, ("list", 0, "x", "y"), 5),
        (1, ("list", 0, "z", 1), 7),
        (1, ("list", 1, "x"), 9),
        (1, ("list", 2), 4),
        (1, ("list", "x"), 4),
        (1, ("last", "deep"), 13),
        (1, ("last", "deep", "deeper"), 13),
        (1, ("none", "deep"), 4),
    ],
)
def test_longest_existing_part_of_a_path_is_found(document: int, path: FieldPath, line: int) -> None:
    assert find_line(TEXT, document, path) == line


def test_json_is_yaml_unless_tabs_indent_it() -> None:
    assert find_line('{"a": [\n  {"b":\n 1}]}', 0, ("a", 0, "b")) == 2
    assert find_line('\t{"a": 1}', 0, ("a",)) is None


def test_text_after_the_path_is_not_read() -> None:
    assert find_line("a:\n  b: 1\nc: [\n", 0, ("a", "b")) == 2
