"""cel-go's extension of strings, version 2."""

from __future__ import annotations

from collections.abc import Callable

from kframework.cel.costs import LIMIT, traversal
from kframework.cel.errors import CelError, CostLimitExceeded
from kframework.cel.functions import function, method
from kframework.cel.library.string_format import formatted

_SPACES = "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029"
_SPACES += "\u202f\u205f\u3000"
_QUOTES = str.maketrans(
    {
        "\a": "\\a",
        "\b": "\\b",
        "\f": "\\f",
        "\n": "\\n",
        "\r": "\\r",
        "\t": "\\t",
        "\v": "\\v",
        "\\": "\\\\",
        '"': '\\"',
    }
)


def _within(text: str, index: int) -> int:
    if 0 <= index <= len(text):
        return index
    raise CelError(f"index out of range: {index}")


def _char_at(text: str, index: int) -> str:
    _within(text, index)
    return text[index : index + 1]


def _index_of(text: str, part: str, offset: int = 0) -> int:
    if not part:
        return offset
    if offset < 0:
        raise CelError(f"index out of range: {offset}")
    return text.find(part, offset)


def _last_index_of(text: str, part: str) -> int:
    if not part:
        return len(text)
    return text.rfind(part)


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


def _substring(text: str, start: int) -> str:
    return text[_within(text, start) :]


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


def _quote(text: str) -> str:
    return f'"{text.translate(_QUOTES)}"'


OVERLOADS = [
    *method("charAt", "string, int -> string", apply=_char_at),
    *method("indexOf", "string, string -> int", "string, string, int -> int", apply=_index_of),
    *method("lastIndexOf", "string, string -> int", apply=_last_index_of),
    *method("lastIndexOf", "string, string, int -> int", apply=_last_index_of_from),
    *method("lowerAscii", "string -> string", apply=_ascii(str.lower)),
    *method("upperAscii", "string -> string", apply=_ascii(str.upper)),
    *method("replace", "string, string, string -> string", "string, string, string, int -> string", apply=_replace),
    *method("split", "string, string -> list(string)", "string, string, int -> list(string)", apply=_split),
    *method("substring", "string, int -> string", apply=_substring),
    *method("substring", "string, int, int -> string", apply=_substring_range),
    *method("trim", "string -> string", apply=lambda text: text.strip(_SPACES)),
    *method("join", "list(string) -> string", "list(string), string -> string", apply=_join),
    *method("format", "string, list(dyn) -> string", apply=formatted, cost=traversal),
    *function("strings.quote", "string -> string", apply=_quote, cost=traversal),
]
