"""The page is one document, and its policy allows its own content and nothing else."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Callable
from html.parser import HTMLParser

import pytest

from kframework.observe.web.view import HtmlPage, live_page, report_page

NASTY = "</script><script>alert(1)</script><!-- & \" '"


class Page(HTMLParser):
    """The elements of a page, with the content of scripts and styles."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self._open = False
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attributes)))
        self.text.append("")
        self._open = True

    def handle_endtag(self, tag: str) -> None:
        self._open = False

    def handle_data(self, data: str) -> None:
        if self._open:
            self.text[-1] += data

    def of(self, tag: str) -> list[tuple[dict[str, str | None], str]]:
        return [
            (attributes, text) for (each, attributes), text in zip(self.tags, self.text, strict=True) if each == tag
        ]


def hash_of(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def directives(policy: str) -> dict[str, str]:
    return {name: value for name, _, value in (directive.partition(" ") for directive in policy.split("; "))}


PAGES: list[Callable[[], HtmlPage]] = [live_page, lambda: report_page("Demo", b"{}")]


@pytest.mark.parametrize("made", PAGES)
def test_policy_has_the_hashes_of_script_and_style(made: Callable[[], HtmlPage]) -> None:
    document = made()
    page, policy = Page(document.html), directives(document.policy)
    (_, data), (_, script) = page.of("script")
    ((_, style),) = page.of("style")
    assert policy["script-src"] == hash_of(script)
    assert policy["style-src"] == hash_of(style)
    assert policy["default-src"] == "'none'"
    assert policy["require-trusted-types-for"] == "'script'"
    assert policy["frame-ancestors"] == "'none'"
    json.loads(data)


@pytest.mark.parametrize("made", PAGES)
def test_page_contains_its_policy(made: Callable[[], HtmlPage]) -> None:
    document = made()
    metas = [attributes for attributes, _ in Page(document.html).of("meta")]
    (own,) = (meta["content"] for meta in metas if meta.get("http-equiv") == "Content-Security-Policy")
    assert f"{own}; frame-ancestors 'none'" == document.policy


@pytest.mark.parametrize("made", PAGES)
def test_page_has_no_external_resources(made: Callable[[], HtmlPage]) -> None:
    page = Page(made().html)
    addresses = [
        value for _, attributes in page.tags for name, value in attributes.items() if name in ("src", "href", "action")
    ]
    assert all(address is not None and address.startswith(("#", "data:")) for address in addresses)
    ((_, style),) = page.of("style")
    assert "url(" not in style and "@import" not in style


@pytest.mark.parametrize("made", PAGES)
def test_script_never_creates_markup_from_text(made: Callable[[], HtmlPage]) -> None:
    _, (_, script) = Page(made().html).of("script")
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|\beval\b|Function\(", script
    )


def test_only_a_live_page_may_connect() -> None:
    assert directives(live_page().policy)["connect-src"] == "'self'"
    assert directives(report_page("Demo", b"{}").policy)["connect-src"] == "'none'"


def test_embedded_data_cannot_leave_their_element() -> None:
    document = report_page(NASTY, json.dumps({"title": NASTY}).encode())
    page = Page(document.html)
    (attributes, data), _ = page.of("script")
    assert attributes == {"id": "data", "type": "application/json"}
    assert json.loads(data) == {"title": NASTY}
    ((_, title),) = page.of("title")
    assert title == NASTY


def test_every_script_starts_with_a_comment() -> None:
    _, (_, script) = Page(live_page().html).of("script")
    assert script.startswith('"use strict";\n// ')
