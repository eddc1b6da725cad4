"""Random expressions of CEL's core that are well typed: another implementation gives their values."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

#: Each type, and what an expression of it may be: `{int}` stands for another expression, of that type. A conversion is
#: never of a literal: of one that fails cel-go says so when it compiles. Nor is anything looked for in `[]`: cel-go
#: does not evaluate it then.
_FORMS: dict[str, tuple[str, ...]] = {
    "int": (
        "({int} + {int})",
        "({int} - {int})",
        "({int} * {int})",
        "({int} / {int})",
        "({int} % {int})",
        "-({int})",
        "({bool} ? {int} : {int})",
        "{ints}[{int}]",
        "{map}[{string}]",
        "size({string})",
        "{ints}.size()",
        "int(0.0 + {double})",
        "int(0u + {uint})",
        "int('' + {string})",
    ),
    "uint": ("({uint} + {uint})", "({uint} - {uint})", "({uint} / {uint})", "({uint} % {uint})", "uint(0 + {int})"),
    "double": (
        "({double} + {double})",
        "({double} * {double})",
        "-({double})",
        "double({int})",
        "double('' + {string})",
    ),
    "string": ("({string} + {string})", "string({int})", "string({bool})", "({bool} ? {string} : {string})"),
    "ints": (
        "({ints} + {ints})",
        "[{int}, {int}]",
        "{ints}.map(x, x + {int})",
        "{ints}.filter(x, x > {int})",
        "{ints}.map(y, y < {int}, {int})",
    ),
    "map": ("{{'a': {int}, 'b': {int}}}", "{{{string}: {int}}}"),
    "bool": (
        "({bool} && {bool})",
        "({bool} || {bool} || {bool})",
        "!({bool})",
        "({int} < {int})",
        "(dyn({int}) <= {double})",
        "(dyn({uint}) > {int})",
        "({double} >= dyn({uint}))",
        "({string} < {string})",
        "({int} == {int})",
        "(dyn({int}) == {double})",
        "(dyn({uint}) != {int})",
        "({string} == {string})",
        "({ints} == {ints})",
        "({map} == {map})",
        "({int} in [1, 2, -3])",
        "({int} in ([0] + {ints}))",
        "({string} in {map})",
        "{string}.startsWith({string})",
        "{string}.endsWith({string})",
        "{string}.contains({string})",
        "{ints}.all(x, x > {int} && {bool})",
        "{ints}.exists(x, {int} / x == {int})",
        "{ints}.exists_one(x, x == {int})",
        "{map}.all(k, k == {string})",
        "has({map}.a)",
        "(type(dyn({int})) == type({int}))",
        "({bool} ? {bool} : {bool})",
    ),
}
_LITERALS: dict[str, tuple[str, ...]] = {
    "int": ("0", "1", "2", "-3", "9223372036854775807", "-9223372036854775808"),
    "uint": ("0u", "1u", "7u", "18446744073709551615u"),
    "double": ("0.0", "1.0", "-2.5", "1e19", "3.0"),
    "string": ("''", "'a'", "'b'", "'©x'", "'12'"),
    "ints": ("[]", "[1, 2, 3]", "[0]"),
    "map": ("{'a': 1}", "{'b': 0, 'a': 2}"),
    "bool": ("true", "false"),
}


@st.composite
def _expression(draw: DrawFn, type: str, depth: int) -> str:
    if depth == 0 or draw(st.integers(0, 4)) == 0:
        return draw(st.sampled_from(_LITERALS[type]))
    form = draw(st.sampled_from(_FORMS[type]))
    text = ""
    for part in _parts(form):
        is_hole = part.startswith("{") and part[1:-1] in _LITERALS
        text += draw(_expression(part[1:-1], depth - 1)) if is_hole else part
    return text


def _parts(form: str) -> list[str]:
    """Return the literal text of a form and its `{type}` holes, in order."""
    for name in _LITERALS:
        form = form.replace(f"{{{name}}}", f"\0{{{name}}}\0")
    return [part for part in form.replace("{{", "{").replace("}}", "}").split("\0") if part]


BOOL_EXPRESSIONS: SearchStrategy[str] = _expression("bool", 4)
