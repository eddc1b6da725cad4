"""Each container learns which pod of its task it is in."""

from __future__ import annotations

from kframework_batch.controllers.job_plugins.installed import Env
from kframework_batch.objects import Job, TaskSpec
from kframework_batch.pod_templates import TemplateContainer, TemplatePodSpec


def test_env_plugin_sets_index_in_two_variables() -> None:
    spec = TemplatePodSpec(containers=(TemplateContainer(name="c"),), init_containers=(TemplateContainer(name="i"),))
    given = Env().add_to_pod(spec, Job(), TaskSpec(name="a"), 3)
    for container in (*given.containers, *given.init_containers):
        assert [(each.name, each.value) for each in container.env] == [("VK_TASK_INDEX", "3"), ("VC_TASK_INDEX", "3")]


def test_env_plugin_creates_no_objects() -> None:
    assert (Env().objects(Job()), Env().updated_objects(Job()), Env().object_names(Job())) == ([], [], [])
