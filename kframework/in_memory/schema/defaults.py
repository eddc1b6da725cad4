"""The defaults of objects, by kind."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

from kframework.client.request_attributes import RBAC_GROUP
from kframework.in_memory.schema.validator import apply_defaults
from kframework.in_memory.store import Data
from kframework.objects.plain_data import entries, mapping, text, value

_CONTAINERS = ("containers", "initContainers", "ephemeralContainers")


def _schema(defaults: Mapping[str, object]) -> Data:
    """Return the schema with these defaults by path; `ports[].protocol` is the protocol of every port."""
    schema: dict[str, Any] = {}
    for path, default in defaults.items():
        field = schema
        for name in path.split("."):
            field = field.setdefault("properties", {}).setdefault(name.removesuffix("[]"), {})
            if name.endswith("[]"):
                field = field.setdefault("items", {})
        field["default"] = default
    return schema


def _add_prefixes(prefixes: Iterable[str], defaults: Mapping[str, object]) -> dict[str, object]:
    return {f"{prefix}.{path}": default for prefix in prefixes for path, default in defaults.items()}


_HTTP = {"path": "/", "scheme": "HTTP"}
_PROBE = {
    "timeoutSeconds": 1,
    "periodSeconds": 10,
    "successThreshold": 1,
    "failureThreshold": 3,
    **_add_prefixes(["httpGet"], _HTTP),
    "grpc.service": "",
}
_CONTAINER = {
    "resources": {},
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
    "ports[].protocol": "TCP",
    "env[].valueFrom.fieldRef.apiVersion": "v1",
    **_add_prefixes(("livenessProbe", "readinessProbe", "startupProbe"), _PROBE),
    **_add_prefixes(("lifecycle.postStart.httpGet", "lifecycle.preStop.httpGet"), _HTTP),
}
_VOLUME = {
    **_add_prefixes(("secret", "configMap", "downwardAPI", "projected"), {"defaultMode": 0o644}),
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
#: Pods and pod templates.
_SPEC = _schema(
    {
        "dnsPolicy": "ClusterFirst",
        "restartPolicy": "Always",
        "securityContext": {},
        "terminationGracePeriodSeconds": 30,
        "schedulerName": "default-scheduler",
        **_add_prefixes(["volumes[]"], _VOLUME),
        **_add_prefixes([f"{field}[]" for field in _CONTAINERS], _CONTAINER),
    }
)


def default_template_spec(spec: Data) -> Data:
    filled = cast("Data", apply_defaults(_SPEC, spec))
    for field in _CONTAINERS:
        if isinstance(containers := filled.get(field), list):
            filled[field] = [_with_pull_policy(each) if isinstance(each, dict) else each for each in containers]
    if isinstance(volumes := filled.get("volumes"), list):
        filled["volumes"] = [  # a volume with only a name is an empty folder
            {**each, "emptyDir": {}} if isinstance(each, dict) and not each.keys() - {"name"} else each
            for each in volumes
        ]
    if account := text(filled, "serviceAccountName") or text(filled, "serviceAccount"):
        filled |= {"serviceAccount": account, "serviceAccountName": account}
    return filled


def default_pod_spec(spec: Data) -> Data:
    """Return the spec of a pod with its defaults, except those that admission derives from the cluster."""
    filled = {"enableServiceLinks": True, "serviceAccount": "default", "serviceAccountName": "default"}
    filled |= default_template_spec(spec)
    for field in _CONTAINERS[:2]:
        if isinstance(containers := filled.get(field), list):
            host = filled.get("hostNetwork") is True
            filled[field] = [_fill_for_pod(each, host=host) if isinstance(each, dict) else each for each in containers]
    return filled


def _with_pull_policy(container: Data) -> Data:
    if container.get("imagePullPolicy"):
        return container
    name = text(container, "image").rpartition("/")[2]
    is_latest = "@" not in name and name.partition(":")[2] in ("", "latest")
    return {**container, "imagePullPolicy": "Always" if is_latest else "IfNotPresent"}


def _fill_for_pod(container: Data, *, host: bool) -> Data:
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


def default_deployment(data: Data) -> Data:
    spec = _default_spec(_DEPLOYMENT, data)
    strategy = {"type": "RollingUpdate"} | _without_empty(spec, "strategy")
    if strategy["type"] == "RollingUpdate":
        quarter = {"maxUnavailable": "25%", "maxSurge": "25%"}
        strategy["rollingUpdate"] = quarter | mapping(strategy, "rollingUpdate")
    return _with_template(data, {**spec, "strategy": strategy})


def default_daemon_set(data: Data) -> Data:
    spec = _default_spec(_DAEMON_SET, data)
    strategy = {"type": "RollingUpdate"} | _without_empty(spec, "updateStrategy")
    if strategy["type"] == "RollingUpdate":
        strategy["rollingUpdate"] = {"maxUnavailable": 1, "maxSurge": 0} | mapping(strategy, "rollingUpdate")
    return _with_template(data, {**spec, "updateStrategy": strategy})


def default_stateful_set(data: Data) -> Data:
    spec = _default_spec(_STATEFUL_SET, data)
    strategy = _without_empty(spec, "updateStrategy")
    if "type" not in strategy:
        strategy = {"type": "RollingUpdate", "rollingUpdate": mapping(strategy, "rollingUpdate")}
    if strategy["type"] == "RollingUpdate" and "rollingUpdate" in strategy:
        strategy = {**strategy, "rollingUpdate": {"partition": 0} | mapping(strategy, "rollingUpdate")}
    spec["updateStrategy"] = strategy
    retention = "persistentVolumeClaimRetentionPolicy"
    spec[retention] = apply_defaults(_RETENTION, spec[retention])
    if isinstance(claims := spec.get("volumeClaimTemplates"), list):
        kind = {"apiVersion": "v1", "kind": "PersistentVolumeClaim"}
        spec["volumeClaimTemplates"] = [
            kind | cast("Data", apply_defaults(_CLAIM, each)) if isinstance(each, dict) else each for each in claims
        ]
    return _with_template(data, spec)


def default_replica_set(data: Data) -> Data:
    return _with_template(data, _default_spec(_REPLICAS, data))


def default_replication_controller(data: Data) -> Data:
    spec = _default_spec(_REPLICAS, data)
    labels, metadata = mapping(spec, "template.metadata.labels"), mapping(data, "metadata")
    if labels and not spec.get("selector"):
        spec["selector"] = labels
    if labels and not metadata.get("labels"):
        data = {**data, "metadata": {**metadata, "labels": labels}}
    return _with_template(data, spec)


def default_job(data: Data) -> Data:
    """Add the defaults of a Job; its selector and labels are generated on creation."""
    spec = mapping(data, "spec")
    if "completions" not in spec and "parallelism" not in spec:
        spec = {**spec, "completions": 1}
    spec = cast("Data", apply_defaults(_JOB, spec))
    spec.setdefault("backoffLimit", 2**31 - 1 if "backoffLimitPerIndex" in spec else 6)
    spec.setdefault("podReplacementPolicy", "Failed" if "podFailurePolicy" in spec else "TerminatingOrFailed")
    return _with_template(data, spec)


def default_cron_job(data: Data) -> Data:
    """Add the defaults of a CronJob; its jobs get theirs on creation."""
    spec = _default_spec(_CRON_JOB, data)
    return {**data, "spec": change_at(spec, ("jobTemplate", "spec", "template", "spec"), default_template_spec)}


def _default_spec(schema: Data, data: Data) -> Data:
    return dict(cast("Data", apply_defaults(schema, mapping(data, "spec"))))


def _without_empty(spec: Data, field: str) -> Data:
    return {name: value for name, value in mapping(spec, field).items() if value != ""}


def _with_template(data: Data, spec: Data) -> Data:
    return {**data, "spec": change_at(spec, ("template", "spec"), default_template_spec)}


def change_at(data: Data, path: tuple[str, ...], change: Callable[[Data], Data]) -> Data:
    if not path:
        return change(data)
    inner = data.get(path[0])
    return {**data, path[0]: change_at(inner, path[1:], change)} if isinstance(inner, dict) else data


def default_service(data: Data) -> Data:
    """Add the defaults of a Service, except addresses and node ports."""
    spec = mapping(data, "spec")
    kind = text(spec, "type", "ClusterIP")
    filled = {"type": kind, "sessionAffinity": "None"} | {name: value for name, value in spec.items() if value != ""}
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
    filled = {"protocol": "TCP"} | {name: value for name, value in port.items() if value != ""}
    if not filled.get("targetPort") and "port" in filled:
        filled["targetPort"] = filled["port"]
    return filled


_BY_SCHEMA = {
    ("v1", "Namespace"): _schema({"spec": {"finalizers": ["kubernetes"]}}),
    ("v1", "PersistentVolume"): _schema(
        {"spec.volumeMode": "Filesystem", "spec.persistentVolumeReclaimPolicy": "Retain"}
    ),
    ("v1", "PersistentVolumeClaim"): _schema({"spec.volumeMode": "Filesystem"}),
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
    kept = {field: value for field, value in data.items() if field != "stringData"}
    if plain := mapping(data, "stringData"):
        encoded = {key: b64encode(str(each).encode()).decode() for key, each in plain.items()}
        kept["data"] = mapping(data, "data") | encoded
    return {"type": "Opaque"} | kept


def _network_policy(data: Data) -> Data:
    ports = {"spec.ingress[].ports[].protocol": "TCP", "spec.egress[].ports[].protocol": "TCP"}
    filled = cast("Data", apply_defaults(_schema(ports), data))
    spec = mapping(filled, "spec")
    types = spec.get("policyTypes") or ["Ingress", *(["Egress"] if spec.get("egress") else [])]
    return {**filled, "spec": {**spec, "policyTypes": types}}


def _binding(data: Data) -> Data:
    role = mapping(data, "roleRef")
    filled = {**data, "roleRef": role | {"apiGroup": role.get("apiGroup") or RBAC_GROUP}}
    if "subjects" in data:
        filled["subjects"] = [
            {"apiGroup": RBAC_GROUP} | each if each.get("kind") in ("User", "Group") else each
            for each in entries(data, "subjects")
        ]
    return filled


_BY_FUNCTION: dict[tuple[str, str], Callable[[Data], Data]] = {
    ("v1", "Pod"): lambda data: change_at(data, ("spec",), default_pod_spec),
    ("v1", "PodTemplate"): lambda data: change_at(data, ("template", "spec"), default_template_spec),
    ("v1", "ReplicationController"): default_replication_controller,
    ("v1", "Secret"): _secret,
    ("v1", "Service"): default_service,
    ("apps/v1", "DaemonSet"): default_daemon_set,
    ("apps/v1", "Deployment"): default_deployment,
    ("apps/v1", "ReplicaSet"): default_replica_set,
    ("apps/v1", "StatefulSet"): default_stateful_set,
    ("batch/v1", "CronJob"): default_cron_job,
    ("batch/v1", "Job"): default_job,
    ("networking.k8s.io/v1", "NetworkPolicy"): _network_policy,
    ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding"): _binding,
    ("rbac.authorization.k8s.io/v1", "RoleBinding"): _binding,
}


def with_defaults(data: Data, api_version: str, kind: str) -> Data:
    if fill := _BY_FUNCTION.get((api_version, kind)):
        return fill(data)
    schema = _BY_SCHEMA.get((api_version, kind))
    return cast("Data", apply_defaults(schema, data)) if schema is not None else data
