"""The study of the learned scorer, in small."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from benchmarks.learned_packing import EXAMPLE, SCORED_BY, main


@pytest.mark.slow
def test_table_is_printed_and_curve_is_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture = tmp_path / "curve.svg"
    main(["--seeds", "1", "--svg", str(picture)])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[1] for line in lines if line.startswith("| ")][1:] == [*SCORED_BY]
    assert lines[-1] == "LearnedPacking fragments less than MostAllocated with 1 of 1 seeds."
    assert texts_in(picture) >= {"Learning to pack", "episodes", *SCORED_BY}


def test_picture_of_the_example_has_every_line() -> None:
    assert texts_in(EXAMPLE / "curve.svg") >= {"Learning to pack", "episodes", *SCORED_BY}


def texts_in(picture: Path) -> set[str | None]:
    return {text.text for text in ElementTree.parse(picture).iter("{http://www.w3.org/2000/svg}text")}
