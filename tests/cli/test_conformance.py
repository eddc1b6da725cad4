"""`kframework conformance`."""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path

import pytest
import yaml

from tests.cli.conftest import Command
from tests.testing.conformance.planted import TAINT, Part, single


def quantity(number: int, canonical: str) -> Part:
    """Write a case of the suite `sizes`: what `2048` is."""
    expect = {"canonical": canonical, "json": "2048", "format": "DecimalSI", "sign": 1, "value": 2048}
    return {
        "id": f"sizes-{number}",
        "kind": "quantity",
        "suite": "sizes",
        "input": {"op": "quantity", "value": "2048"},
        "expect": {**expect, "milliValue": 2_048_000},
    }


def write(path: Path, *cases: Part) -> Path:
    """Write recorded cases into a file."""
    path.write_text("".join(f"{json.dumps(case)}\n" for case in cases))
    return path


@pytest.fixture
def same(tmp_path: Path) -> Path:
    """A file without differences and with a part that is not compared."""
    case = single()
    case["expect"]["preFilter"]["Uninstalled"] = {"code": "Skip"}
    return write(tmp_path / "same.jsonl", case, quantity(1, "2048"))


@pytest.fixture
def different(tmp_path: Path) -> Path:
    """A gzip file of one suite in which eight cases of nine differ."""
    path = write(tmp_path / "different.jsonl", quantity(0, "2048"), *(quantity(n, "2Ki") for n in range(1, 9)))
    packed = path.with_suffix(".jsonl.gz")
    packed.write_bytes(gzip.compress(path.read_bytes()))
    return packed


SAME = """\
SUITE    1.36
planted  1/1
sizes    1/1

not compared:
  Uninstalled is not implemented: answers of 1 case

total  2/2
"""

DIFFERENT = """\
SUITE  1.36
sizes  1/9

CASE     FIELD                  EXPECTED  GOT
sizes-1  canonical              2Ki       2048
sizes-2  canonical              2Ki       2048
sizes-3  canonical              2Ki       2048
sizes-4  canonical              2Ki       2048
sizes-5  canonical              2Ki       2048
sizes    and 3 more in 8 cases

total  1/9
"""


def test_run_without_differences(run: Command, same: Path) -> None:
    assert run("conformance", same) == (0, SAME, "")


def test_terminal_is_shown_how_far_it_got(run: Command, same: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    code, out, err = run("conformance", same)
    assert (code, out) == (0, SAME)
    assert "cases" in err


def test_run_with_differences(run: Command, different: Path) -> None:
    assert run("conformance", different) == (1, DIFFERENT, "")


def test_suites_are_joined_over_files(run: Command, same: Path, different: Path) -> None:
    code, out, _ = run("conformance", same, different)
    assert code == 1
    assert out.splitlines()[:3] == ["SUITE    1.36", "planted  1/1", "sizes    2/10"]
    assert out.splitlines()[-1] == "total  3/11"


def test_json_and_yaml_are_complete(run: Command, same: Path, different: Path) -> None:
    code, out, err = run("conformance", same, different, "-o", "json")
    planted, sizes = json.loads(out)["suites"]
    assert (code, err) == (1, "")
    assert planted == {
        "suite": "planted",
        "emulatedVersion": "1.36",
        "passed": 1,
        "total": 1,
        "differences": [],
        "uncompared": [{"reason": "Uninstalled is not implemented", "part": "answers", "cases": 1}],
    }
    assert (sizes["passed"], sizes["total"], len(sizes["differences"])) == (2, 10, 8)
    assert sizes["differences"][0] == {"case": "sizes-1", "field": "canonical", "expected": "2Ki", "got": "2048"}
    assert yaml.safe_load(run("conformance", same, different, "-o", "yaml").out)["suites"] == [planted, sizes]


def test_one_case_is_shown_side_by_side(run: Command, same: Path, different: Path) -> None:
    code, out, _ = run("conformance", same, different, "--show", "sizes-1")
    assert code == 0  # the first of this name
    assert out.splitlines()[:2] == ["FIELD       SAME  EXPECTED   GOT", "canonical   yes   2048       2048"]
    code, out, _ = run("conformance", different, "--show", "sizes-1")
    assert code == 1
    assert out.splitlines()[1] == "canonical   NO    2Ki        2048"


def test_verdicts_are_shown_in_words(run: Command, same: Path) -> None:
    lines = run("conformance", same, "--show", "planted-1").out.splitlines()
    (verdict,) = (line for line in lines if line.startswith("nodes.hard "))
    assert verdict.count(f"TaintToleration UnschedulableAndUnresolvable: {TAINT}") == 2
    assert lines[-2:] == ["not compared:", "  Uninstalled is not implemented: answers"]


def test_one_case_is_shown_as_json(run: Command, different: Path) -> None:
    case = json.loads(run("conformance", different, "--show", "sizes-1", "-o", "json").out)
    assert case["fields"][0] == {"field": "canonical", "expected": "2Ki", "got": "2048", "same": False}


def test_case_that_is_not_there(run: Command, same: Path) -> None:
    code, out, err = run("conformance", same, "--show", "sizes-7")
    assert (code, out, err) == (1, "", f"error: {same}: there is no case 'sizes-7'\n")


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"{", ":1: is not JSON: Input data was truncated"),
        (gzip.compress(b"{}\n" * 9, mtime=0)[:-9], ":1: is no"),
    ],
)
def test_file_that_cannot_be_read(run: Command, tmp_path: Path, content: bytes, complaint: str) -> None:
    file = tmp_path / "cases.jsonl"
    file.write_bytes(content)
    code, out, err = run("conformance", file)
    assert (code, out) == (1, "")
    assert len(err.splitlines()) == 1
    assert err.startswith(f"error: {file}{complaint}")


def test_file_that_is_not_there(run: Command) -> None:
    assert run("conformance", "no-such-file").err == "error: no-such-file: No such file or directory\n"


def test_files_are_required(run: Command) -> None:
    code, _, err = run("conformance")
    assert code == 2
    assert "FILE" in err
