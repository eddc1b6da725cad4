"""The parts of an expression all of which must be true: what stands between its outermost `&&`."""

from __future__ import annotations

from collections.abc import Iterator

_OPENING, _CLOSING = frozenset("([{"), frozenset(")]}")


def clauses(expression: str) -> list[str]:
    """Return the clauses of an expression as they are written; it alone where it is no row of `&&`."""
    from kframework.cel.errors import CelError  # loaded with the first selector: most clusters have none

    try:
        ends = list(_ends(expression))
    except CelError:
        ends = []
    bounds = [0, *(bound for end in ends for bound in (end, end + 2)), len(expression)]
    parts = (expression[begin:end].strip() for begin, end in zip(bounds[::2], bounds[1::2], strict=True))
    return [part for part in parts if part]


def _ends(expression: str) -> Iterator[int]:
    """Yield where the outermost `&&` stand; none where something that binds less stands beside them."""
    from kframework.cel.lexer import tokens

    found, depth, before = list[int](), 0, ""
    for kind, _, position in tokens(expression):
        depth += (kind in _OPENING) - (kind in _CLOSING)
        if depth == 0 and (kind == "||" or (kind == "?" and before != ".")):
            return
        if depth == 0 and kind == "&&":
            found.append(position)
        before = kind
    yield from found
