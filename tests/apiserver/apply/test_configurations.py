"""What is applied, in YAML or JSON."""

from __future__ import annotations

import msgspec
import pytest

from kframework.apiserver.apply import configurations
from kframework.apiserver.apply.configurations import in_json
from kframework.apiserver.calls import Call
from kframework.cluster.request_attributes import Path
from kframework.errors import ClusterError
from kframework.objects import Pod
from tests.apiserver.serving import PODS, request, served_as


def call(body: bytes) -> Call:
    path = Path.read(f"{PODS}/web")
    assert path is not None
    return Call(path, served_as(Pod), {}, request("PATCH", f"{PODS}/web", body))


@pytest.mark.parametrize("body", [b'{"a": [1, "x"]}', b"a:\n- 1\n- x\n", b"---\na: [1, x]\n", b"{a: [1, x]}"])
def test_it_is_the_same_in_both(body: bytes) -> None:
    assert msgspec.json.decode(in_json(call(body)).request.body) == {"a": [1, "x"]}


def test_json_stays_as_it_is() -> None:
    said = call(b' {"a": 1, "a": 2}')
    assert in_json(said) is said


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"a: [", "while parsing"),
        (b"", "0 documents"),
        (b"a: 1\n---\nb: 1", "2 documents"),
        (b"\xff", "invalid start byte"),
        (b"a: &a [*a]", "more than"),
        (b"a: &a [1,2,3]\nb: &b [*a,*a,*a]\nc: [*b,*b,*b]", "more than"),
        (b"1: {2: !!binary aGVsbG8=}\n? [1]\n: 2", "unhashable"),
    ],
)
def test_what_cannot_be_read_is_refused(body: bytes, why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(configurations, "MOST_VALUES", 30)
    with pytest.raises(ClusterError, match="error decoding YAML: ") as refused:
        in_json(call(body))
    assert refused.value.status == 400
    assert why in refused.value.message
