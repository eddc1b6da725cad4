from __future__ import annotations

import pytest

from kframework.cel.errors import CelError
from kframework.cel.lexer import parse_bytes, parse_string, tokenize


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("", "end"),
        ("a.b // c", "ident . ident end"),
        ("1 1u 0x1F 1.5 .5 1e3 1.e", "int uint int float float float int . ident end"),
        ("a&&b||!c", "ident && ident || ! ident end"),
        ("a<=b>=c!=d==e", "ident <= ident >= ident != ident == ident end"),
        ("x[?'a'].?b", "ident [ ? string ] . ? ident end"),
        ("b'a' rb 'a'", "bytes ident string end"),
        ("'''a'b''' \"\"\"c\"\"\"", "string string end"),
    ],
)
def test_tokens_have_kinds(text: str, kinds: str) -> None:
    assert [token.kind for token in tokenize(text)] == kinds.split()


@pytest.mark.parametrize("text", ["a = b", "'a", '"a\n"', "#", "a | b", "`a`"])
def test_invalid_token_is_an_error(text: str) -> None:
    with pytest.raises(CelError, match="token recognition error"):
        list(tokenize(text))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("'a\\nb'", "a\nb"),
        (r"'\x41\u0042\U00000043\104'", "ABCD"),
        (r"'\'\"\`\?\\'", "'\"`?\\"),
        (r"r'\n'", r"\n"),
        ("'''a\nb'''", "a\nb"),
        ("''", ""),
        ("''''''", ""),
        ("'©'", "©"),
    ],
)
def test_string_literal_is_parsed(text: str, value: str) -> None:
    assert parse_string(next(tokenize(text))) == value


@pytest.mark.parametrize(
    ("text", "value"), [("b'abc'", b"abc"), (r"b'\xff\377'", b"\xff\xff"), ("b'é'", "é".encode()), (r"br'\x'", rb"\x")]
)
def test_bytes_literal_is_parsed(text: str, value: bytes) -> None:
    assert parse_bytes(next(tokenize(text))) == value


@pytest.mark.parametrize("text", [r"'\q'", r"'\x4'", r"'\uD800'", r"'\U00110000'", r"'\8'"])
def test_wrong_escape_is_an_error(text: str) -> None:
    with pytest.raises(CelError):
        parse_string(next(tokenize(text)))


@pytest.mark.parametrize("text", [r"b'\u0041'", r"b'\q'"])
def test_wrong_escape_of_bytes_is_an_error(text: str) -> None:
    with pytest.raises(CelError):
        parse_bytes(next(tokenize(text)))
