"""The defaults of objects, by their kind."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

from kframework.fake_api.schema.validator import defaulted
from kframework.fake_api.wire.documents import Data
from kframework.fake_api.wire.plain_data import entries, mapping, text, value

_CONTAINERS = ("containers", "initContainers", "ephemeralContainers")


def _schema(defaults: Mapping[str, object]) -> Data:
    """Return the schema with these defaults by path; `ports[].protocol` is that of every port."""
    schema: dict[str, Any] = {}
    for path, default in defaults.items():
        place = schema
        for step in path.split("."):
            place = place.setdefault("properties", {}).setdefault(step.removesuffix("[]"), {})
            if step.endswith("[]"):
                place = place.setdefault("items", {})
        place["default"] = default
    return schema


def _below(places: Iterable[str], defaults: Mapping[str, object]) -> dict[str, object]:
    """Return the same defaults below each of several places."""
    return {f"{place}.{path}": default for place in places for path, default in defaults.items()}


_HTTP = {"path": "/", "scheme": "HTTP"}
_PROBE = {
    "timeoutSeconds": 1,
    "periodSeconds": 10,
    "successThreshold": 1,
    "failureThreshold": 3,
    **_below(["httpGet"], _HTTP),
    "grpc.service": "",
}
_CONTAINER = {
    "resources": {},
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
    "ports[].protocol": "TCP",
    "env[].valueFrom.fieldRef.apiVersion": "v1",
    **_below(("livenessProbe", "readinessProbe", "startupProbe"), _PROBE),
    **_below(("lifecycle.postStart.httpGet", "lifecycle.preStop.httpGet"), _HTTP),
}
_VOLUME = {
    **_below(("secret", "configMap", "downwardAPI", "projected"), {"defaultMode": 0o644}),
    "downwardAPI.items[].fieldRef.apiVersion": "v1",
    "projected.sources[].serviceAccountToken.expirationSeconds": 3600,
    "projected.sources[].downwardAPI.items[].fieldRef.apiVersion": "v1",
    "hostPath.type": "",
    "iscsi.iscsiInterface": "default",
    "rbd.pool": "rbd",
    "rbd.user": "admin",
    "rbd.keyring": "/etc/ceph/keyring",
    "ephemeral.volumeClaimTemplate.spec.volumeMode": "Filesystem",
}
#: Of pods and of templates alike.
_SPEC = _schema(
    {
        "dnsPolicy": "ClusterFirst",
        "restartPolicy": "Always",
        "securityContext": {},
        "terminationGracePeriodSeconds": 30,
        "schedulerName": "default-scheduler",
        **_below(["volumes[]"], _VOLUME),
        **_below([f"{field}[]" for field in _CONTAINERS], _CONTAINER),
    }
)


def template_spec(spec: Data) -> Data:
    """Return the spec of a template of pods with its defaults."""
    filled = cast("Data", defaulted(_SPEC, spec))
    for field in _CONTAINERS:
        if isinstance(containers := filled.get(field), list):
            filled[field] = [_pulled(each) if isinstance(each, dict) else each for each in containers]
    if isinstance(volumes := filled.get("volumes"), list):
        filled["volumes"] = [  # one of which only the name is said is an empty folder
            {**each, "emptyDir": {}} if isinstance(each, dict) and not each.keys() - {"name"} else each
            for each in volumes
        ]
    if account := text(filled, "serviceAccountName") or text(filled, "serviceAccount"):
        filled |= {"serviceAccount": account, "serviceAccountName": account}
    return filled


def pod_spec(spec: Data) -> Data:
    """Return the spec of a pod with its defaults; what depends on the cluster is left to admission."""
    filled = {"enableServiceLinks": True, "serviceAccount": "default", "serviceAccountName": "default"}
    filled |= template_spec(spec)
    for field in _CONTAINERS[:2]:
        if isinstance(containers := filled.get(field), list):
            host = filled.get("hostNetwork") is True
            filled[field] = [_of_a_pod(each, host=host) if isinstance(each, dict) else each for each in containers]
    return filled


def _pulled(container: Data) -> Data:
    """Pull an image anew only if it may be another by now."""
    if container.get("imagePullPolicy"):
        return container
    name = text(container, "image").rpartition("/")[2]
    is_latest = "@" not in name and name.partition(":")[2] in ("", "latest")
    return {**container, "imagePullPolicy": "Always" if is_latest else "IfNotPresent"}


def _of_a_pod(container: Data, *, host: bool) -> Data:
    """Let limits stand in for requests and, on the host's network, ports for those of the host."""
    resources = mapping(container, "resources")
    limits, requests = mapping(resources, "limits"), mapping(resources, "requests")
    if limits.keys() - requests.keys():
        container = {**container, "resources": {**resources, "requests": limits | requests}}
    if host and isinstance(ports := container.get("ports"), list):
        own = [
            {**each, "hostPort": each.get("containerPort", 0)}
            if isinstance(each, dict) and not each.get("hostPort")
            else each
            for each in ports
        ]
        container = {**container, "ports": own}
    return container


