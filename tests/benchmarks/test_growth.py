"""The picture of how a cycle grows: every kind of line is measured, in small."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from benchmarks.growth import PICTURE, SWEEPS, Sweep, cycle_time, main, measure_sweep

pytestmark = pytest.mark.slow


def small(sweep: Sweep) -> Sweep:
    lines = {name: replace(sizes, nodes=10) for name, sizes in sweep.lines.items()}
    return replace(sweep, sizes=(3, 6), lines=lines)


@pytest.mark.long
@pytest.mark.parametrize("sweep", SWEEPS, ids=lambda sweep: sweep.title)
def test_every_line_is_measured(sweep: Sweep) -> None:
    panel = measure_sweep(small(sweep), lambda sizes: cycle_time(sizes, 3))
    assert panel.lines.keys() == sweep.lines.keys()
    for points in panel.lines.values():
        assert [size for size, _ in points] == [3, 6]
        assert all(figure > 0 for _, figure in points)


@pytest.mark.long
def test_figures_are_printed_and_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture = tmp_path / "drawn.svg"
    main([small(SWEEPS[0])], 3, picture)
    header, *rows, _, last = capsys.readouterr().out.splitlines()
    assert header.split()[0] == "nodes"
    assert [row.split()[0] for row in rows] == ["3", "6"]
    assert last == f"drawn in {picture}"
    assert "Nodes" in picture.read_text()


def test_picture_in_the_documents_has_every_panel() -> None:
    texts = {text.text for text in ElementTree.parse(PICTURE).iter("{http://www.w3.org/2000/svg}text")}
    assert {name for sweep in SWEEPS for name in (sweep.title, sweep.along, *sweep.lines)} <= texts
