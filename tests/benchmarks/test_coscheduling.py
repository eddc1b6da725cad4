"""The study of gangs: what is counted, and what is drawn."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from benchmarks.coscheduling import PROFILES, main, run


def test_gangs_hold_slots_only_if_they_are_scheduled_pod_by_pod() -> None:
    pod_by_pod, together = (run(profile, nodes=4, steps=25, seed=1) for profile in PROFILES)
    assert pod_by_pod.held > 0
    assert together.held == 0
    assert together.working > 0
    assert together.ended > 0


@pytest.mark.slow
def test_table_and_picture_have_a_row_per_profile(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["--seeds", "1", "--nodes", "4", "--pods", "15", "--svg", str(tmp_path / "result.svg")])
    assert [line.split(" | ")[0] for line in capsys.readouterr().out.splitlines()[2:]] == [
        "| Pod by pod",
        "| Coscheduling",
    ]
    assert "Coscheduling" in [each.text for each in ElementTree.parse(tmp_path / "result.svg").getroot()]
