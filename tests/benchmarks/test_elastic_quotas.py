"""The benchmark of elastic quotas: the jobs that come, and the picture."""

from __future__ import annotations

from xml.etree import ElementTree

from benchmarks.elastic_quotas import DEMAND, LENGTH, Teams, area_chart, make_jobs


def test_same_seed_brings_the_same_jobs_of_both_teams() -> None:
    jobs = make_jobs(seed=3)
    assert jobs == make_jobs(seed=3) != make_jobs(seed=4)
    for team, (begin, _) in DEMAND.items():
        seconds = [job.seconds for job in jobs if job.pod.metadata.namespace == team]
        assert begin <= min(seconds) < max(seconds) < LENGTH


def test_picture_has_a_panel_for_each_case() -> None:
    teams = Teams([])
    teams.cpu = {"red": [32.0, 64.0], "blue": [0.0, 0.0]}
    picture = ElementTree.fromstring(area_chart({"One": teams, "Other": teams}))
    titles = [text.text for text in picture.iter("{http://www.w3.org/2000/svg}text") if "used" in (text.text or "")]
    assert titles == ["One: 75% used", "Other: 75% used"]
