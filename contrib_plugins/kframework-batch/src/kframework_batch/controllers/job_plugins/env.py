"""The plugin `env`: each container is told which pod of its task it is in."""

from __future__ import annotations

from kframework.objects import ApiObject
from kframework_batch.belongings import ConfigMap
from kframework_batch.controllers.job_plugins.job_plugin import in_all_containers
from kframework_batch.objects import Job, TaskSpec
from kframework_batch.pod_templates import EnvVar, TemplatePodSpec

#: The variables with the number of a pod in its task; the first is the older one.
TASK_INDEX = ("VK_TASK_INDEX", "VC_TASK_INDEX")


class Env:
    """Sets VC_TASK_INDEX and VK_TASK_INDEX."""

    def belongings(self, job: Job) -> list[ApiObject]:
        """Make nothing."""
        return []

    def changing(self, job: Job) -> list[ConfigMap]:
        """Make nothing."""
        return []

    def names(self, job: Job) -> list[tuple[type[ApiObject], str]]:
        """Name nothing."""
        return []

    def applied(self, spec: TemplatePodSpec, job: Job, task: TaskSpec, index: int) -> TemplatePodSpec:
        """Return the spec with the two variables in each container."""
        return in_all_containers(spec, [EnvVar(name=name, value=str(index)) for name in TASK_INDEX])
