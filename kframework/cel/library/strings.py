"""cel-go's string extension, version 2, with `format`."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from typing import Any

from kframework.cel.costs import COST_LIMIT, traversal
from kframework.cel.errors import CelError, CostLimitExceeded
from kframework.cel.functions import function, method
from kframework.cel.library.conversions import decode_text, format_double
from kframework.cel.library.times import format_duration, format_timestamp
from kframework.cel.values import CelDuration, Timestamp, TypeValue, map_keys, type_name

MAX_PRECISION = 1000  # digits after the point; far more than a double has
_DEFAULT_PRECISION = 6
_CLAUSE = re.compile(r"%(?:(?P<percent>%)|(?:\.(?P<precision>[0-9]*))?(?P<letter>.?))", re.DOTALL)
_INFINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}

Clause = tuple[str, int]

#: The types that each clause accepts, and the message for others.
CLAUSE_TYPES: dict[str, tuple[frozenset[str], str]] = {
    "s": (
        frozenset(
            "list map int uint double bool string bytes type null_type google.protobuf.Duration "
            "google.protobuf.Timestamp".split()
        ),
        "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types and times",
    ),
    "d": (frozenset({"int", "uint"}), "decimal clause can only be used on integers"),
    "f": (frozenset({"double", "string"}), "fixed-point clause can only be used on doubles"),
    "e": (frozenset({"double", "string"}), "scientific clause can only be used on doubles"),
    "b": (frozenset({"int", "uint", "bool"}), "only integers and bools can be formatted as binary"),
    "x": (
        frozenset({"int", "uint", "string", "bytes"}),
        "only integers, byte buffers, and strings can be formatted as hex",
    ),
    "o": (frozenset({"int", "uint"}), "octal clause can only be used on integers"),
}
CLAUSE_TYPES["X"] = CLAUSE_TYPES["x"]


def format_text(text: str, values: list[object]) -> str:
    """Replace the clauses of a text by values; raises CelError for a wrong clause or value."""
    parts: list[str] = []
    rest = iter(values)
    end = 0
    for match, clause in parse_clauses(text, len(values)):
        parts.append(text[end : match.start()])
        parts.append("%" if clause is None else _format_clause(clause, next(rest)))
        end = match.end()
    return "".join(parts) + text[end:]


def parse_clauses(text: str, count: int) -> Iterator[tuple[re.Match[str], Clause | None]]:
    """Yield each clause of a text, None for `%%`; raises CelError for a wrong one, or one without a value."""
    used = 0
    for match in _CLAUSE.finditer(text):
        if match["percent"]:
            yield match, None
            continue
        if used >= count:
            raise CelError(f"index {used} out of range")
        used += 1
        letter, precision = match["letter"], match["precision"]
        if not letter:
            raise CelError("unexpected end of string")
        if precision == "" or (precision and int(precision[:9]) > MAX_PRECISION):
            raise CelError("could not parse formatting clause: error while parsing precision")
        if letter not in CLAUSE_TYPES:
            raise CelError(f'could not parse formatting clause: unrecognized formatting clause "{letter}"')
        yield match, (letter, int(precision) if precision else _DEFAULT_PRECISION)


def clause_error(letter: str, type: str) -> CelError:
    return CelError(f"error during formatting: {CLAUSE_TYPES[letter][1]}, was given {type}")


def _format_clause(clause: Clause, value: Any) -> str:
    letter, precision = clause
    if type_name(value) not in CLAUSE_TYPES[letter][0]:
        raise clause_error(letter, type_name(value))
    if letter not in "fe":
        return _FORMATTERS[letter](value)
    number = _INFINITE.get(value) if isinstance(value, str) else value
    if not isinstance(number, float):
        raise clause_error(letter, "string")
    if not math.isfinite(number):
        return "NaN" if math.isnan(number) else "∞" if number > 0 else "-∞"
    if letter == "f":
        return f"{number:,.{precision}f}"  # the en_US locale groups digits
    mantissa, _, exponent = f"{number:.{precision}e}".partition("e")
    return f"{mantissa}×10{exponent.lstrip('+').translate(_SUPERSCRIPTS)}"


_SUPERSCRIPTS = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")


def _format_hex(value: Any) -> str:
    if isinstance(value, str):
        return value.encode().hex()
    return value.hex() if isinstance(value, bytes) else format(value, "x")


def _format_value(value: Any) -> str:
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case int():
            return str(int(value))
        case float():
            return format_double(value)
        case bytes():
            return decode_text(value)
        case CelDuration():
            return format_duration(value)
        case Timestamp():
            return format_timestamp(value)
        case TypeValue():
            return value.name
        case list():
            return f"[{', '.join(map(_format_nested, value))}]"
        case dict():
            pairs = sorted(zip(map(_format_nested, map_keys(value)), map(_format_nested, value.values()), strict=True))
            return f"{{{', '.join(f'{key}:{entry}' for key, entry in pairs)}}}"
    return "null"


def _format_nested(value: Any) -> str:
    """Format a value inside a list or map, where strings have quotes."""
    match value:
        case str():
            return _quote(value)
        case bytes():
            return f"b{_quote(decode_text(value))}"
        case float():
            return f"{value:.6f}" if math.isfinite(value) else _quote(format_double(value))
        case CelDuration():
            return f'duration("{format_duration(value)}")'
        case Timestamp():
            return f'timestamp("{format_timestamp(value)}")'
    if type_name(value) not in CLAUSE_TYPES["s"][0]:
        raise CelError(f"error during formatting: no formatting function for {type_name(value)}")
    return _format_value(value)


def _quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped.encode("unicode_escape").decode() if not escaped.isprintable() else escaped}"'


_FORMATTERS: dict[str, Callable[[Any], str]] = {
    "s": _format_value,
    "d": str,
    "b": lambda value: format(int(value), "b"),
    "o": lambda value: format(value, "o"),
    "x": _format_hex,
    "X": lambda value: _format_hex(value).upper(),
}


_SPACES = "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029"
_SPACES += "\u202f\u205f\u3000"
_QUOTES = str.maketrans(
    {character: rf"\{letter}" for character, letter in zip('\a\b\f\n\r\t\v\\"', 'abfnrtv\\"', strict=True)}
)


def _check_index(text: str, index: int) -> int:
    if 0 <= index <= len(text):
        return index
    raise CelError(f"index out of range: {index}")


def _index_of(text: str, part: str, offset: int = 0) -> int:
    if not part:
        return offset
    if offset < 0:
        raise CelError(f"index out of range: {offset}")
    return text.find(part, offset)


def _last_index_of_from(text: str, part: str, offset: int) -> int:
    if not part:
        return offset
    if offset < 0:
        raise CelError(f"index out of range: {offset}")
    return text.rfind(part, 0, offset + len(part)) if offset < len(text) else -1


def _replace(text: str, old: str, new: str, count: int = -1) -> str:
    occurrences = text.count(old)
    replaced = occurrences if count < 0 else min(count, occurrences)
    if len(text) + replaced * (len(new) - len(old)) > COST_LIMIT:
        raise CostLimitExceeded  # upstream charges for the input only
    return text.replace(old, new, count)


def _split(text: str, separator: str, count: int = -1) -> list[str]:
    if count == 0:
        return []
    if separator:
        return text.split(separator, count - 1 if count > 0 else -1)
    if count < 0 or count >= len(text):
        return list(text)
    return [*text[: count - 1], text[count - 1 :]]


def _substring_range(text: str, start: int, end: int) -> str:
    if start > end:
        raise CelError(f"invalid substring range. start: {start}, end: {end}")
    return text[_check_index(text, start) : _check_index(text, end)]


def _join(items: list[str], separator: str = "") -> str:
    if all(isinstance(item, str) for item in items):
        return separator.join(items)
    raise CelError("join: invalid input")


def _ascii(change: Callable[[str], str]) -> Callable[[str], str]:
    table = {code: change(chr(code)) for code in range(128)}
    return lambda text: text.translate(table)


OVERLOADS = [
    *method("charAt", "string, int -> string", apply=lambda text, at: text[_check_index(text, at) : at + 1]),
    *method("indexOf", "string, string -> int", "string, string, int -> int", apply=_index_of),
    *method("lastIndexOf", "string, string -> int", apply=lambda text, part: text.rfind(part)),
    *method("lastIndexOf", "string, string, int -> int", apply=_last_index_of_from),
    *method("lowerAscii", "string -> string", apply=_ascii(str.lower)),
    *method("upperAscii", "string -> string", apply=_ascii(str.upper)),
    *method("replace", "string, string, string -> string", "string, string, string, int -> string", apply=_replace),
    *method("split", "string, string -> list(string)", "string, string, int -> list(string)", apply=_split),
    *method("substring", "string, int -> string", apply=lambda text, start: text[_check_index(text, start) :]),
    *method("substring", "string, int, int -> string", apply=_substring_range),
    *method("trim", "string -> string", apply=lambda text: text.strip(_SPACES)),
    *method("join", "list(string) -> string", "list(string), string -> string", apply=_join),
    *method("format", "string, list(dyn) -> string", apply=format_text, cost=traversal),
    *function("strings.quote", "string -> string", apply=lambda text: f'"{text.translate(_QUOTES)}"', cost=traversal),
]
