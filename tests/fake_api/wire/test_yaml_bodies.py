"""Bodies in YAML or JSON."""

from __future__ import annotations

import msgspec
import pytest

from kframework.errors import ClusterError
from kframework.fake_api.wire import yaml_bodies
from kframework.fake_api.wire.yaml_bodies import json_of, yaml_of


@pytest.mark.parametrize("body", [b'{"a": [1, "x"]}', b"a:\n- 1\n- x\n", b"---\na: [1, x]\n", b"{a: [1, x]}"])
def test_it_is_the_same_in_both(body: bytes) -> None:
    assert msgspec.json.decode(json_of(body)) == {"a": [1, "x"]}


def test_json_stays_as_it_is() -> None:
    said = b' {"a": 1, "a": 2}'
    assert json_of(said) is said


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
    monkeypatch.setattr(yaml_bodies, "MOST_VALUES", 30)
    with pytest.raises(ClusterError, match="error decoding YAML: ") as refused:
        json_of(body)
    assert refused.value.status == 400
    assert why in refused.value.message


def test_it_is_written_by_names() -> None:
    said = {"kind": "Pod", "apiVersion": "v1", "spec": {"containers": [{"name": "a", "args": ["yes", "1", "ü: x"]}]}}
    assert (
        yaml_of(msgspec.json.encode(said)).decode()
        == """\
apiVersion: v1
kind: Pod
spec:
  containers:
  - args:
    - 'yes'
    - '1'
    - 'ü: x'
    name: a
"""
    )


def test_what_is_long_is_json_which_is_yaml() -> None:
    body = msgspec.json.encode({"a": "x" * yaml_bodies.LONGEST})
    assert yaml_of(body) == body + b"\n"
    assert json_of(yaml_of(body)).strip() == body