_REPLICAS = _schema({"replicas": 1})
_DEPLOYMENT = _schema({"replicas": 1, "strategy": {}, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600})
_DAEMON_SET = _schema({"updateStrategy": {}, "revisionHistoryLimit": 10})
_STATEFUL_SET = _schema(
    {
        "podManagementPolicy": "OrderedReady",
        "persistentVolumeClaimRetentionPolicy": {},
        "replicas": 1,
        "revisionHistoryLimit": 10,
    }
)
_RETENTION = _schema({"whenDeleted": "Retain", "whenScaled": "Retain"})
_CLAIM = _schema({"spec.volumeMode": "Filesystem", "status": {"phase": "Pending"}})
_JOB = _schema(
    {
        "parallelism": 1,
        "completionMode": "NonIndexed",
        "suspend": False,
        "manualSelector": False,
        "podFailurePolicy.rules[].onPodConditions[].status": "True",
    }
)
_CRON_JOB = _schema(
    {
        "concurrencyPolicy": "Allow",
        "suspend": False,
        "successfulJobsHistoryLimit": 3,
        "failedJobsHistoryLimit": 1,
    }
)


def deployment(data: Data) -> Data:
    """Fill in a Deployment."""
    spec = _filled(_DEPLOYMENT, data)
    strategy = {"type": "RollingUpdate"} | _told(spec, "strategy")
    if strategy["type"] == "RollingUpdate":
        quarter = {"maxUnavailable": "25%", "maxSurge": "25%"}
        strategy["rollingUpdate"] = quarter | mapping(strategy, "rollingUpdate")
    return _with_template(data, {**spec, "strategy": strategy})


def daemon_set(data: Data) -> Data:
    """Fill in a DaemonSet."""
    spec = _filled(_DAEMON_SET, data)
    strategy = {"type": "RollingUpdate"} | _told(spec, "updateStrategy")
    if strategy["type"] == "RollingUpdate":
        strategy["rollingUpdate"] = {"maxUnavailable": 1, "maxSurge": 0} | mapping(strategy, "rollingUpdate")
    return _with_template(data, {**spec, "updateStrategy": strategy})


def stateful_set(data: Data) -> Data:
    """Fill in a StatefulSet."""
    spec = _filled(_STATEFUL_SET, data)
    strategy = _told(spec, "updateStrategy")
    if "type" not in strategy:
        strategy = {"type": "RollingUpdate", "rollingUpdate": mapping(strategy, "rollingUpdate")}
    if strategy["type"] == "RollingUpdate" and "rollingUpdate" in strategy:
        strategy = {**strategy, "rollingUpdate": {"partition": 0} | mapping(strategy, "rollingUpdate")}
    spec["updateStrategy"] = strategy
    retention = "persistentVolumeClaimRetentionPolicy"
    spec[retention] = defaulted(_RETENTION, spec[retention])
    if isinstance(claims := spec.get("volumeClaimTemplates"), list):
        kind = {"apiVersion": "v1", "kind": "PersistentVolumeClaim"}
        spec["volumeClaimTemplates"] = [
            kind | cast("Data", defaulted(_CLAIM, each)) if isinstance(each, dict) else each for each in claims
        ]
    return _with_template(data, spec)


def replica_set(data: Data) -> Data:
    """Fill in a ReplicaSet."""
    return _with_template(data, _filled(_REPLICAS, data))


def replication_controller(data: Data) -> Data:
    """Fill in a ReplicationController, which is named by the labels of its pods if it has none of its own."""
    spec = _filled(_REPLICAS, data)
    labels = mapping(spec, "template.metadata.labels")
    if labels and not spec.get("selector"):
        spec["selector"] = labels
    return _with_template(_labelled(data, labels), spec)


def job(data: Data) -> Data:
    """Fill in a Job; its selector is made when it is created."""
    spec = mapping(data, "spec")
    if "completions" not in spec and "parallelism" not in spec:
        spec = {**spec, "completions": 1}
    spec = cast("Data", defaulted(_JOB, spec))
    spec.setdefault("backoffLimit", 2**31 - 1 if "backoffLimitPerIndex" in spec else 6)
    spec.setdefault("podReplacementPolicy", "Failed" if "podFailurePolicy" in spec else "TerminatingOrFailed")
    return _with_template(_labelled(data, mapping(spec, "template.metadata.labels")), spec)


def cron_job(data: Data) -> Data:
    """Fill in a CronJob; the jobs that it makes are filled in when they are made."""
    spec = _filled(_CRON_JOB, data)
    return {**data, "spec": _at(spec, ("jobTemplate", "spec", "template", "spec"), template_spec)}


def _filled(schema: Data, data: Data) -> Data:
    return dict(cast("Data", defaulted(schema, mapping(data, "spec"))))


def _told(spec: Data, field: str) -> Data:
    return {name: value for name, value in mapping(spec, field).items() if value != ""}


def _with_template(data: Data, spec: Data) -> Data:
    return {**data, "spec": _at(spec, ("template", "spec"), template_spec)}


