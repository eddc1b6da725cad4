"""From the text of an expression to its tokens."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from kframework.cel.errors import CelError


class Token(NamedTuple):
    """A word of the expression: `kind` is `float`, `int`, `uint`, `string`, `bytes`, `ident`, `end` or the sign."""

    kind: str
    text: str
    position: int


_QUOTED = r"""\"\"\"(?:\\.|[^\\])*?\"\"\"|'''(?:\\.|[^\\])*?'''|"(?:\\.|[^"\\\r\n])*"|'(?:\\.|[^'\\\r\n])*'"""
_RAW = r"""\"\"\".*?\"\"\"|'''.*?'''|"[^"\r\n]*"|'[^'\r\n]*'"""
_TOKEN = re.compile(
    rf"""
    (?P<space>[\t\f\r\n ]+ | //[^\n]*)
  | (?P<text>[bB]?(?:[rR](?:{_RAW})|(?:{_QUOTED})))
  | (?P<float>[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+|\.[0-9]+(?:[eE][+-]?[0-9]+)?)
  | (?P<uint>(?:0x[0-9a-fA-F]+|[0-9]+)[uU])
  | (?P<int>0x[0-9a-fA-F]+|[0-9]+)
  | (?P<ident>[A-Za-z_][A-Za-z0-9_]*)
  | (?P<sign>&&|\|\||[=!<>]=|[-+*/%<>!?:.,(){{}}\[\]])
    """,
    re.VERBOSE | re.DOTALL,
)

_ESCAPE = re.compile(
    r"\\(?:(?P<plain>[abfnrtv\"'\\?`])|[xX](?P<x>[0-9a-fA-F]{2})|u(?P<u>[0-9a-fA-F]{4})|U(?P<U>[0-9a-fA-F]{8})"
    r"|(?P<octal>[0-3][0-7]{2})|(?P<wrong>.?))",
    re.DOTALL,
)
_PLAIN = dict(zip("abfnrtv", "\a\b\f\n\r\t\v", strict=True))


def tokens(text: str) -> Iterator[Token]:
    """Yield the tokens, an `end` last; raises CelError at what is none."""
    position = 0
    while position < len(text):
        found = _TOKEN.match(text, position)
        if found is None:
            raise CelError(f"Syntax error: token recognition error at: '{text[position]}'", position)
        kind, word = str(found.lastgroup), found.group()
        if kind == "text":
            yield Token("bytes" if word[0] in "bB" else "string", word, position)
        elif kind != "space":
            yield Token(word if kind == "sign" else kind, word, position)
        position = found.end()
    yield Token("end", "<EOF>", position)


def string(token: Token) -> str:
    """Return what a string literal says; raises CelError for a wrong escape."""
    body, is_raw = _body(token.text)
    if is_raw:
        return body
    try:
        return _ESCAPE.sub(lambda found: chr(_code(found)), body)
    except ValueError as error:
        raise CelError(str(error), token.position) from None


def byte_string(token: Token) -> bytes:
    """Return what a bytes literal says, where a numeric escape is a byte; raises CelError for a wrong escape."""
    body, is_raw = _body(token.text[1:])
    if is_raw:
        return body.encode()
    found, rest = bytearray(), 0
    try:
        for escape in _ESCAPE.finditer(body):
            found += body[rest : escape.start()].encode()
            if escape["u"] or escape["U"]:
                raise ValueError("unable to unescape string")
            found.append(_code(escape))
            rest = escape.end()
    except ValueError as error:
        raise CelError(str(error), token.position) from None
    return bytes(found) + body[rest:].encode()


def _body(text: str) -> tuple[str, bool]:
    is_raw = text[0] in "rR"
    quoted = text[1:] if is_raw else text
    quotes = 3 if quoted[:3] in ('"""', "'''") and len(quoted) >= 6 else 1
    return quoted[quotes:-quotes].replace("\r\n", "\n").replace("\r", "\n"), is_raw


def _code(escape: re.Match[str]) -> int:
    if plain := escape["plain"]:
        return ord(_PLAIN.get(plain, plain))
    if octal := escape["octal"]:
        return int(octal, 8)
    digits = escape["x"] or escape["u"] or escape["U"]
    if digits is None:
        raise ValueError("unable to unescape string")
    code = int(digits, 16)
    if code > 0x10FFFF or 0xD800 <= code < 0xE000:
        raise ValueError("invalid unicode code point")
    return code
