"""What plugins of jobs have in common: their arguments, hosts, and what they add to containers."""

from __future__ import annotations

import pytest
from kframework_batch.controllers.job_plugins.job_plugin import Arguments, add_to_containers, hosts, object_metadata
from kframework_batch.objects import Job, TaskSpec
from kframework_batch.pod_templates import (
    EnvVar,
    PodTemplateSpec,
    TemplateContainer,
    TemplatePodSpec,
    TemplateVolume,
    VolumeMount,
)

from kframework.objects import ObjectMeta

JOB = Job(metadata=ObjectMeta(name="j", namespace="ns", uid="u"))
DEFAULTS: dict[str, bool | int | str] = {"on": True, "off": False, "port": 22, "path": "/keys"}


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        ((), (True, False, 22, "/keys")),
        (("--on=false", "--off"), (False, True, 22, "/keys")),
        (("-on=F", "-off=1"), (False, True, 22, "/keys")),
        (("--port=2222", "--path=/a=b"), (True, False, 2222, "/a=b")),
        (("--port", "2222", "-path", "/home"), (True, False, 2222, "/home")),
        (("--port=-1",), (True, False, -1, "/keys")),
        (("stop", "--off"), (True, False, 22, "/keys")),
        (("--", "--off"), (True, False, 22, "/keys")),
    ],
)
def test_arguments_are_parsed_like_go_flags(texts: tuple[str, ...], expected: tuple[object, ...]) -> None:
    read = Arguments("some", texts, DEFAULTS)
    assert (read.flag("on"), read.flag("off"), read.number("port"), read.text("path")) == expected
    assert read.problems == []


def test_problems_of_arguments_do_not_contain_values() -> None:
    read = Arguments("some", ("--port=hunter2", "--on=hunter2", "--secret=hunter2", "--off"), DEFAULTS)
    assert (read.number("port"), read.flag("on"), read.flag("off")) == (22, True, True)
    assert read.problems == [
        "argument port of plugin some is not understood",
        "argument on of plugin some is not understood",
        "plugin some has no argument secret",
    ]


@pytest.mark.parametrize(
    ("spec", "replicas", "expected"),
    [
        (TemplatePodSpec(), 2, [("j-a-0", "j"), ("j-a-1", "j")]),
        (TemplatePodSpec(subdomain="mesh"), 1, [("j-a-0", "mesh")]),
        (TemplatePodSpec(hostname="master"), 2, [("master", "j")]),
        (TemplatePodSpec(hostname="master"), 0, []),
    ],
)
def test_hosts_have_pod_names_unless_the_template_has_a_hostname(
    spec: TemplatePodSpec, replicas: int, expected: list[tuple[str, str]]
) -> None:
    assert hosts(JOB, TaskSpec(name="a", replicas=replicas, template=PodTemplateSpec(spec=spec))) == expected


def test_additions_are_appended_in_all_containers() -> None:
    own, more = EnvVar(name="A", value="1"), EnvVar(name="B", value="2")
    mount, volume = VolumeMount(name="v", mount_path="/v"), TemplateVolume(name="v")
    spec = TemplatePodSpec(
        containers=(TemplateContainer(name="c", env=(own,)), TemplateContainer(name="d")),
        init_containers=(TemplateContainer(name="i"),),
        volumes=(TemplateVolume(name="w"),),
    )
    given = add_to_containers(spec, [more], [mount], [volume])
    assert [each.env for each in given.containers] == [(own, more), (more,)]
    assert [each.env for each in given.init_containers] == [(more,)]
    assert {each.volume_mounts for each in (*given.containers, *given.init_containers)} == {(mount,)}
    assert [each.name for each in given.volumes] == ["w", "v"]


def test_object_of_a_job_has_owner_reference() -> None:
    metadata = object_metadata(JOB, "x")
    (owner,) = metadata.owner_references
    assert (metadata.name, metadata.namespace, owner.kind, owner.uid, owner.controller) == ("x", "ns", "Job", "u", True)
