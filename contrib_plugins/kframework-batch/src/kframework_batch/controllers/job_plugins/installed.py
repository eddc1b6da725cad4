"""The plugins for Jobs, by their names in `spec.plugins`; `ssh` has its own module.

`env` gives each container the index of its pod within the task. With `svc` the pods of a job find each other by name,
know all hosts, and are isolated from others.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from msgspec.structs import replace

from kframework.objects import ApiObject, ConfigMap, LabelSelector, Service
from kframework_batch.controllers.job_plugins.job_plugin import (
    Arguments,
    JobPlugin,
    add_to_containers,
    hosts,
    object_metadata,
)
from kframework_batch.controllers.job_plugins.ssh import Ssh
from kframework_batch.controllers.job_pods import JOB_NAME, JOB_NAMESPACE, pod_name
from kframework_batch.objects import (
    HeadlessServiceSpec,
    Job,
    NetworkPolicy,
    NetworkPolicyIngressRule,
    NetworkPolicyPeer,
    NetworkPolicySpec,
    TaskSpec,
)
from kframework_batch.pod_templates import ConfigMapSource, EnvVar, TemplatePodSpec, TemplateVolume, VolumeMount

#: The variables with the number of a pod in its task; the first is the older one.
TASK_INDEX = ("VK_TASK_INDEX", "VC_TASK_INDEX")


class Env(JobPlugin):
    """Sets VC_TASK_INDEX and VK_TASK_INDEX."""

    def add_to_pod(self, spec: TemplatePodSpec, job: Job, task: TaskSpec, index: int) -> TemplatePodSpec:
        return add_to_containers(spec, [EnvVar(name=name, value=str(index)) for name in TASK_INDEX])


_NOT_READY = "publish-not-ready-addresses"
_NO_POLICY = "disable-network-policy"
_HOSTS_ENV = "inject-hosts-env"

#: Where the ConfigMap with the hosts is mounted.
_MOUNTED_AT = "/etc/volcano"


class Svc(JobPlugin):
    """Makes a headless Service, a ConfigMap with the hosts of all tasks, and a NetworkPolicy."""

    def __init__(self, arguments: Arguments) -> None:
        self._publish_not_ready = arguments.flag(_NOT_READY)
        self._network_policy = not arguments.flag(_NO_POLICY)
        self._hosts_env = arguments.flag(_HOSTS_ENV)

    @staticmethod
    def arguments(texts: tuple[str, ...]) -> Arguments:
        return Arguments("svc", texts, {_NOT_READY: False, _NO_POLICY: False, _HOSTS_ENV: True})

    def objects(self, job: Job) -> list[ApiObject]:
        name = job.metadata.name
        labels = {JOB_NAME: name, JOB_NAMESPACE: job.metadata.namespace}
        service = HeadlessServiceSpec(
            selector=labels, cluster_ip="None", publish_not_ready_addresses=self._publish_not_ready
        )
        made: list[ApiObject] = [*self.updated_objects(job), Service(metadata=object_metadata(job, name), spec=service)]
        if self._network_policy:
            own = LabelSelector(match_labels=labels)
            rule = NetworkPolicyIngressRule(peers=(NetworkPolicyPeer(pod_selector=own),))
            policy = NetworkPolicySpec(pod_selector=own, ingress=(rule,), policy_types=("Ingress",))
            made.append(NetworkPolicy(metadata=object_metadata(job, name), spec=policy))
        return made

    def updated_objects(self, job: Job) -> list[ConfigMap]:
        return [ConfigMap(metadata=object_metadata(job, _config_map(job)), data=host_files(job))]

    def add_to_pod(self, spec: TemplatePodSpec, job: Job, task: TaskSpec, index: int) -> TemplatePodSpec:
        """Return the spec with hostname and subdomain, the host files mounted, and the hosts of all tasks as variables.

        The values of these are in the ConfigMap.
        """
        config_map = _config_map(job)
        keys = [key for task in job.spec.tasks for key in _variables(task)] if self._hosts_env else []
        env = [EnvVar(name=key, value_from={"configMapKeyRef": {"name": config_map, "key": key}}) for key in keys]
        spec = replace(
            spec,
            hostname=spec.hostname or pod_name(job, task, index),
            subdomain=spec.subdomain or job.metadata.name,
        )
        mount = VolumeMount(name=config_map, mount_path=_MOUNTED_AT)
        volume = TemplateVolume(name=config_map, config_map=ConfigMapSource(name=config_map))
        return add_to_containers(spec, env, [mount], [volume])


def host_files(job: Job) -> dict[str, str]:
    """Write the hosts of each task: in lines as `TASK.host`, with commas as `VC_TASK_HOSTS`; `VC_TASK_NUM` counts."""
    files: dict[str, str] = {}
    for task in job.spec.tasks:
        names = [f"{host}.{subdomain}" for host, subdomain in hosts(job, task)]
        of_hosts, of_number = _variables(task)
        files |= {
            f"{_variable_name(task)}.host": "\n".join(names),
            of_hosts: ",".join(names),
            of_number: str(len(names)),
        }
    return files


def _variables(task: TaskSpec) -> tuple[str, str]:
    name = _variable_name(task).upper()
    return f"VC_{name}_HOSTS", f"VC_{name}_NUM"


def _variable_name(task: TaskSpec) -> str:
    return task.name.replace("-", "_")


def _config_map(job: Job) -> str:
    return f"{job.metadata.name}-svc"


#: Plugins of Volcano for frameworks of machine learning: what they set up is passed over here.
UNSUPPORTED_PLUGINS = frozenset({"hcclrank", "mpi", "pytorch", "ray", "tensorflow"})
#: Those that there are.
INSTALLED = ("env", "ssh", "svc")


def create_plugins(job: Job, chance: Random) -> dict[str, JobPlugin]:
    made: dict[str, JobPlugin] = {}
    for name, texts in job.spec.plugins.items():
        match name:
            case "env":
                made[name] = Env()
            case "svc":
                made[name] = Svc(Svc.arguments(texts))
            case "ssh":
                made[name] = Ssh(Ssh.arguments(texts), chance)
    return made


def find_unsupported(job: Job) -> Iterator[str]:
    """Return the ignored arguments, without their values, and the ignored plugins."""
    for name, texts in job.spec.plugins.items():
        if name in UNSUPPORTED_PLUGINS:
            yield f"spec.plugins: plugin {name}"
        elif name in ("svc", "ssh"):
            arguments = Svc.arguments(texts) if name == "svc" else Ssh.arguments(texts)
            yield from (f"spec.plugins: {problem}; it" for problem in arguments.problems)
