"""A faulty field is refused alike by `--strict`, by the fake API and in templates, in the words of Kubernetes.

The fields and words are those of pkg/apis/{core,batch,storage,resource}/validation/validation.go.
"""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kframework.clock import run_virtual
from kframework.errors import InputErrors
from kframework.objects.kinds import find_kind
from kframework.simulation.inputs import read_cluster
from tests.fake_api.local_api import Json, LocalApi

CONTAINER = {"name": "c", "image": "i"}
LABELS = {"a": "b"}
NEGATIVE = "must be greater than or equal to 0"
IP_ADDRESS = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
IDS = "must be between 0 and 2147483647, inclusive"
ONE_PLACE = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
ONLY_RESTARTABLE = "may not be set for init containers without restartPolicy=Always"
MODE = "must be a number between 0 and 0777 (octal), both inclusive"


def container(**fields: Any) -> Json:
    return {"containers": [{**CONTAINER, **fields}]}


def probe(kind: str = "livenessProbe", **fields: Any) -> Json:
    return container(**{kind: {"exec": {"command": ["true"]}, **fields}})


def first_container(**fields: Any) -> Json:
    return {"initContainers": [{"name": "first", "image": "i", **fields}]}


def variable(**source: Any) -> Json:
    return container(env=[{"name": "A", "valueFrom": source}])


def volume(**source: Any) -> Json:
    return {"volumes": [{"name": "v", **source}]}


def mount(**fields: Any) -> Json:
    return {**volume(emptyDir={}), **container(volumeMounts=[{"name": "v", "mountPath": "/v", **fields}])}


