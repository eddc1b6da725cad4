"""Which plugins a job has."""

from __future__ import annotations

from random import Random

from kframework_batch.controllers.job_plugins.installed import INSTALLED, OF_VOLCANO, plugins_of, problems_of
from kframework_batch.objects import Job, JobSpec


def job(**plugins: tuple[str, ...]) -> Job:
    return Job(spec=JobSpec(plugins=plugins))


def test_a_job_has_those_that_it_names() -> None:
    assert list(plugins_of(job(svc=(), env=(), pytorch=()), Random(0))) == ["svc", "env"]
    assert plugins_of(job(), Random(0)) == {}
    assert not OF_VOLCANO & {*INSTALLED}


def test_what_is_passed_over_is_named() -> None:
    named = job(pytorch=("--master=m",), svc=("--nonsense",), ssh=("--ssh-port=x",), env=("--any",))
    assert list(problems_of(named)) == [
        "spec.plugins: plugin pytorch",
        "spec.plugins: plugin svc has no argument nonsense; it",
        "spec.plugins: argument ssh-port of plugin ssh is not understood; it",
    ]
