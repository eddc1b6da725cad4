"""YAML documents mean what they mean to PyYAML, but for times and `=`, which are strings to Kubernetes."""

from __future__ import annotations

import gc

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from kframework.objects.yaml_documents import documents

TEXTS = [
    "",
    "a: 1\nb: [x, 2.5, yes, No, ~, null, 'on', \"1\"]\n---\n- {}\n- []\n---\n",
    "0x1f: 0o17\n017: 1_000\n1e3: 1.0e+3\n.inf: -.inf\n3:25: 190:20:30\n",
    "base: &base {a: 1, b: 2}\nuse:\n  <<: *base\n  b: 3\nboth: {<<: [*base, {c: 4}]}\nlist: [*base, *base]\n",
    "!!str 1: !!int '2'\n!!binary aGk=: !!set {x, y}\n",
    "pairs: !!pairs [a: 1, a: 2]\nordered: !!omap [a: 1]\n",
    "a: 1\na: 2\n",
    "? [1, 2]\n: 3\n",
    "? {a: 1}\n: 3\n",
    "a: !who b\n",
    "a: !!map [1]\n",
    "a: !!seq {}\n",
    "<<: 1\n",
    "a: *b\n",
    "a: |\n  text\nb: >\n  folded\nc: 'it''s'\n",
]


@pytest.mark.parametrize("text", TEXTS)
def test_documents_are_read_as_pyyaml_reads_them(text: str) -> None:
    assert outcome(text) == expected(text)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text("ab1:#&*!=<~.- \n'\""),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab1~<=", max_size=3), inner, max_size=3),
    max_leaves=12,
)


@given(st.lists(JSON, max_size=3))
def test_written_documents_are_read_back(written: list[object]) -> None:
    assert list(documents(yaml.safe_dump_all(written))) == written


@pytest.mark.parametrize("text", ["2026-01-02", "2026-01-02T15:04:05Z", "="])
def test_value_without_a_json_type_is_a_string(text: str) -> None:
    assert list(documents(f"a: {text}\n{text}: b\n")) == [{"a": text, text: "b"}]


def test_alias_is_the_same_value() -> None:
    (document,) = documents("a: &x {b: [1]}\nc: *x")
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
        list(documents(text))
    assert caught.value.problem_mark is not None and caught.value.problem_mark.line + 1 == line


def test_many_aliases_of_a_small_value_are_read() -> None:
    (document,) = documents("a: &x {b: 1}\nc: [" + ", ".join(["*x"] * 200_000) + "]")
    assert isinstance(document, dict) and len(document["c"]) == 200_000


def test_too_deep_nesting_is_a_yaml_error() -> None:
    # libyaml reads 1,000 levels since 0.2.6, and any number before that.
    for levels, message in ((1_000, "nested too deeply"), (2_000, "nested too deeply|maximum nesting depth")):
        with pytest.raises(yaml.YAMLError, match=message):
            list(documents("[" * levels + "]" * levels))


def outcome(text: str) -> object:
    try:
        return list(documents(text))
    except yaml.YAMLError as error:
        return problem(error)


def expected(text: str) -> object:
    try:
        return list(yaml.load_all(text, yaml.CSafeLoader))
    except yaml.YAMLError as error:
        return problem(error)


def problem(error: yaml.YAMLError) -> tuple[object, ...]:
    assert isinstance(error, yaml.MarkedYAMLError)
    mark = error.problem_mark
    return error.problem, (mark.line, mark.column) if mark else None


def test_nodes_of_a_document_are_freed_before_the_next_one_is_read() -> None:
    counts = []
    for number, _ in enumerate(documents("---\na: {b: [1, 2]}\n" * 300)):
        if number % 100 == 99:
            gc.collect()
            counts.append(sum(isinstance(each, yaml.Node) for each in gc.get_objects()))
    assert counts[0] == counts[-1]
