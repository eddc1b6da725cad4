"""Split an expression into tokens."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from kframework.cel.errors import CelError


class Token(NamedTuple):
    """A token; `kind` is `float`, `int`, `uint`, `string`, `bytes`, `ident`, `end`, or the sign itself."""

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


def tokenize(text: str) -> Iterator[Token]:
    """Yield the tokens, `end` last; raises CelError at an invalid one."""
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise CelError(f"Syntax error: token recognition error at: '{text[position]}'", position)
        kind, word = str(match.lastgroup), match.group()
        if kind == "text":
            yield Token("bytes" if word[0] in "bB" else "string", word, position)
        elif kind != "space":
            yield Token(word if kind == "sign" else kind, word, position)
        position = match.end()
    yield Token("end", "<EOF>", position)


def parse_string(token: Token) -> str:
    """Return the value of a string literal; raises CelError for a wrong escape."""
    body, is_raw = _unquote(token.text)
    return body if is_raw else _ESCAPE.sub(lambda escape: chr(_escape_code(escape, token)), body)


def parse_bytes(token: Token) -> bytes:
    """Return the value of a bytes literal, whose numeric escapes are bytes; raises CelError for a wrong escape."""
    body, is_raw = _unquote(token.text[1:])
    if is_raw:
        return body.encode()
    value, rest = bytearray(), 0
    for escape in _ESCAPE.finditer(body):
        value += body[rest : escape.start()].encode()
        if escape["u"] or escape["U"]:
            raise CelError("unable to unescape string", token.position)
        value.append(_escape_code(escape, token))
        rest = escape.end()
    return bytes(value) + body[rest:].encode()


def _unquote(text: str) -> tuple[str, bool]:
    is_raw = text[0] in "rR"
    quoted = text[1:] if is_raw else text
    quotes = 3 if quoted[:3] in ('"""', "'''") and len(quoted) >= 6 else 1
    return quoted[quotes:-quotes].replace("\r\n", "\n").replace("\r", "\n"), is_raw


def _escape_code(escape: re.Match[str], token: Token) -> int:
    if plain := escape["plain"]:
        return ord(_PLAIN.get(plain, plain))
    if octal := escape["octal"]:
        return int(octal, 8)
    digits = escape["x"] or escape["u"] or escape["U"]
    if digits is None:
        raise CelError("unable to unescape string", token.position)
    code = int(digits, 16)
    if code > 0x10FFFF or 0xD800 <= code < 0xE000:
        raise CelError("invalid unicode code point", token.position)
    return code
