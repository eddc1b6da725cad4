"""YAML documents mean what they mean to PyYAML, but for times and `=`, which are strings to Kubernetes."""

from __future__ import annotations

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
def test_they_are_read_as_pyyaml_reads_them(text: str) -> None:
    assert outcome(text) == expected(text)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text("ab1:#&*!=<~.- \n'\""),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab1~<=", max_size=3), inner, max_size=3),
    max_leaves=12,
)


@given(st.lists(JSON, max_size=3))
def test_what_was_written_is_read(written: list[object]) -> None:
    assert list(documents(yaml.safe_dump_all(written))) == written


@pytest.mark.parametrize("text", ["2026-01-02", "2026-01-02T15:04:05Z", "="])
def test_what_is_no_json_is_a_string(text: str) -> None:
    assert list(documents(f"a: {text}\n{text}: b\n")) == [{"a": text, text: "b"}]


def test_an_alias_is_the_same_value_even_in_itself() -> None:
    (document,) = documents("a: &a [1, *a]\nb: *a\nc: &c {d: *c}\n")
    assert isinstance(document, dict)
    assert document["b"] is document["a"]
    assert document["a"][1] is document["a"]
    assert document["c"]["d"] is document["c"]


def test_what_is_nested_too_deeply_is_an_error_like_any_other() -> None:
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
