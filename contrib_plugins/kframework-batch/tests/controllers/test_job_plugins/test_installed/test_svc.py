"""The pods of a job find each other."""

from __future__ import annotations

import msgspec
import pytest
from kframework_batch.controllers.job_plugins.installed import Svc, host_files
from kframework_batch.objects import Job, JobSpec, NetworkPolicy, TaskSpec
from kframework_batch.pod_templates import PodTemplateSpec, TemplateContainer, TemplatePodSpec

from kframework.objects import ConfigMap, ObjectMeta, Service

SPEC = TemplatePodSpec(containers=(TemplateContainer(name="c"),))
PS = TaskSpec(name="ps", replicas=1, template=PodTemplateSpec(spec=SPEC))
WORKER = TaskSpec(name="gpu-worker", replicas=2, template=PodTemplateSpec(spec=SPEC))
JOB = Job(metadata=ObjectMeta(name="j", namespace="ns", uid="u"), spec=JobSpec(tasks=(PS, WORKER)))
LABELS = {"volcano.sh/job-name": "j", "volcano.sh/job-namespace": "ns"}


def svc(*arguments: str) -> Svc:
    return Svc(Svc.arguments(arguments))


def plain(subject: object) -> object:
    return msgspec.json.decode(msgspec.json.encode(subject))


def test_config_map_has_hosts_as_lines_and_as_list() -> None:
    assert host_files(JOB) == {
        "ps.host": "j-ps-0.j",
        "VC_PS_HOSTS": "j-ps-0.j",
        "VC_PS_NUM": "1",
        "gpu_worker.host": "j-gpu-worker-0.j\nj-gpu-worker-1.j",
        "VC_GPU_WORKER_HOSTS": "j-gpu-worker-0.j,j-gpu-worker-1.j",
        "VC_GPU_WORKER_NUM": "2",
    }


def test_svc_plugin_creates_config_map_headless_service_and_network_policy() -> None:
    config_map, service, policy = svc().objects(JOB)
    assert isinstance(config_map, ConfigMap) and isinstance(service, Service) and isinstance(policy, NetworkPolicy)
    assert (config_map.metadata.name, config_map.data) == ("j-svc", host_files(JOB))
    assert plain(service.spec) == {"selector": LABELS, "clusterIP": "None"}
    own = {"podSelector": {"matchLabels": LABELS}}
    assert plain(policy.spec) == own | {"ingress": [{"from": [own]}], "policyTypes": ["Ingress"]}
    assert [(type(each), each.metadata.name) for each in (config_map, service, policy)] == svc().object_names(JOB)
    assert {each.metadata.namespace for each in (config_map, service, policy)} == {"ns"}
    assert svc().updated_objects(JOB) == [config_map]


@pytest.mark.parametrize(("argument", "kinds"), [("", 3), ("=true", 2), ("=false", 3)])
def test_network_policy_can_be_disabled(argument: str, kinds: int) -> None:
    plugin = svc(f"--disable-network-policy{argument}") if argument else svc()
    assert (len(plugin.objects(JOB)), len(plugin.object_names(JOB))) == (kinds, kinds)


def test_not_ready_addresses_can_be_published() -> None:
    service = svc("--publish-not-ready-addresses").objects(JOB)[1]
    assert isinstance(service, Service)
    assert plain(service.spec) == {"selector": LABELS, "clusterIP": "None", "publishNotReadyAddresses": True}


def test_pods_have_hostname_host_files_and_variables() -> None:
    spec = svc().add_to_pod(SPEC, JOB, WORKER, 1)
    (container,) = spec.containers
    assert (spec.hostname, spec.subdomain) == ("j-gpu-worker-1", "j")
    assert plain(spec.volumes) == [{"name": "j-svc", "configMap": {"name": "j-svc"}}]
    assert plain(container.volume_mounts) == [{"name": "j-svc", "mountPath": "/etc/volcano"}]
    keys = ["VC_PS_HOSTS", "VC_PS_NUM", "VC_GPU_WORKER_HOSTS", "VC_GPU_WORKER_NUM"]
    assert plain(container.env) == [
        {"name": key, "valueFrom": {"configMapKeyRef": {"name": "j-svc", "key": key}}} for key in keys
    ]


def test_hostname_of_template_is_kept_and_variables_can_be_omitted() -> None:
    named = msgspec.structs.replace(SPEC, hostname="master", subdomain="mesh")
    spec = svc("--inject-hosts-env=false").add_to_pod(named, JOB, PS, 0)
    assert (spec.hostname, spec.subdomain, spec.containers[0].env) == ("master", "mesh", ())
