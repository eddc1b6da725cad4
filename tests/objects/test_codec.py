"""JSON of the API to objects and back."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kframework.errors import InputError
from kframework.objects.codec import convert, decode, encode, without_nulls
from kframework.objects.kinds import kind_of
from kframework.objects.meta import ObjectMeta
from kframework.objects.node import Node
from kframework.objects.pod import Pod

POD = kind_of(Pod)


def test_encoded_object_has_its_kind() -> None:
    pod = Pod(metadata=ObjectMeta(name="web-0"))
    assert encode(pod) == b'{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web-0"}}'
    assert decode(encode(pod), POD) == pod


def test_object_of_defaults_only_is_still_json() -> None:
    assert msgspec.json.decode(encode(Node())) == {"apiVersion": "v1", "kind": "Node"}


def test_nulls_are_absent() -> None:
    data = b'{"metadata": {"name": "a", "labels": null}, "spec": {"containers": [null, {"name": "c", "ports": null}]}}'
    pod = decode(data, POD)
    assert pod.metadata.labels == {}
    assert [container.name for container in pod.spec.containers] == ["c"]


def test_nulls_are_dropped_at_every_depth() -> None:
    assert without_nulls({"a": None, "b": [None, {"c": None, "d": 0}], "e": {}}) == {"b": [{"d": 0}], "e": {}}


@pytest.mark.parametrize(
    ("data", "path", "message"),
    [
        (
            {"metadata": {"labels": {"a": "b", "c.d/e": 1}}},
            "metadata.labels[c.d/e]",
            "expected a string, got an integer",
        ),
        ({"metadata": {"labels": {"on": True}}}, "metadata.labels.on", "put it in quotes"),
        ({"spec": {"containers": [{}, {"name": []}]}}, "spec.containers[1].name", "expected a string, got a list"),
        ({"spec": {"priority": "high"}}, "spec.priority", "expected an integer, got a string"),
        ({"spec": {"overhead": {"cpu": ["1"]}}}, "spec.overhead.cpu", "expected a quantity, got a list"),
        ({"spec": {"hostNetwork": "yes"}}, "spec.hostNetwork", "expected true or false, got a string"),
        ({"metadata": {"labels": {1: "a"}}}, "metadata.labels", "a key is not a string: put it in quotes"),
        ({"spec": []}, "spec", "expected a mapping, got a list"),
        ([], "", "expected a mapping, got a list"),
        ({1: {}}, "", "a key is not a string: put it in quotes"),
    ],
)
def test_error_of_a_wrong_type_names_the_field(data: Any, path: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        convert(data, POD)
    assert (caught.value.subject, caught.value.path) == ("Pod", path)
    assert message in caught.value.message


def test_broken_json_and_what_does_not_fit_are_input_errors() -> None:
    with pytest.raises(InputError, match=r"Pod: .*malformed"):
        decode(b'{"metadata": }', POD)
    with pytest.raises(InputError, match=r"Pod: spec\.nodeName: expected a string"):
        decode(b'{"spec": {"nodeName": 1}}', POD)
