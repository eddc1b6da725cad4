"""Documents are what the loader makes of their texts, whether they are read in blocks or whole."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from kframework.objects.yaml_documents import documents
from kframework.objects.yaml_loader import YamlDumper, YamlLoader

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
def test_documents_are_read_as_the_loader_reads_them(text: str) -> None:
    assert outcome(text) == expected(text)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text("ab1ny:#&*!=<~.- \n'\""),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab1n~<=", max_size=3), inner, max_size=3),
    max_leaves=12,
)


@given(st.lists(JSON, max_size=3))
def test_written_documents_are_read_back(written: list[object]) -> None:
    assert list(documents(yaml.dump_all(written, Dumper=YamlDumper))) == written


#: Parts of lines. Most of them begin a value that the next lines may continue, or are not strings.
KEYS = ["a:", "b:", "spec:", "c.d/e:", "on:", "null:", "'q':", "a b:", "? x", "<<:", "-foo:", "a", "1:", "&x a:", ""]
VALUES = [
    *("", "1", "x", "x y", "x, y", "a:b", "a: b", "a #b", "# c", "'s'", "'it''s'", '"q r"', '"\\n"', '"a', 'b"', "'"),
    *("|", ">-", "|2", "|+", "[1,", "2]", "[x, y]", "{a: 1}", "{", "}", "{}", "[]", "&a 1", "*a", "!!str 1", "%", "@x"),
    *("---", "...", "-", "- x", "-x", "--x", "-1", "1.0", ".5", "017", "0x1", "1e3", "3:25", "1_000", ".inf", "="),
    *("yes", "Off", "y", "N", "NULL", "~"),
]
LINES = st.one_of(
    st.sampled_from(["", "---", "...", "# c", "  # c", "   ", "--- x", "%YAML 1.1", "\t"]),
    st.builds(
        lambda indent, dash, key, value: f"{' ' * indent}{dash}{key} {value}".rstrip(" "),
        st.sampled_from([0, 0, 2, 2, 1, 3, 4]),
        st.sampled_from(["", "", "- ", "-  ", "- - "]),
        st.sampled_from(KEYS[:3]) | st.sampled_from(KEYS),
        st.sampled_from(VALUES[:4]) | st.sampled_from(VALUES),
    ),
)


@given(st.lists(LINES, max_size=8), st.sampled_from(["\n", ""]))
def test_lines_in_any_order_are_read_as_the_loader_reads_them(lines: list[str], end: str) -> None:
    text = "\n".join(lines) + end
    assert outcome(text) == expected(text)


POD = """\
- apiVersion: v1
  kind: Pod
  metadata:
    annotations:
      note: "a: b"
    labels:
      app: web
    name: %s
  spec:
    containers:
    - args:
      - --port=8080
      image: registry.example/app:v1
      name: main
      resources: {}
    priority: 0
"""


def test_output_of_kubectl_is_read_without_libyaml(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "apiVersion: v1\nitems:\n" + "".join(POD % f"web-{number}" for number in range(3)) + "kind: List\n"
    whole = expected(text)
    list(documents("a: 0\n"))  # a number is remembered
    monkeypatch.setattr(yaml, "load", pytest.fail)
    monkeypatch.setattr(yaml, "load_all", pytest.fail)
    assert list(documents(text)) == whole


def test_equal_parts_of_objects_are_one_value() -> None:
    items, other = documents((POD % "web-0" + POD % "web-1") + "---\n" + POD % "web-2")
    assert isinstance(items, list) and isinstance(other, list)
    assert items[0]["spec"] is items[1]["spec"] is other[0]["spec"]
    assert items[0]["metadata"]["labels"] is not items[1]["metadata"]["labels"]


@pytest.mark.parametrize("entry", ["note: |\n    text\n", "note: 'it''s'\n", "note: {a: [1]}\n", "'note': x\n  b: 1\n"])
def test_entry_of_another_form_does_not_slow_down_others(entry: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = f"metadata:\n  {entry}spec:\n  a: x\n"
    whole = expected(text)
    monkeypatch.setattr(yaml, "load_all", pytest.fail)
    assert list(documents(text)) == whole


def outcome(text: str) -> object:
    try:
        return list(documents(text))
    except yaml.YAMLError as error:
        return problem(error)


def expected(text: str) -> object:
    try:
        return list(yaml.load_all(text, YamlLoader))
    except yaml.YAMLError as error:
        return problem(error)


def problem(error: yaml.YAMLError) -> tuple[object, ...]:
    assert isinstance(error, yaml.MarkedYAMLError)
    mark = error.problem_mark
    return error.problem, (mark.line, mark.column) if mark else None


def test_too_deep_nesting_is_a_yaml_error() -> None:
    # libyaml reads 1,000 levels since 0.2.6, and any number before that.
    for levels, message in ((1_000, "nested too deeply"), (2_000, "nested too deeply|maximum nesting depth")):
        with pytest.raises(yaml.YAMLError, match=message):
            list(documents("[" * levels + "]" * levels))
