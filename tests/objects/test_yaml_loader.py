"""The loader reads as PyYAML does, except for times and `=`, and refuses documents that would never end."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
import yaml

from kframework.objects.yaml_loader import YamlDumper, YamlLoader


def load_all(text: str) -> Iterator[object]:
    return yaml.load_all(text, YamlLoader)


@pytest.mark.parametrize("text", ["2026-01-02", "2026-01-02T15:04:05Z", "="])
def test_value_without_a_json_type_is_a_string(text: str) -> None:
    assert list(load_all(f"a: {text}\n{text}: b\n")) == [{"a": text, text: "b"}]


def test_single_letters_that_kubernetes_reads_as_booleans_are_written_in_quotes() -> None:
    assert list(load_all("[y, Y, n, N, 'y', ny]")) == [[True, True, False, False, "y", "ny"]]
    assert yaml.dump(["y", "N", "ny"], Dumper=YamlDumper) == "- 'y'\n- 'N'\n- ny\n"


def test_alias_is_the_same_value() -> None:
    (document,) = load_all("a: &x {b: [1]}\nc: *x")
    assert isinstance(document, dict) and document["a"] is document["c"]


def nested_aliases(depth: int) -> str:
    """Return a document that has ten values, ten times those, ten times those again, and so on."""
    levels = (f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 10)}]" for level in range(1, depth))
    return "\n".join(["a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]", *levels])


@pytest.mark.parametrize(
    ("text", "line", "problem"),
    [
        ("a: 1\nb: &x {c: *x}", 2, "a value contains itself"),
        (nested_aliases(9), 4, "aliases repeat too many values"),
        ("a: 1\nb: " + "9" * 5_000, 2, "a number has too many digits"),
    ],
)
def test_documents_that_would_never_end_are_refused_at_their_line(text: str, line: int, problem: str) -> None:
    with pytest.raises(yaml.MarkedYAMLError, match=problem) as caught:
        list(load_all(text))
    assert caught.value.problem_mark is not None and caught.value.problem_mark.line + 1 == line


def test_many_aliases_of_a_small_value_are_read() -> None:
    (document,) = load_all("a: &x {b: 1}\nc: [" + ", ".join(["*x"] * 200_000) + "]")
    assert isinstance(document, dict) and len(document["c"]) == 200_000


@pytest.mark.usefixtures("frozen_heap")
def test_nodes_of_a_document_are_freed_before_the_next_one_is_read() -> None:
    counts = []
    for number, _ in enumerate(load_all("---\na: {b: [1, 2]}\n" * 300)):
        if number % 100 == 99:
            gc.collect()
            counts.append(sum(isinstance(each, yaml.Node) for each in gc.get_objects()))
    assert counts[0] == counts[-1]
