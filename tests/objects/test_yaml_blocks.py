"""YAML that is read in blocks says what it says as a whole, or is left to those who read it so."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from kframework.objects import yaml_blocks, yaml_documents

ROOT = Path(__file__).parents[2]
FOLDERS = ("contrib_plugins", "deploy", "docs", "examples", "kframework", "tests")

LIST = """\
# as printed
apiVersion: v1
items:
- kind: Pod
  metadata:
    name: a
    labels: {app: web}
  spec: &spec
    containers:
    - name: main
      args: ["-x", on, 010]
      command:
      - |
        if x; then
          - y: 1
        fi
- kind: Pod
  metadata:
    name: "b"
    annotations:
      # nothing
      text: >-
        long

        text
kind: List
"""


def same(one: object, other: object) -> bool:
    if isinstance(one, dict) and isinstance(other, dict):
        pairs = zip(one.items(), other.items(), strict=False)
        return len(one) == len(other) and all(same(key, name) and same(a, b) for (key, a), (name, b) in pairs)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return type(one) is type(other) and (one == other or one != one)


def is_read_as_a_whole(text: str) -> bool:
    """Return whether blocks make no sense; otherwise they must say what the whole says."""
    try:
        found = yaml_blocks.documents(text)
    except yaml.YAMLError:
        return True
    assert same(found, list(yaml_documents.documents(text))), text
    return False


def texts() -> Iterator[str]:
    for path in sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*")):
        if path.suffix in (".yaml", ".yml"):
            yield path.read_text(encoding="utf-8-sig")
        elif path.suffix == ".md":
            yield from re.findall(r"```ya?ml\n(.*?)```", path.read_text(), re.DOTALL)


def test_all_files_of_the_repository_say_the_same_in_blocks() -> None:
    as_a_whole = list(map(is_read_as_a_whole, texts()))
    assert as_a_whole.count(False) > 50


def test_a_printed_list_is_read_in_blocks_and_shares_what_it_says_again() -> None:
    assert not is_read_as_a_whole(LIST)
    (document,) = yaml_blocks.documents("items:\n- spec:\n    a: 1\n- spec:\n    a: 1\n")
    assert isinstance(document, dict)
    one, other = document["items"]
    assert one["spec"] is other["spec"] == {"a": 1}


@pytest.mark.parametrize(
    "text",
    [
        "a: &x 1\nb: *x\n",
        'a: "b\nc: d"\n',
        "a: {b: 1,\nc: 2}\n",
        "a: 1\r\nb: 2\n",
        "a: b\rc: d\n",
        "--- {}\n---\na: 1\n",
        "%YAML 1.1\n---\na: 1\n",
        "a: |\n  no end of line",
        "a: b: c\n",
        "a: 1\n- b\n",
        "  a:\n- b\n",
    ],
)
def test_what_makes_no_sense_in_blocks_is_read_as_a_whole(text: str) -> None:
    assert is_read_as_a_whole(text)


@pytest.mark.parametrize(
    "text",
    [
        "on: 1\nyes: no\n",
        "a: 010\nb: 1e3\nc: 0x1f\nd: 1:30\ne: ~\nf:\ng: 2026-01-02\n",
        "a:\n- b\n-\n  c: d\n- - e\n",
        "a: 1\na: 2\n",
        "? a\n: b\n",
        "a: |2\n    b\n",
        "---\na: 1\n---\n---\n# b\n",
        'a: b # c\n\'d\': "e"\n"f g": h\n',
        "<<: {a: 1}\nb: !!str 2\n",
    ],
)
def test_what_is_unusual_says_in_blocks_what_it_says_as_a_whole(text: str) -> None:
    assert not is_read_as_a_whole(text)


WORDS = st.sampled_from(
    ["a", "web", "on", "n", "010", "1e3", "~", "-", "- a", "a: b", "#x", "a #b", "x\ny", " a", "", "&a", "<<", "1:30"]
)
VALUES = st.recursive(
    WORDS | st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(WORDS, below, max_size=4),
    max_leaves=12,
)
PIECES = st.sampled_from(
    ["\n", "  ", "- ", ": ", "# c", "---\n", "...\n", "\t", "'", '"', "{", "]", "&a ", "*a", "|\n", "? ", "a: ", "\r"]
)


@given(
    st.lists(VALUES, min_size=1, max_size=2), st.booleans(), st.lists(st.tuples(st.floats(0, 1), PIECES), max_size=3)
)
def test_blocks_never_say_what_the_whole_does_not(
    values: list[object], flow: bool, pieces: list[tuple[float, str]]
) -> None:
    text = yaml.safe_dump_all(values, default_flow_style=None if flow else False, sort_keys=False, width=20)
    for share, piece in pieces:
        place = int(share * len(text))
        text = text[:place] + piece + text[place:]
    is_read_as_a_whole(text)