def _at(data: Data, path: tuple[str, ...], change: Callable[[Data], Data]) -> Data:
    """Change what stands at a path, if there is anything; what is there is a copy from there up."""
    if not path:
        return change(data)
    inner = data.get(path[0])
    return {**data, path[0]: _at(inner, path[1:], change)} if isinstance(inner, dict) else data


def _labelled(data: Data, labels: Data) -> Data:
    metadata = mapping(data, "metadata")
    if not labels or metadata.get("labels"):
        return data
    return {**data, "metadata": {**metadata, "labels": labels}}


def service_defaults(data: Data) -> Data:
    """Fill in a Service; its addresses and ports of nodes are given out elsewhere."""
    spec = mapping(data, "spec")
    kind = text(spec, "type", "ClusterIP")
    filled = {"type": kind, "sessionAffinity": "None"} | {name: told for name, told in spec.items() if told != ""}
    if filled["sessionAffinity"] == "None":
        filled.pop("sessionAffinityConfig", None)
    elif value(filled, "sessionAffinityConfig.clientIP.timeoutSeconds") is None:
        filled["sessionAffinityConfig"] = {"clientIP": {"timeoutSeconds": 3 * 3600}}
    if "ports" in spec:
        filled["ports"] = [_port(each) for each in entries(spec, "ports")]
    if kind != "ExternalName":
        filled.setdefault("internalTrafficPolicy", "Cluster")
    if kind in ("NodePort", "LoadBalancer") or spec.get("externalIPs"):
        filled.setdefault("externalTrafficPolicy", "Cluster")
    if kind == "LoadBalancer":
        filled.setdefault("allocateLoadBalancerNodePorts", True)
    return {**data, "spec": filled}


def _port(port: Data) -> Data:
    filled = {"protocol": "TCP"} | {name: told for name, told in port.items() if told != ""}
    if not filled.get("targetPort") and "port" in filled:
        filled["targetPort"] = filled["port"]
    return filled


_BY_SCHEMA = {
    ("v1", "Namespace"): _schema({"spec": {"finalizers": ["kubernetes"]}}),
    ("v1", "PersistentVolume"): _schema(
        {"spec.volumeMode": "Filesystem", "spec.persistentVolumeReclaimPolicy": "Retain"}
    ),
    ("v1", "PersistentVolumeClaim"): _schema({"spec.volumeMode": "Filesystem"}),
    ("networking.k8s.io/v1", "NetworkPolicy"): _schema(
        {"spec.ingress[].ports[].protocol": "TCP", "spec.egress[].ports[].protocol": "TCP"}
    ),
    ("scheduling.k8s.io/v1", "PriorityClass"): _schema({"preemptionPolicy": "PreemptLowerPriority"}),
    ("storage.k8s.io/v1", "StorageClass"): _schema({"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"}),
    ("storage.k8s.io/v1", "CSIDriver"): _schema(
        {
            "spec.attachRequired": True,
            "spec.podInfoOnMount": False,
            "spec.storageCapacity": False,
            "spec.fsGroupPolicy": "ReadWriteOnceWithFSType",
            "spec.volumeLifecycleModes": ["Persistent"],
            "spec.requiresRepublish": False,
            "spec.seLinuxMount": False,
        }
    ),
    ("autoscaling/v2", "HorizontalPodAutoscaler"): _schema({"spec.minReplicas": 1}),
    ("autoscaling/v1", "HorizontalPodAutoscaler"): _schema({"spec.minReplicas": 1}),
}


def _secret(data: Data) -> Data:
    """Put what is written in the open beside what is encoded, as it is stored."""
    kept = {field: value for field, value in data.items() if field != "stringData"}
    if plain := mapping(data, "stringData"):
        encoded = {key: b64encode(str(each).encode()).decode() for key, each in plain.items()}
        kept["data"] = mapping(data, "data") | encoded
    return {"type": "Opaque"} | kept


_BY_FUNCTION: dict[tuple[str, str], Callable[[Data], Data]] = {
    ("v1", "Pod"): lambda data: _at(data, ("spec",), pod_spec),
    ("v1", "PodTemplate"): lambda data: _at(data, ("template", "spec"), template_spec),
    ("v1", "ReplicationController"): replication_controller,
    ("v1", "Secret"): _secret,
    ("v1", "Service"): service_defaults,
    ("apps/v1", "DaemonSet"): daemon_set,
    ("apps/v1", "Deployment"): deployment,
    ("apps/v1", "ReplicaSet"): replica_set,
    ("apps/v1", "StatefulSet"): stateful_set,
    ("batch/v1", "CronJob"): cron_job,
    ("batch/v1", "Job"): job,
}


def with_defaults(data: Data, api_version: str, kind: str) -> Data:
    """Return an object with the defaults of its kind."""
    if fill := _BY_FUNCTION.get((api_version, kind)):
        return fill(data)
    schema = _BY_SCHEMA.get((api_version, kind))
    return cast("Data", defaulted(schema, data)) if schema is not None else data
