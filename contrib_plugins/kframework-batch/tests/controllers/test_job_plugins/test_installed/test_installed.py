"""Which plugins a job has."""

from __future__ import annotations

from random import Random

from kframework_batch.controllers.job_plugins.installed import (
    INSTALLED,
    UNSUPPORTED_PLUGINS,
    create_plugins,
    find_unsupported,
)
from kframework_batch.objects import Job, JobSpec


def job(**plugins: tuple[str, ...]) -> Job:
    return Job(spec=JobSpec(plugins=plugins))


def test_job_has_the_plugins_that_it_names() -> None:
    assert list(create_plugins(job(svc=(), env=(), pytorch=()), Random(0))) == ["svc", "env"]
    assert create_plugins(job(), Random(0)) == {}
    assert not UNSUPPORTED_PLUGINS & {*INSTALLED}


def test_unsupported_plugins_and_arguments_are_named() -> None:
    named = job(pytorch=("--master=m",), svc=("--nonsense",), ssh=("--ssh-port=x",), env=("--any",))
    assert list(find_unsupported(named)) == [
        "spec.plugins: plugin pytorch",
        "spec.plugins: plugin svc has no argument nonsense; it",
        "spec.plugins: argument ssh-port of plugin ssh is not understood; it",
    ]
