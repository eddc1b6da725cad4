"""What is shown of the engine for one pod at a time beside its queues, which test_pods.py looks at: explanations."""

from __future__ import annotations

import pytest

from kframework.explain import view
from kframework.explain.explanation import Explanation
from kframework.explain.view import PodEngineView
from kframework.observe.web.sections import DetailView
from kframework.testing import make_node, make_pod
from tests.explain.scene import Scene


def shown() -> PodEngineView:
    scene = Scene(make_node("a"), make_node("b"), *(make_pod(name, cpu=99) for name in "xyz")).settle()
    return PodEngineView(scene.engine, scene.history)


def test_view_explains_only_pods() -> None:
    assert (shown().details("pod", "default/x"), shown().details("job", "x")) == (
        DetailView(has_explanation=True),
        DetailView(),
    )
    assert shown().explanations("job", ["default/x"]) == {}


def test_report_explains_the_first_pods_only(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["default/z", "default/x", "default/y"]
    found = shown().explanations("pod", names)
    assert list(found) == names
    assert all(isinstance(each, Explanation) and each.pod == name for name, each in found.items())
    monkeypatch.setattr(view, "_MIN_EXPLANATIONS", 1)
    monkeypatch.setattr(view, "_MAX_EVALUATIONS", 4)
    assert list(shown().explanations("pod", names)) == names[:2]
