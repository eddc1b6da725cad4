"""`kframework compare --live` prints what the shadows of a running scheduler decide otherwise."""

from __future__ import annotations

import json

import msgspec
import pytest

from kframework.cli import live_shadows
from kframework.cli.live_shadows import print_shadows
from kframework.errors import ExplainError
from kframework.observe.web.shadows import ShadowList, list_shadows
from kframework.testing import make_node, make_pod
from tests.core.shadow.shadowed import shadowed

PACKING = "pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: {type: MostAllocated}}}]"


def answer_with(answer: ShadowList, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_shadows, "ask_scheduler", lambda url, ca, path: msgspec.json.encode(answer))


@pytest.fixture
def answer(monkeypatch: pytest.MonkeyPatch) -> ShadowList:
    objects = [make_node("large", cpu=16), make_node("small", cpu=4), make_pod("p", cpu="1")]
    found = list_shadows(shadowed(objects, PACKING).run().scheduler.engine)
    answer_with(found, monkeypatch)
    return found


def test_differences_are_a_table_below_the_numbers(answer: ShadowList, capsys: pytest.CaptureFixture[str]) -> None:
    print_shadows("http://localhost", None, as_json=False)
    lines = capsys.readouterr().out.splitlines()
    assert lines[:4] == [
        "shadow candidate of default-scheduler: 1 of 1 pods decided, 0.0 % agreed",
        "  other node 1",
        "  by plugin: NodeResourcesFit 1",
        "",
    ]
    assert lines[4].split() == ["POD", "OUTCOME", "NODE", "SHADOW", "REASON"]
    assert lines[5].startswith("default/p  other node  large  small   NodeResourcesFit 3 → 12; total")


def test_json_is_the_answer(answer: ShadowList, capsys: pytest.CaptureFixture[str]) -> None:
    print_shadows("http://localhost", None, as_json=True)
    assert json.loads(capsys.readouterr().out) == json.loads(msgspec.json.encode(answer))


def test_shadow_says_why_it_decides_few_pods_or_none(
    answer: ShadowList, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (shadow,) = answer.shadows
    for changes, line in (({"problem": "no route"}, "it decides no pods: no route"), ({"share": 0.25}, "25.0 % of")):
        answer_with(ShadowList(shadows=(msgspec.structs.replace(shadow, **changes),)), monkeypatch)
        print_shadows("http://localhost", None, as_json=False)
        assert line in capsys.readouterr().out


def test_scheduler_without_shadows_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    answer_with(ShadowList(), monkeypatch)
    with pytest.raises(ExplainError, match="has no shadow profile"):
        print_shadows("http://localhost", None, as_json=False)
