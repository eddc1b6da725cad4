"""The figures of replicas: every setup runs, in small, and is printed and drawn."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from benchmarks.replicas import DOCS, PICTURES, SERIES, SHARDS, Series, Setup, main, run

pytestmark = pytest.mark.slow


def test_single_scheduler_is_run_once() -> None:
    chosen = list(Series(100, "spread", (1, 2)).setups())
    assert [(each.shard, each.replicas) for each in chosen] == [("pods", 1), ("nodes", 2), ("pods", 2)]


def test_replicas_shorten_the_wait_of_a_backlog() -> None:
    one, four = (run(Setup(500, "nodes", "spread", count)) for count in (1, 4))
    assert four.wait_p99 < one.wait_p99
    assert one.conflicts == four.conflicts == 0.0


def test_late_replicas_have_conflicts() -> None:
    late = run(Setup(500, "pods", "pack", 4, watch_delay=1.0))
    assert late.conflicts > 0


@pytest.mark.long
def test_figures_are_printed_and_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main([Series(50, "pack", (1, 2))], [Setup(50, "pods", "spread", 2)], tmp_path)
    assert len(list(tmp_path.glob("replicas-*.svg"))) == len(PICTURES)
    assert capsys.readouterr().out.count("\n50 ") == 4


def test_pictures_in_the_documents_have_every_line() -> None:
    for what, drawn in PICTURES.items():
        picture = DOCS / f"replicas-{what.replace('_', '-')}.svg"
        texts = {text.text for text in ElementTree.parse(picture).iter("{http://www.w3.org/2000/svg}text")}
        clusters = {f"{each.nodes:,} nodes, {each.strategy}" for each in SERIES}
        assert {drawn.title, *clusters, *(f"shards of {shard}" for shard in SHARDS)} <= texts
