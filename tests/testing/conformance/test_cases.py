"""Reading recorded cases, and putting fields side by side."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from kframework.errors import InputError
from kframework.testing.conformance.cases import (
    Case,
    Fact,
    compare_keys,
    read,
    unimplemented_plugin,
    with_texts_of_1_37,
)
from kframework.testing.conformance.sequence import SequenceInput

CASE = {"id": "q-1", "kind": "quantity", "suite": "q", "input": {"op": "quantity"}, "expect": {"error": "x"}}
LINE = json.dumps(CASE).encode()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The place of a file."""
    return tmp_path / "cases.jsonl"


def test_gzip_is_detected_by_content(file: Path) -> None:
    file.write_bytes(LINE + b"\n\n" + LINE)
    plain = list(read(str(file)))
    assert [(case.id, case.line) for case in plain] == [("q-1", 1), ("q-1", 3)]
    assert plain[0].expect == {"error": "x"}
    file.write_bytes(gzip.compress(LINE + b"\n\n" + LINE))
    assert list(read(str(file))) == plain


def test_cases_are_read_lazily(file: Path) -> None:
    file.write_bytes(LINE + b"\nbroken")
    assert next(read(str(file))).id == "q-1"


def test_gzip_bomb_is_an_error(file: Path) -> None:
    file.write_bytes(gzip.compress(b'{"id": "' + b"x" * (5 << 20), compresslevel=1))
    with pytest.raises(InputError, match=r"cases\.jsonl:1: is longer than 4 MiB: check that this is the right file"):
        next(read(str(file)))


def test_deeply_nested_case_is_an_error(file: Path) -> None:
    file.write_bytes(b'{"id": "x", "kind": "k", "suite": "s", "expect": {}, "input": ' + b'{"a":' * 100_000)
    with pytest.raises(InputError, match="is not JSON"):
        next(read(str(file)))


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (LINE + b"\n{]", ":2: is not JSON: object keys must be strings (byte 1)"),
        (LINE + b"\n\xff\xfe", ":2: is not JSON: invalid character (byte 0)"),
        (b'{"id": "q-1"}', ":1: is not a recorded case: Object missing required field `kind`"),
        (LINE.replace(b'"expect"', b'"expected"'), ":1: is not a recorded case: it has no `expect`"),
        (b"[]", ":1: is not a recorded case: expected a mapping, got a list"),
        (b"", ":1: contains no cases"),
        (
            gzip.compress(LINE + b"\n" + LINE, mtime=0)[:-20],
            ":1: is not a complete gzip file: Compressed file ended before",
        ),
    ],
)
def test_invalid_case_is_reported_with_its_line(file: Path, content: bytes, complaint: str) -> None:
    file.write_bytes(content)
    with pytest.raises(InputError) as error:
        list(read(str(file)))
    assert str(error.value).startswith(f"{file}{complaint}")


def test_file_named_gz_must_be_gzip(tmp_path: Path) -> None:
    file = tmp_path / "cases.jsonl.gz"
    file.write_bytes(LINE)
    with pytest.raises(InputError, match=r"cases\.jsonl\.gz:1: is named \.gz but is not a gzip file"):
        list(read(str(file)))


def test_null_field_is_absent() -> None:
    case = Case("s-1", "sequence", "s", {"pendingPods": [], "nodes": None}, {})
    assert case.input_as(SequenceInput) == SequenceInput(pending_pods=())


def test_invalid_field_is_reported_with_its_path() -> None:
    case = Case("s-1", "sequence", "s", {"pendingPods": [], "nodes": [{"spec": 1}]}, {}, file="s.jsonl", line=7)
    with pytest.raises(InputError) as error:
        case.input_as(SequenceInput)
    assert str(error.value) == "s.jsonl:7: s-1: input.nodes[0].spec: expected a mapping, got an integer"


def test_every_key_of_either_mapping_becomes_a_fact() -> None:
    facts = list(compare_keys({"a": 1, "b": 2}, {"b": 3, "c": 4}, "totals"))
    assert facts == [
        Fact(("totals", "a"), 1, None),
        Fact(("totals", "b"), 2, 3),
        Fact(("totals", "c"), None, 4),
    ]
    assert all(fact.differs for fact in facts)


def test_equal_values_do_not_differ() -> None:
    assert not Fact(("best",), ["a"], ["a"]).differs


def test_unimplemented_plugin_is_the_reason() -> None:
    assert unimplemented_plugin("totals", "ImageLocality").reason == "ImageLocality is not implemented"


FIT = "0/1 nodes are available: 1 Insufficient cpu."


@pytest.mark.parametrize(
    ("code", "message", "now"),
    [
        ("Unschedulable", "no new claims to deallocate, preemption: no", "preemption: no"),
        ("Unschedulable", "still not schedulable, preemption: no", "preemption: no"),
        ("Unschedulable", "deallocation of ResourceClaim completed", "deallocation of ResourceClaim completed"),
        ("Unschedulable", "no new claims to deallocate", ""),
        ("Success", "", "preemption: found a potential placement for pod on node a, preempting 1 victims"),
    ],
)
def test_message_of_post_filter_is_that_of_1_37(code: str, message: str, now: str) -> None:
    recorded = {"code": code, "message": message, "nominatedNode": "a", "victims": ["default/x"]}
    result = with_texts_of_1_37({"fitError": FIT, "postFilter": recorded})["postFilter"]
    assert isinstance(result, dict)
    assert (result.get("message", ""), result["fitErrorAfterPostFilter"]) == (now, f"{FIT} {now}".rstrip())


def test_other_results_stay_as_they_are() -> None:
    assert with_texts_of_1_37({"feasible": ["a"]}) == {"feasible": ["a"]}
