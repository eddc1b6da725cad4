from __future__ import annotations

import pytest

from kframework.cel.errors import CelError
from kframework.cel.parser import MAX_CHARACTERS, MAX_DEPTH, MAX_NESTING, parse
from kframework.cel.syntax import Call, Ident, List, Literal, Map, Select, SyntaxNode


def shape(node: SyntaxNode | None) -> str:
    """Write a tree with every call in brackets."""
    match node:
        case Literal(value=value):
            return repr(value)
        case Ident(name=name):
            return name
        case Select(operand=operand, field=field, test=test):
            return f"{'has ' if test else ''}{shape(operand)}.{field}"
        case Call(function=function, target=None, args=args):
            return f"({' '.join([function, *map(shape, args)])})"
        case Call(function=function, target=target, args=args):
            return f"({' '.join([shape(target), function, *map(shape, args)])})"
        case List(elements=elements):
            return f"[{' '.join(map(shape, elements))}]"
        case Map(keys=keys, values=values):
            return f"{{{' '.join(map(shape, [*keys, *values]))}}}"
    raise AssertionError(node)


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("1 + 2 * 3 - 4", "(_-_ (_+_ 1 (_*_ 2 3)) 4)"),
        ("a < b == c", "(_==_ (_<_ a b) c)"),
        ("a in b && c || d", "(_||_ (_&&_ (@in a b) c) d)"),
        ("a && b && c", "(_&&_ a b c)"),
        ("a ? b : c ? d : e", "(_?_:_ a b (_?_:_ c d e))"),
        ("!a", "(!_ a)"),
        ("!!a", "a"),
        ("--a", "a"),
        ("-1", "-1"),
        ("-a.b", "(-_ a.b)"),
        ("1 - -1", "(_-_ 1 -1)"),
        ("-9223372036854775808", "-9223372036854775808"),
        ("a.b[1].c(d)", "((_[_] a.b 1) c d)"),
        ("a.?b[?c]", "(_[?_] (_?._ a 'b') c)"),
        ("f(1, 2)", "(f 1 2)"),
        (".a.b", ".a.b"),
        ("[1, 2,]", "[1 2]"),
        ("[]", "[]"),
        ("{'a': 1, 'b': 2,}", "{'a' 'b' 1 2}"),
        ("has(a.b)", "has a.b"),
        ("(a)", "a"),
        ("a.in_", "a.in_"),
        ("true && null", "(_&&_ True None)"),
        ("0x1f == 1.5", "(_==_ 31 1.5)"),
    ],
)
def test_expression_parses_to_its_tree(text: str, tree: str) -> None:
    assert shape(parse(text)) == tree


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("", 0),
        ("a b", 2),
        ("(a", 2),
        ("a.", 2),
        ("a.1", 1),
        ("a.in", 2),
        ("f(1,)", 4),
        ("[1", 2),
        ("{1}", 2),
        ("{1: 2", 5),
        ("a ? b", 5),
        ("if", 0),
        ("while(1)", 0),
        ("9223372036854775808", 0),
        ("1 + 18446744073709551616u", 4),
        ("1e400", 0),
        ("99999999999999999999999999", 0),
        ("Foo{a: 1}", 3),
        ("! -a", 2),
    ],
)
def test_syntax_error_is_reported(text: str, position: int) -> None:
    with pytest.raises(CelError) as error:
        parse(text)
    assert error.value.position == position


@pytest.mark.parametrize(
    "text",
    [
        "(" * MAX_NESTING + "1" + ")" * MAX_NESTING,
        "1" + "+1" * MAX_DEPTH,
        "x" + ".optMap(a, a)" * 40,
        "'" + "a" * MAX_CHARACTERS + "'",
    ],
)
def test_length_and_depth_are_bounded(text: str) -> None:
    with pytest.raises(CelError, match="limit"):
        parse(text)


def test_long_flat_expression_parses() -> None:
    assert isinstance(parse(" && ".join(["true"] * 5000)), Call)
    assert isinstance(parse("(" * (MAX_NESTING - 1) + "1" + ")" * (MAX_NESTING - 1)), Literal)