C = "containers[0]"
PODS: list[tuple[Json, str]] = [
    # containers
    (container(image=""), f"{C}.image: Required value"),
    (container(terminationMessagePolicy="Log"), f'{C}.terminationMessagePolicy: Unsupported value: "Log": supported'),
    (container(lifecycle={"postStart": {}}), f"{C}.lifecycle.postStart: Required value: must specify a handler type"),
    (container(livenessProbe={"exec": {}}), f"{C}.livenessProbe.exec.command: Required value"),
    (
        container(livenessProbe={"httpGet": {"path": "/", "port": 0}}),
        f"{C}.livenessProbe.httpGet.port: Invalid value: 0: must be between 1 and 65535, inclusive",
    ),
    (
        container(livenessProbe={"httpGet": {"path": "/", "port": 80, "scheme": "ftp"}}),
        f'{C}.livenessProbe.httpGet.scheme: Unsupported value: "ftp": supported values: "HTTP", "HTTPS"',
    ),
    (probe(tcpSocket={"port": 1}), f"{C}.livenessProbe.tcpSocket: Forbidden: may not specify more than 1 handler type"),
    (probe(initialDelaySeconds=-1), f"{C}.livenessProbe.initialDelaySeconds: Invalid value: -1: {NEGATIVE}"),
    (probe("readinessProbe", periodSeconds=-1), f"{C}.readinessProbe.periodSeconds: Invalid value: -1: {NEGATIVE}"),
    (probe("startupProbe", successThreshold=2), f"{C}.startupProbe.successThreshold: Invalid value: 2: must be 1"),
    (container(securityContext={"runAsUser": -1}), f"{C}.securityContext.runAsUser: Invalid value: -1: {IDS}"),
    (
        container(securityContext={"privileged": True, "allowPrivilegeEscalation": False}),
        f'{C}.securityContext: Invalid value: {{"privileged":true,"allowPrivilegeEscalation":false}}: cannot set',
    ),
    (
        container(securityContext={"seccompProfile": {"type": "Strict"}}),
        f'{C}.securityContext.seccompProfile.type: Unsupported value: "Strict": supported values: "Localhost"',
    ),
    (container(ports=[{"containerPort": 1, "hostIP": "a"}]), f'{C}.ports[0].hostIP: Invalid value: "a": {IP_ADDRESS}'),
    (container(resources={"claims": [{"name": "gpu"}]}), f'{C}.resources.claims[0]: Not found: "gpu"'),
    (
        first_container(**probe()["containers"][0] | {"name": "f"}),
        f"initContainers[0].livenessProbe: Forbidden: {ONLY_RESTARTABLE}",
    ),
    (
        first_container(lifecycle={"preStop": {"sleep": {"seconds": 1}}}),
        f"initContainers[0].lifecycle: Forbidden: {ONLY_RESTARTABLE}",
    ),
    (
        container(securityContext={"seccompProfile": {}}),
        f"{C}.securityContext.seccompProfile.type: Required value: type is required when seccompProfile is set",
    ),
    # variables
    (container(env=[{"name": "A=B", "value": "x"}]), f'{C}.env[0].name: Invalid value: "A=B"'),
    (
        variable(fieldRef={"fieldPath": "spec.priority"}),
        f'{C}.env[0].valueFrom.fieldRef.fieldPath: Invalid value: "spec.priority": error converting fieldPath: field',
    ),
    (variable(secretKeyRef={"name": "s"}), f"{C}.env[0].valueFrom.secretKeyRef.key: Required value"),
    (variable(configMapKeyRef={"key": "k"}), f"{C}.env[0].valueFrom.configMapKeyRef.name: Required value"),
    (container(envFrom=[{}]), f'{C}.envFrom: Invalid value: "": must specify one of: `configMapRef` or `secretRef`'),
    (container(envFrom=[{"secretRef": {}}]), f"{C}.envFrom[0].secretRef.name: Required value"),
    # volumes and mounts
    (mount(name="w"), f'{C}.volumeMounts[0].name: Not found: "w"'),
    (mount(subPath="/a"), f'{C}.volumeMounts.subPath: Invalid value: "/a": must be a relative path'),
    (mount(subPath="a/../b"), f"{C}.volumeMounts.subPath: Invalid value: \"a/../b\": must not contain '..'"),
    (
        mount(subPath="a", subPathExpr="b"),
        f'{C}.volumeMounts[0].subPathExpr: Invalid value: "b": subPathExpr and subPath are mutually exclusive',
    ),
    (mount(mountPropagation="Both"), f'{C}.volumeMounts.mountPropagation: Unsupported value: "Both": supported values'),
    (container(volumeDevices=[{"name": "v"}]), f"{C}.volumeDevices[0].devicePath: Required value"),
    (volume(emptyDir={"sizeLimit": "-1"}), "volumes[0].emptyDir.sizeLimit: Forbidden: SizeLimit field must be a valid"),
    (
        volume(secret={"secretName": "s", "defaultMode": 1000}),
        f"volumes[0].secret.defaultMode: Invalid value: 1000: {MODE}",
    ),
    (volume(configMap={"name": "m", "items": [{"path": "p"}]}), "volumes[0].configMap.items[0].key: Required value"),
    (
        volume(configMap={"name": "m", "items": [{"key": "k", "path": "../p"}]}),
        "volumes[0].configMap.items[0].path: Invalid value: \"../p\": must not contain '..'",
    ),
    (volume(hostPath={"path": "/a", "type": "Folder"}), 'volumes[0].hostPath.type: Unsupported value: "Folder"'),
    (volume(hostPath={"path": "/a/.."}), "volumes[0].hostPath.path: Invalid value: \"/a/..\": must not contain '..'"),
    (volume(nfs={"path": "/a"}), "volumes[0].nfs.server: Required value"),
    (volume(nfs={"server": "s", "path": "a"}), 'volumes[0].nfs.path: Invalid value: "a": must be an absolute path'),
    (volume(csi={}), "volumes[0].csi.driver: Required value"),
    (volume(ephemeral={}), "volumes[0].ephemeral.volumeClaimTemplate: Required value"),
    # the pod
    ({"dnsPolicy": "None"}, "dnsConfig: Required value: must provide `dnsConfig` when `dnsPolicy` is None"),
    (
        {"dnsPolicy": "None", "dnsConfig": {}},
        "dnsConfig.nameservers: Required value: must provide at least one DNS nameserver when `dnsPolicy` is None",
    ),
    ({"dnsConfig": {"nameservers": ["a"]}}, f'dnsConfig.nameservers[0]: Invalid value: "a": {IP_ADDRESS}'),
    ({"dnsConfig": {"nameservers": ["10.0.0.1"] * 4}}, 'dnsConfig.nameservers: Invalid value: ["10.0.0.1","10.0.0.1"'),
    ({"hostAliases": [{"ip": "a"}]}, f'hostAliases[0].ip: Invalid value: "a": {IP_ADDRESS}'),
    (
        {"hostAliases": [{"ip": "10.0.0.1", "hostnames": ["A"]}]},
        'hostAliases[0].hostnames[0]: Invalid value: "A": a lo',
    ),
    ({"subdomain": "a.b"}, 'subdomain: Invalid value: "a.b": must not contain dots'),
    (
        {"hostPID": True, "shareProcessNamespace": True},
        "securityContext.shareProcessNamespace: Invalid value: true: Sh",
    ),
    ({"securityContext": {"fsGroup": -1}}, f"securityContext.fsGroup: Invalid value: -1: {IDS}"),
    ({"os": {"name": "darwin"}}, 'os.name: Unsupported value: "darwin": supported values: "linux", "windows"'),
    (
        {"readinessGates": [{"conditionType": "a b"}]},
        'readinessGates[0].conditionType: Invalid value: "a b": name part',
    ),
]


