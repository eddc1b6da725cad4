"""Objects that refuse to be written to."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from kframework.objects import Node, Pod
from kframework.objects.read_only import ReadOnlyError, read_only
from kframework.testing import make_container, make_node, make_pod

POD = make_pod("web", labels={"app": "web"}, node_selector={"disk": "ssd"}, containers=[make_container(cpu=1)])


def line_of(write: Callable[..., object]) -> str:
    """Return the line of a function's only statement."""
    return f"{__file__}:{inspect.getsourcelines(write)[1]}"


WRITES: list[tuple[Callable[[Any], object], str]] = [
    (lambda pod: pod.metadata.labels.__setitem__("app", "db"), "metadata.labels"),
    (lambda pod: pod.metadata.labels.pop("app"), "metadata.labels"),
    (lambda pod: pod.metadata.annotations.update(a="b"), "metadata.annotations"),
    (lambda pod: pod.metadata.annotations.setdefault("a", "b"), "metadata.annotations"),
    (lambda pod: pod.spec.node_selector.clear(), "spec.node_selector"),
    (lambda pod: pod.spec.containers[0].resources.requests.popitem(), "spec.containers[0].resources.requests"),
]


@pytest.mark.parametrize(("write", "what"), WRITES)
def test_write_names_what_was_written_to_and_the_line(write: Callable[[Any], object], what: str) -> None:
    shown = read_only(POD)
    with pytest.raises(ReadOnlyError) as caught:
        write(shown)
    said = f"pod default/web: {what} is read-only, and written to in {line_of(write)}; change a copy: dict(...)"
    assert str(caught.value) == said
    assert shown == POD


def test_operators_are_refused_too() -> None:
    labels = read_only(make_node("a")).metadata.labels
    with pytest.raises(ReadOnlyError, match=r"node a: metadata\.labels"):
        labels["a"] = "b"
    with pytest.raises(ReadOnlyError):
        del labels["kubernetes.io/hostname"]
    with pytest.raises(ReadOnlyError):
        labels |= {"a": "b"}


def test_read_only_object_equals_the_original() -> None:
    shown = read_only(POD)
    assert (shown, type(shown)) == (POD, Pod)
    assert msgspec.json.decode(msgspec.json.encode(shown), type=Pod) == POD
    assert isinstance(shown.metadata.labels, dict)


@pytest.mark.parametrize("copied", [dict, copy.copy, copy.deepcopy, lambda labels: labels | {}])
def test_copy_is_the_authors_own(copied: Callable[[dict[str, str]], dict[str, str]]) -> None:
    mine = copied(read_only(POD).metadata.labels)
    mine["app"] = "db"
    assert mine == {"app": "db"}


def test_object_without_mappings_is_not_copied() -> None:
    spec = make_node("a").spec
    assert read_only(Node(spec=spec)).spec is spec
