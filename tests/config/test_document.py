from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kframework.config.document import Json, parse_documents, read_source
from kframework.errors import ConfigError


def data(text: str) -> Json:
    (document,) = parse_documents(text, "f.yaml")
    return document.data


def test_every_value_knows_its_line() -> None:
    (document,) = parse_documents("a:\n  b:\n  - x\n  - c: 1\n    d: 2\n", "f.yaml")
    root = document.at()
    assert (root / "a").line == 1
    assert (root / "a" / "b").line == 2
    assert (root / "a" / "b" / 0).line == 3
    assert (root / "a" / "b" / 1 / "d").line == 5
    assert (root / "a" / "b" / 1 / "d").value == 2


def test_path_that_is_not_written_has_the_line_of_what_is_around_it() -> None:
    (document,) = parse_documents("a:\n  b:\n  - x\n", "f.yaml")
    assert (document.at() / "a" / "b" / 7 / "z").line == 2
    assert (document.at() / "a" / "b" / 7 / "z").value is None


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a: 16", 16),
        ("a: 16.0", 16),
        ("a: 1.5", 1.5),
        ("a: '16'", "16"),
        ("a: 0x10", 16),
        ("a: 1_000", 1000),
        ("a: yes", True),
        ("a: off", False),
        ("a: n", False),
        ("a: 'n'", "n"),
        ("a: ~", None),
        ("a:", None),
        ("a: 2020-01-01", "2020-01-01"),
        ("a: 1:30", "1:30"),
        ("a: 1m30s", "1m30s"),
        ("a: =", "="),
        ("a: !own x", "x"),
    ],
)
def test_scalars_are_read_as_json_has_them(text: str, value: Json) -> None:
    assert data(text) == {"a": value}
    assert isinstance(data(text), dict)


def test_anchors_and_merge_keys_are_followed() -> None:
    text = "base: &base {a: 1, b: 2}\nuse:\n  <<: *base\n  b: 3\nboth: {<<: [*base, {c: 4}]}\n"
    assert data(text) == {
        "base": {"a": 1, "b": 2},
        "use": {"a": 1, "b": 3},
        "both": {"a": 1, "b": 2, "c": 4},
    }


def test_merged_mapping_keeps_the_lines_of_its_own_keys() -> None:
    (document,) = parse_documents("base: &base {a: 1}\nuse:\n  <<: *base\n  a: 3\n", "f.yaml")
    assert (document.at() / "use" / "a").line == 4


def test_json_with_tabs_is_read() -> None:
    assert data('{\n\t"a": [\n\t\t1,\n\t\ttrue\n\t]\n}') == {"a": [1, True]}


def test_empty_documents_are_passed_over() -> None:
    documents = parse_documents("---\n---\na: 1\n---\n# nothing\n---\nb: 2\n", "f.yaml")
    assert [document.data for document in documents] == [{"a": 1}, {"b": 2}]
    assert documents[1].at("b").line == 7


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\nb: 2\na: 3\n", 'f.yaml:1: a: key "a" already set in map'),
        ("x:\n- {a: 1, a: 1}\n", 'f.yaml:2: x[0].a: key "a" already set in map'),
        ("a: &a [*a]", "f.yaml:1: a[0]: contains itself"),
        ("a: [1\n", "f.yaml:2: is not YAML: did not find expected ',' or ']'"),
        ("a: *b\n", "f.yaml:1: is not YAML: found undefined alias"),
        ("a: \x00\n", "f.yaml: is not YAML"),
        ("a: !!int x", "f.yaml:1: a: cannot read 'x'"),
    ],
)
def test_error_names_its_line(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        data(text)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def test_aliases_that_repeat_too_many_values_are_refused_at_their_line() -> None:
    levels = (f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 10)}]" for level in range(1, 9))
    with pytest.raises(ConfigError, match=r"^x:5: has more than 100,000 values, counting those that aliases repeat"):
        parse_documents("\n".join(["a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]", *levels]), "x")


def test_text_with_too_many_values_is_refused_before_its_nodes_take_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("yaml.compose_all", None)
    with pytest.raises(ConfigError, match=r"^x:3: has more than 100,000 values"):
        parse_documents("a: 1\nb:\n" + f"- [{','.join(['{}'] * 100_000)}]", "x")


def test_byte_order_mark_is_no_content(tmp_path: Path) -> None:
    (tmp_path / "bom.yaml").write_bytes(b"\xef\xbb\xbfa: 1")
    assert data(read_source(tmp_path / "bom.yaml")[1]) == {"a": 1}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**62), 2**62) | st.text(st.characters(codec="ascii", min_codepoint=32)),
    lambda inner: st.lists(inner) | st.dictionaries(st.text("abcxyz", min_size=1), inner),
    max_leaves=20,
)


@given(st.dictionaries(st.text("abc", min_size=1), JSON))
def test_json_means_what_it_means_to_json(value: dict[str, Json]) -> None:
    assert data(json.dumps(value)) == value