def job(**spec: Any) -> tuple[str, str, Json]:
    template = {"spec": {"restartPolicy": "Never", "containers": [CONTAINER]}}
    return "batch/v1", "Job", {"spec": {"template": template, **spec}}


def failure_rule(**rule: Any) -> tuple[str, str, Json]:
    return job(podFailurePolicy={"rules": [{"action": "FailJob", **rule}]})


def persistent_volume(**spec: Any) -> tuple[str, str, Json]:
    given = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/d"}}
    return "v1", "PersistentVolume", {"spec": given | spec}


def resource_slice(**spec: Any) -> tuple[str, str, Json]:
    given = {
        "driver": "d.example.com",
        "nodeName": "n1",
        "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
    }
    return "resource.k8s.io/v1", "ResourceSlice", {"spec": given | spec}


def device(**fields: Any) -> tuple[str, str, Json]:
    return resource_slice(devices=[{"name": "gpu", **fields}])


def device_claim(constraints: list[Json] | None = None, **request: Any) -> tuple[str, str, Json]:
    requests = [{"name": "gpu", "exactly": {"deviceClassName": "c", **request}}]
    devices = {"requests": requests, **({"constraints": constraints} if constraints else {})}
    return "resource.k8s.io/v1", "ResourceClaim", {"spec": {"devices": devices}}


R = "spec.podFailurePolicy.rules[0]"
OBJECTS: list[tuple[tuple[str, str, Json], str]] = [
    # jobs
    (failure_rule(action="Stop", onExitCodes={"operator": "In", "values": [1]}), f'{R}.action: Unsupported value: "St'),
    (
        failure_rule(action="", onExitCodes={"operator": "In", "values": [1]}),
        f"{R}.action: Required value: valid values: [",
    ),
    (
        failure_rule(onExitCodes={"operator": "In", "values": [1]}, onPodConditions=[{"type": "X", "status": "True"}]),
        f"{R}: Invalid value: specifying both OnExitCodes and OnPodConditions is not supported",
    ),
    (failure_rule(), f"{R}: Invalid value: specifying one of OnExitCodes and OnPodConditions is required"),
    (failure_rule(onExitCodes={"operator": "in", "values": [1]}), f'{R}.onExitCodes.operator: Unsupported value: "in"'),
    (
        failure_rule(onExitCodes={"operator": "In", "values": []}),
        f"{R}.onExitCodes.values: Invalid value: []: at least",
    ),
    (job(podReplacementPolicy="Never"), 'spec.podReplacementPolicy: Unsupported value: "Never": supported values: "F'),
    (
        job(successPolicy={"rules": []}),
        'spec.successPolicy: Invalid value: {"rules":[]}: requires indexed completion m',
    ),
    (
        job(completionMode="Indexed", completions=2, maxFailedIndexes=1),
        "spec.backoffLimitPerIndex: Required value: when maxFailedIndexes is specified",
    ),
    # storage
    (persistent_volume(accessModes=[]), "spec.accessModes: Required value"),
    (persistent_volume(capacity={}), "spec.capacity: Required value"),
    (
        persistent_volume(nfs={"server": "s", "path": "/"}),
        "spec.nfs: Forbidden: may not specify more than 1 volume type",
    ),
    (
        ("v1", "PersistentVolumeClaim", {"spec": {}}),
        "spec.accessModes: Required value: at least 1 access mode is requi",
    ),
    (
        ("v1", "PersistentVolumeClaim", {"spec": {"accessModes": ["ReadWriteOnce"]}}),
        "spec.resources[storage]: Required",
    ),
    (("storage.k8s.io/v1", "StorageClass", {"provisioner": ""}), "provisioner: Required value"),
    (
        ("storage.k8s.io/v1", "CSIDriver", {"spec": {"fsGroupPolicy": "Any"}}),
        'spec.fsGroupPolicy: Unsupported value: "An',
    ),
    (
        ("storage.k8s.io/v1", "CSIDriver", {"spec": {"volumeLifecycleModes": ["Short"]}}),
        'spec.volumeLifecycleModes: Unsupported value: "Short": supported values: "Ephemeral", "Persistent"',
    ),
    (
        ("storage.k8s.io/v1", "CSINode", {"spec": {"drivers": [{"name": "d"}]}}),
        "spec.drivers[0].nodeID: Required value",
    ),
    (
        ("storage.k8s.io/v1", "VolumeAttachment", {"spec": {"attacher": "d", "source": {}}}),
        'spec.nodeName: Invalid value: "": a lowercase RFC 1123 subd',
    ),
    # devices
    (resource_slice(driver="D"), 'spec.driver: Invalid value: "D": a lowercase RFC 1123 subdomain must consist'),
    (resource_slice(pool={"name": "", "generation": 1, "resourceSliceCount": 1}), "spec.pool.name: Required value"),
    (
        resource_slice(pool={"name": "p", "generation": 1, "resourceSliceCount": 0}),
        "spec.pool.resourceSliceCount: Invalid value: 0: must be greater than zero",
    ),
    (resource_slice(nodeName=None), f"spec: Required value: {ONE_PLACE}"),
    (resource_slice(allNodes=True), f'spec: Invalid value: "{{`nodeName`, `allNodes`}}": {ONE_PLACE}, but multiple'),
    (device(name="GPU"), 'spec.devices[0].name: Invalid value: "GPU": a lowercase RFC 1123 label must consist'),
    (resource_slice(devices=[{"name": "gpu"}] * 2), 'spec.devices[1]: Duplicate value: "gpu"'),
    (device(attributes={"model": {}}), 'spec.devices[0].attributes[model]: Invalid value: "": exactly one value must'),
    (
        device(attributes={"m": {"int": 1, "bool": True}}),
        'spec.devices[0].attributes[m]: Invalid value: {"int":1,"bool"',
    ),
    (device(taints=[{"key": "a", "effect": "Nope"}]), 'spec.devices[0].taints[0].effect: Unsupported value: "Nope"'),
    (
        device_claim(tolerations=[{"key": "a", "operator": "Exist"}]),
        'spec.devices.requests[0].exactly.tolerations[0].operator: Unsupported value: "Exist"',
    ),
    (device_claim([{"requests": ["gpu"]}]), "spec.devices.constraints[0].matchAttribute: Required value"),
]


