"""The page as one document: style, script and data stand in it, and its policy lets nothing else in."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from html import escape
from importlib.resources import files
from string import Template
from typing import NamedTuple

from kframework.errors import visible, visible_json

#: The parts of the script, in the order in which they stand in it.
_SCRIPTS = "elements source words summary sections waiting decisions nodes profiles pod detail page".split()


class Document(NamedTuple):
    """A page, and the policy that must go with it where it is served; it names the page's script and style."""

    html: str
    policy: str


@cache
def live_page() -> Document:
    """Return the page that asks the scheduler which served it."""
    return _document("kframework", "null", "connect-src 'self'")


def report_page(title: str, data: bytes) -> Document:
    """Return the page of these data, JSON; it asks nobody for anything."""
    return _document(visible(title), visible_json(data.decode()).replace("<", "\\u003c"), "connect-src 'none'")


def _document(title: str, data: str, connections: str) -> Document:
    style, script = _read("page.css"), "\n".join(['"use strict";', *(_read(f"{name}.js") for name in _SCRIPTS)])
    policy = "; ".join(
        [
            "default-src 'none'",
            f"script-src '{_hash(script)}'",
            f"style-src '{_hash(style)}'",
            "img-src data:",
            connections,
            "base-uri 'none'",
            "form-action 'none'",
            "require-trusted-types-for 'script'",
            "trusted-types 'none'",
        ]
    )
    parts = {"policy": policy, "title": escape(title), "style": style, "data": data, "script": script}
    return Document(Template(_read("page.html")).substitute(parts), f"{policy}; frame-ancestors 'none'")


def _read(name: str) -> str:
    return files("kframework.observe.web").joinpath("page", name).read_text("utf-8")


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
