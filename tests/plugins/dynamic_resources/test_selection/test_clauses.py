"""An expression is parted at its outermost `&&`, and only where all parts must be true."""

from __future__ import annotations

import pytest

from kframework.plugins.dynamic_resources.selection import clauses


@pytest.mark.parametrize(
    ("expression", "parts"),
    [
        ("a", ["a"]),
        ("a && b && c", ["a", "b", "c"]),
        (" a\n&& b ", ["a", "b"]),
        ("a && (b && c || d)", ["a", "(b && c || d)"]),
        ("has(a.b) && [1, 2].all(x, x > 0 && x < 3)", ["has(a.b)", "[1, 2].all(x, x > 0 && x < 3)"]),
        ("{'a': b && c}.a && d", ["{'a': b && c}.a", "d"]),
        ("a == '&&' && b", ["a == '&&'", "b"]),
        ("a.?b.orValue(true) && c", ["a.?b.orValue(true)", "c"]),
        # What binds less holds it together.
        ("a && b || c", ["a && b || c"]),
        ("a ? b && c : d", ["a ? b && c : d"]),
        ("a && b ? c : d", ["a && b ? c : d"]),
        ("a && #", ["a && #"]),
        ("", []),
    ],
)
def test_clauses_are_what_must_all_be_true(expression: str, parts: list[str]) -> None:
    assert clauses(expression) == parts
