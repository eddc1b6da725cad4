from __future__ import annotations

import pytest

from kframework.cel.library.url import is_url
from tests.plugins.dynamic_resources.selecting import answer, fails


@pytest.mark.parametrize(
    "expression",
    [
        "url('HTTPS://u:p@example.com:80/a%20b/c?x=1&x=2&y=a+b#f').getScheme() == 'https'",
        "url('https://u:p@example.com:80/').getHost() == 'example.com:80'",
        "url('https://example.com:80/').getHostname() == 'example.com'",
        "url('https://[::1]:80/').getHostname() == '::1'",
        "url('https://example.com:80/').getPort() == '80' && url('https://[::1]/').getPort() == ''",
        "url('https://example.com/a%20b').getEscapedPath() == '/a%20b' && url('/a b').getEscapedPath() == '/a%20b'",
        "url('https://example.com/?x=1&x=2&y=a+b').getQuery() == {'x': ['1', '2'], 'y': ['a b']}",
        "url('https://example.com/#f').getEscapedPath() == '/' && url('/a').getScheme() == ''",
        "url('/a') == url('/a') && url('/a') != url('/b')",
        "url('mailto:a@b').getScheme() == 'mailto' && url('https://a/?x=%zz&;=1').getQuery() == {}",
    ],
)
def test_urls_have_parts(expression: str) -> None:
    assert answer(expression) is True


@pytest.mark.parametrize("text", ["https://example.com", "/a/b", "https://[::1]:80/", "file:///x", "http://é/"])
def test_valid_url_is_recognized(text: str) -> None:
    assert is_url(text)


@pytest.mark.parametrize(
    "text",
    ["", "example.com", "../a", ":a", "https://a:b/", "https://a b/", "https://[::1/", "/%zz", "/a\n", "//a b"[2:]],
)
def test_invalid_url_is_not_recognized(text: str) -> None:
    assert not is_url(text)


def test_invalid_url_is_an_error() -> None:
    assert fails("url('example.com').getHost() == ''")
    assert answer("isURL('/a') && !isURL('a')") is True