def problems_in_files(tmp_path: Path, data: Json) -> list[str]:
    """Return what `--strict` prints, without its locations. Each location names line 1."""
    file = tmp_path / "cluster.json"
    file.write_text(json.dumps(data))
    with pytest.raises(InputErrors) as caught:
        read_cluster([str(file)], strict=True)
    assert all(each.line == 1 for each in caught.value.errors)
    return [str(each).split(": ", 2)[2] for each in caught.value.errors]


async def problems_of_the_api(data: Json) -> list[str]:
    """Return the causes for which the fake API refuses an object."""
    kind = find_kind(data["apiVersion"], data["kind"])
    assert kind is not None
    group, _, version = kind.api_version.rpartition("/")
    folder = f"/apis/{group}/{version}" if group else f"/api/{version}"
    namespace = "/namespaces/default" if kind.namespaced else ""
    response = await LocalApi().send("POST", f"{folder}{namespace}/{kind.plural}", data)
    answer = json.loads(response.body)
    assert response.status == 422, answer
    return [f"{each['field']}: {each['message']}" for each in answer["details"]["causes"]]


def check(tmp_path: Path, api_version: str, kind: str, fields: Json, problem: str) -> None:
    data = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "x"}, **fields}
    in_files, of_the_api = problems_in_files(tmp_path, data), run_virtual(partial(problems_of_the_api, data))
    assert sum(each.startswith(problem) for each in in_files) == 1, in_files
    assert sum(each.startswith(problem) for each in of_the_api) == 1, of_the_api


@pytest.mark.parametrize(("spec", "problem"), PODS)
def test_faulty_field_of_a_pod_is_refused_alike(tmp_path: Path, spec: Json, problem: str) -> None:
    whole = {"containers": [CONTAINER], **spec}
    check(tmp_path, "v1", "Pod", {"spec": whole}, f"spec.{problem}")
    template = {"metadata": {"labels": LABELS}, "spec": whole}
    deployment = {"selector": {"matchLabels": LABELS}, "template": template}
    check(tmp_path, "apps/v1", "Deployment", {"spec": deployment}, f"spec.template.spec.{problem}")
    job_template = {"spec": {"template": {"spec": {**whole, "restartPolicy": "Never"}}}}
    cron_job = {"schedule": "@hourly", "jobTemplate": job_template}
    check(tmp_path, "batch/v1", "CronJob", {"spec": cron_job}, f"spec.jobTemplate.spec.template.spec.{problem}")


@pytest.mark.parametrize(("subject", "problem"), OBJECTS)
def test_faulty_field_of_an_object_is_refused_alike(
    tmp_path: Path, subject: tuple[str, str, Json], problem: str
) -> None:
    check(tmp_path, *subject, problem)
