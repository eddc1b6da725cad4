"""An explanation prints itself, and is text in a notebook."""

from __future__ import annotations

import kframework
from kframework.testing import make_node, make_pod


def test_it_prints_itself_in_words() -> None:
    explained = kframework.simulate([make_node("a", cpu=1), make_pod("big", cpu=2)]).explain("big")
    assert repr(explained) == str(explained)
    assert str(explained).startswith("Pod:")
    html = explained._repr_html_()
    assert html.startswith("<pre>Pod:") and "&lt;none&gt;" in html
    assert explained.to_dict()["attempts"] == explained.explanation.attempts == 1
