"""The base of job plugins, and their arguments, parsed like those of Go's `flag` package."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import TypeVar

from msgspec.structs import replace

from kframework.objects import ApiObject, ConfigMap, ObjectMeta
from kframework_batch.controllers.job_pods import owner_references, pod_name
from kframework_batch.objects import Job, TaskSpec
from kframework_batch.pod_templates import EnvVar, TemplateContainer, TemplatePodSpec, TemplateVolume, VolumeMount

V = TypeVar("V", bool, int, str)

#: The texts of true and false, in Go.
_TRUE = frozenset({"1", "t", "T", "true", "TRUE", "True"})
_FALSE = frozenset({"0", "f", "F", "false", "FALSE", "False"})


class JobPlugin(ABC):
    """Adds to the pods of a job, and may have objects made for it."""

    def objects(self, job: Job) -> list[ApiObject]:
        """Make what belongs to the job while it is alive."""
        return []

    def updated_objects(self, job: Job) -> list[ConfigMap]:
        """Make those of them again that follow the job when it grows or shrinks."""
        return []

    def object_names(self, job: Job) -> list[tuple[type[ApiObject], str]]:
        return [(type(made), made.metadata.name) for made in self.objects(job)]

    @abstractmethod
    def add_to_pod(self, spec: TemplatePodSpec, job: Job, task: TaskSpec, index: int) -> TemplatePodSpec:
        """Return the spec of a pod with what is added to it."""


class Arguments:
    """The arguments of a plugin: `--name=value`, `-name value`, and `--name` alone for true.

    `problems` describes what cannot be parsed, never a value: it may be a key.
    """

    def __init__(self, plugin: str, texts: Iterable[str], defaults: Mapping[str, bool | int | str]) -> None:
        self.problems: list[str] = []
        self._values = dict(defaults)
        rest = iter(texts)
        for text in rest:
            if not text.startswith("-") or text in ("-", "--"):
                break  # Go stops at the first that is no flag
            name, equals, value = text.lstrip("-").partition("=")
            known = self._values.get(name)
            if known is None:
                self.problems.append(f"plugin {plugin} has no argument {name}")
            elif isinstance(known, bool) and not equals:
                self._values[name] = True
            else:
                read = _value(value if equals else next(rest, ""), known)
                if read is None:
                    self.problems.append(f"argument {name} of plugin {plugin} is not understood")
                else:
                    self._values[name] = read

    def flag(self, name: str) -> bool:
        return self._values[name] is True

    def number(self, name: str) -> int:
        found = self._values[name]
        return found if isinstance(found, int) else 0

    def text(self, name: str) -> str:
        return str(self._values[name])


def _value(text: str, known: bool | int | str) -> bool | int | str | None:
    if isinstance(known, bool):
        return True if text in _TRUE else False if text in _FALSE else None
    if isinstance(known, int):
        return int(text) if text.removeprefix("-").isdecimal() else None
    return text


def object_metadata(job: Job, name: str) -> ObjectMeta:
    return ObjectMeta(name=name, namespace=job.metadata.namespace, owner_references=owner_references(job))


def hosts(job: Job, task: TaskSpec) -> list[tuple[str, str]]:
    """List the hosts of a task, each with its subdomain; it is but one if the template names it."""
    spec = task.template.spec
    subdomain = spec.subdomain or job.metadata.name
    if spec.hostname:
        return [(spec.hostname, subdomain)] if task.replicas else []
    return [(pod_name(job, task, index), subdomain) for index in range(task.replicas)]


def add_to_containers(
    spec: TemplatePodSpec,
    env: Iterable[EnvVar] = (),
    mounts: Iterable[VolumeMount] = (),
    volumes: Iterable[TemplateVolume] = (),
) -> TemplatePodSpec:
    env, mounts = tuple(env), tuple(mounts)

    def extend_container(container: TemplateContainer) -> TemplateContainer:
        return replace(container, env=container.env + env, volume_mounts=container.volume_mounts + mounts)

    return replace(
        spec,
        containers=tuple(map(extend_container, spec.containers)),
        init_containers=tuple(map(extend_container, spec.init_containers)),
        volumes=(*spec.volumes, *volumes),
    )
