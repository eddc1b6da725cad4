"""Bodies in YAML or JSON."""

from __future__ import annotations

import msgspec
import pytest

from kframework.errors import ClusterError
from kframework.fake_api.wire import yaml_bodies
from kframework.fake_api.wire.yaml_bodies import to_json, to_yaml

#: Lists of twenty references to the previous list.
ALIASES = b"\n".join(b"%d: &a%d [%b]" % (n, n, b",".join([b"*a%d" % (n - 1) if n else b"x"] * 20)) for n in range(5))


@pytest.mark.parametrize("body", [b'{"a": [1, "x"]}', b"a:\n- 1\n- x\n", b"---\na: [1, x]\n", b"{a: [1, x]}"])
def test_yaml_and_json_are_equivalent(body: bytes) -> None:
    assert msgspec.json.decode(to_json(body)) == {"a": [1, "x"]}


def test_json_stays_as_it_is() -> None:
    body = b' {"a": 1, "a": 2}'
    assert to_json(body) is body


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"a: [", "while parsing"),
        (b"", "expected one document, got 0"),
        (b"a: 1\n---\nb: 1", "expected one document, got 2"),
        (b"\xff", "invalid start byte"),
        (b"a: &a [*a]", "contains itself"),
        (ALIASES, "aliases"),
        (b"1: {2: !!binary aGVsbG8=}\n? [1]\n: 2", "unhashable"),
    ],
)
def test_invalid_body_is_rejected(body: bytes, why: str) -> None:
    with pytest.raises(ClusterError, match="error decoding YAML: ") as refused:
        to_json(body)
    assert refused.value.status == 400
    assert why in refused.value.message


def test_yaml_is_sorted_by_name() -> None:
    body = {"kind": "Pod", "apiVersion": "v1", "spec": {"containers": [{"name": "a", "args": ["yes", "1", "ü: x"]}]}}
    assert (
        to_yaml(msgspec.json.encode(body)).decode()
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


def test_long_answer_stays_json() -> None:
    body = msgspec.json.encode({"a": "x" * yaml_bodies.MAX_YAML_BYTES})
    assert to_yaml(body) == body + b"\n"
    assert to_json(to_yaml(body)).strip() == body
