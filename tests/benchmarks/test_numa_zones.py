"""The benchmark of NUMA zones counts what nodes refuse, and draws it."""

from __future__ import annotations

from kframework_numa.testing import guaranteed_pod

from benchmarks.numa_zones import CASES, LENGTH, ZoneCourse, line_chart, make_jobs, run_case


def test_jobs_are_the_same_for_one_seed_and_end_with_the_simulation() -> None:
    jobs = make_jobs(seed=3)
    assert jobs == make_jobs(seed=3) != make_jobs(seed=4)
    assert max(second for second, _ in jobs) < LENGTH


def test_nodes_refuse_pods_only_without_the_cache() -> None:
    jobs = [(2 * number, guaranteed_pod(f"job-{number}", {"cpu": 5})) for number in range(40)]
    refused = {name: run_case(config, jobs, length=100).course[-1] for name, config in CASES.items()}
    assert refused["NUMA with the cache"] == 0
    assert refused["Default plugins"] > 0


def test_chart_names_each_case_with_what_was_refused_in_the_end() -> None:
    courses = {name: ZoneCourse([1, number], 5, 0.5) for number, name in enumerate(CASES, 3)}
    picture = line_chart(courses)
    assert all(f"{name}: {number}" in picture for number, name in enumerate(CASES, 3))
    assert picture.count("<path") == 2 + len(CASES)
