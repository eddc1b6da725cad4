"""cel-go's extension of strings, version 2, with the clauses of `format`."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from typing import Any

from kframework.cel.costs import LIMIT, traversal
from kframework.cel.errors import CelError, CostLimitExceeded
from kframework.cel.functions import function, method
from kframework.cel.library.conversions import decode_text, write_double
from kframework.cel.library.times import write_duration, write_timestamp
from kframework.cel.values import (
    Duration,
    Timestamp,
    TypeValue,
    keys_of,
    type_name,
)

MOST_PRECISE = 1000  # digits behind the point; far more than a double has
_DEFAULT_PRECISION = 6
_CLAUSE = re.compile(r"%(?:(?P<percent>%)|(?:\.(?P<precision>[0-9]*))?(?P<letter>.?))", re.DOTALL)
_INFINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}

Clause = tuple[str, int]

#: The types that each clause takes, by name, and how an error lists them.
TAKES: dict[str, tuple[frozenset[str], str]] = {
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
TAKES["X"] = TAKES["x"]


def formatted(text: str, values: list[object]) -> str:
    """Return the text with its clauses written; raises CelError for a wrong clause, or for a wrong value."""
    written: list[str] = []
    rest = iter(values)
    end = 0
    for found, clause in clauses(text, len(values)):
        written.append(text[end : found.start()])
        written.append("%" if clause is None else _write(clause, next(rest)))
        end = found.end()
    return "".join(written) + text[end:]


def clauses(text: str, count: int) -> Iterator[tuple[re.Match[str], Clause | None]]:
    """Yield each clause of a text, None for `%%`; raises CelError at a wrong one, or at one with no value left."""
    used = 0
    for found in _CLAUSE.finditer(text):
        if found["percent"]:
            yield found, None
            continue
        if used >= count:
            raise CelError(f"index {used} out of range")
        used += 1
        letter, precision = found["letter"], found["precision"]
        if not letter:
            raise CelError("unexpected end of string")
        if precision == "" or (precision and int(precision[:9]) > MOST_PRECISE):
            raise CelError("could not parse formatting clause: error while parsing precision")
        if letter not in TAKES:
            raise CelError(f'could not parse formatting clause: unrecognized formatting clause "{letter}"')
        yield found, (letter, int(precision) if precision else _DEFAULT_PRECISION)


def not_taken(letter: str, type: str) -> CelError:
    """Return the error of a clause that does not take values of a type."""
    return CelError(f"error during formatting: {TAKES[letter][1]}, was given {type}")


def _write(clause: Clause, value: Any) -> str:
    letter, precision = clause
    if type_name(value) not in TAKES[letter][0]:
        raise not_taken(letter, type_name(value))
    if letter not in "fe":
        return _WRITERS[letter](value)
    number = _INFINITE.get(value) if isinstance(value, str) else value
    if not isinstance(number, float):
        raise not_taken(letter, "string")
    if not math.isfinite(number):
        return "NaN" if math.isnan(number) else "∞" if number > 0 else "-∞"
    if letter == "f":
        return f"{number:,.{precision}f}"  # the printer of the locale en_US groups digits
    mantissa, _, exponent = f"{number:.{precision}e}".partition("e")
    return f"{mantissa}×10{exponent.lstrip('+').translate(_SUPERSCRIPTS)}"


_SUPERSCRIPTS = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")


def _hexadecimal(value: Any) -> str:
    if isinstance(value, str):
        return value.encode().hex()
    return value.hex() if isinstance(value, bytes) else format(value, "x")


def _string(value: Any) -> str:
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case int():
            return str(int(value))
        case float():
            return write_double(value)
        case bytes():
            return decode_text(value)
        case Duration():
            return write_duration(value)
        case Timestamp():
            return write_timestamp(value)
        case TypeValue():
            return value.name
        case list():
            return f"[{', '.join(map(_inside, value))}]"
        case dict():
            pairs = sorted(zip(map(_inside, keys_of(value)), map(_inside, value.values()), strict=True))
            return f"{{{', '.join(f'{key}:{entry}' for key, entry in pairs)}}}"
    return "null"


def _inside(value: Any) -> str:
    """Write a value within a list or map, where strings have quotes."""
    match value:
        case str():
            return _quoted(value)
        case bytes():
            return f"b{_quoted(decode_text(value))}"
        case float():
            return f"{value:.6f}" if math.isfinite(value) else _quoted(write_double(value))
        case Duration():
            return f'duration("{write_duration(value)}")'
        case Timestamp():
            return f'timestamp("{write_timestamp(value)}")'
    if type_name(value) not in TAKES["s"][0]:
        raise CelError(f"error during formatting: no formatting function for {type_name(value)}")
    return _string(value)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped.encode("unicode_escape").decode() if not escaped.isprintable() else escaped}"'


_WRITERS: dict[str, Callable[[Any], str]] = {
    "s": _string,
    "d": str,
    "b": lambda value: format(int(value), "b"),
    "o": lambda value: format(value, "o"),
    "x": _hexadecimal,
    "X": lambda value: _hexadecimal(value).upper(),
}


_SPACES = "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029"
_SPACES += "\u202f\u205f\u3000"
_QUOTES = str.maketrans({found: f"\\{letter}" for found, letter in zip('\a\b\f\n\r\t\v\\"', 'abfnrtv\\"', strict=True)})


def _within(text: str, index: int) -> int:
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
    found = text.count(old)
    replaced = found if count < 0 else min(count, found)
    if len(text) + replaced * (len(new) - len(old)) > LIMIT:
        raise CostLimitExceeded  # upstream counts by what is read, so that it has no cost there
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
    return text[_within(text, start) : _within(text, end)]


def _join(items: list[str], separator: str = "") -> str:
    if all(isinstance(item, str) for item in items):
        return separator.join(items)
    raise CelError("join: invalid input")


def _ascii(change: Callable[[str], str]) -> Callable[[str], str]:
    table = {code: change(chr(code)) for code in range(128)}
    return lambda text: text.translate(table)


OVERLOADS = [
    *method("charAt", "string, int -> string", apply=lambda text, at: text[_within(text, at) : at + 1]),
    *method("indexOf", "string, string -> int", "string, string, int -> int", apply=_index_of),
    *method("lastIndexOf", "string, string -> int", apply=lambda text, part: text.rfind(part)),
    *method("lastIndexOf", "string, string, int -> int", apply=_last_index_of_from),
    *method("lowerAscii", "string -> string", apply=_ascii(str.lower)),
    *method("upperAscii", "string -> string", apply=_ascii(str.upper)),
    *method("replace", "string, string, string -> string", "string, string, string, int -> string", apply=_replace),
    *method("split", "string, string -> list(string)", "string, string, int -> list(string)", apply=_split),
    *method("substring", "string, int -> string", apply=lambda text, start: text[_within(text, start) :]),
    *method("substring", "string, int, int -> string", apply=_substring_range),
    *method("trim", "string -> string", apply=lambda text: text.strip(_SPACES)),
    *method("join", "list(string) -> string", "list(string), string -> string", apply=_join),
    *method("format", "string, list(dyn) -> string", apply=formatted, cost=traversal),
    *function("strings.quote", "string -> string", apply=lambda text: f'"{text.translate(_QUOTES)}"', cost=traversal),
]
