"""Faulty fields of classes, volumes, budgets, policies and workloads are found in files and in the fake API alike."""

from __future__ import annotations

from typing import Any

import pytest

from kframework.in_memory.schema.defaults import with_defaults
from kframework.in_memory.schema.validation.kinds import object_causes
from kframework.objects import convert, find_kind
from kframework.objects.validation import find_problem

SELECTOR = {"matchLabels": {"a": "b"}}
TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
JOB = {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}
NEGATIVE = "must be greater than or equal to 0"
PERCENT = "a valid percent string must be a numeric string followed by an ending '%'"
ROLLING = "spec.strategy.rollingUpdate"
DAEMON_ROLLING = "spec.updateStrategy.rollingUpdate"


def workload(kind: str, **spec: Any) -> tuple[str, str, dict[str, Any]]:
    return "apps/v1", kind, {"spec": {"selector": SELECTOR, "template": TEMPLATE, **spec}}


def template_of(**spec: Any) -> dict[str, Any]:
    return {**TEMPLATE, "spec": {**TEMPLATE["spec"], **spec}}  # type: ignore[dict-item]  # it is a mapping


def deployment(**spec: Any) -> tuple[str, str, dict[str, Any]]:
    return workload("Deployment", **spec)


def rolling(**limits: Any) -> tuple[str, str, dict[str, Any]]:
    return deployment(strategy={"type": "RollingUpdate", "rollingUpdate": limits})


def daemon_set(**limits: Any) -> tuple[str, str, dict[str, Any]]:
    return workload("DaemonSet", updateStrategy={"type": "RollingUpdate", "rollingUpdate": limits})


def stateful_set(**spec: Any) -> tuple[str, str, dict[str, Any]]:
    return workload("StatefulSet", serviceName="s", **spec)


def job(**spec: Any) -> tuple[str, str, dict[str, Any]]:
    return "batch/v1", "Job", {"spec": {**JOB, **spec}}


def cron_job(**spec: Any) -> tuple[str, str, dict[str, Any]]:
    return "batch/v1", "CronJob", {"spec": {"schedule": "@hourly", "jobTemplate": {"spec": JOB}, **spec}}


def controller(**spec: Any) -> tuple[str, str, dict[str, Any]]:
    return "v1", "ReplicationController", {"spec": {"selector": {"a": "b"}, "template": TEMPLATE, **spec}}


def priority_class(**fields: Any) -> tuple[str, str, dict[str, Any]]:
    return "scheduling.k8s.io/v1", "PriorityClass", fields


def runtime_class(**fields: Any) -> tuple[str, str, dict[str, Any]]:
    return "node.k8s.io/v1", "RuntimeClass", {"handler": "runsc", **fields}


def limits(*items: dict[str, Any]) -> tuple[str, str, dict[str, Any]]:
    return "v1", "LimitRange", {"spec": {"limits": items}}


def item(**fields: Any) -> tuple[str, str, dict[str, Any]]:
    return limits({"type": "Container", **fields})


def storage_class(**fields: Any) -> tuple[str, str, dict[str, Any]]:
    return "storage.k8s.io/v1", "StorageClass", {"provisioner": "csi.example.com", **fields}


def topology(*expressions: dict[str, Any]) -> tuple[str, str, dict[str, Any]]:
    return storage_class(allowedTopologies=[{"matchLabelExpressions": expressions}])


def budget(**spec: Any) -> tuple[str, str, dict[str, Any]]:
    return "policy/v1", "PodDisruptionBudget", {"spec": {"selector": SELECTOR, **spec}}


def claim(**spec: Any) -> tuple[str, str, dict[str, Any]]:
    resources = {"requests": {"storage": "1Gi"}}
    return "v1", "PersistentVolumeClaim", {"spec": {"accessModes": ["ReadWriteOnce"], "resources": resources, **spec}}


def volume(**spec: Any) -> tuple[str, str, dict[str, Any]]:
    given = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/d"}}
    return "v1", "PersistentVolume", {"spec": given | spec}


def csi_node(*drivers: dict[str, Any]) -> tuple[str, str, dict[str, Any]]:
    return "storage.k8s.io/v1", "CSINode", {"spec": {"drivers": [{"nodeID": "n", **each} for each in drivers]}}


def node(*taints: dict[str, Any]) -> tuple[str, str, dict[str, Any]]:
    return "v1", "Node", {"spec": {"taints": taints}}


def taint_rule(effect: str = "NoSchedule", **selector: Any) -> tuple[str, str, dict[str, Any]]:
    taint = {"key": "example.com/broken", "effect": effect}
    return "resource.k8s.io/v1", "DeviceTaintRule", {"spec": {"deviceSelector": selector, "taint": taint}}


OPERATOR = {"matchExpressions": [{"key": "a", "operator": "in", "values": ["b"]}]}
NO_OPERATOR = 'operator: Invalid value: "in": not a valid selector operator'
FAULTY: list[tuple[tuple[str, str, dict[str, Any]], str]] = [
    # rules that taint devices
    (taint_rule(""), "spec.taint.effect: Required value"),
    (
        taint_rule("PreferNoSchedule"),
        'spec.taint.effect: Unsupported value: "PreferNoSchedule": supported values: "NoExecute", "NoSchedule", "None"',
    ),
    (taint_rule(driver=""), "spec.deviceSelector.driver: Required value"),
    (taint_rule(driver="a_b"), 'spec.deviceSelector.driver: Invalid value: "a_b": a lowercase RFC 1123 subdomain'),
    (taint_rule(pool=""), "spec.deviceSelector.pool: Required value"),
    (taint_rule(pool="a//b"), 'spec.deviceSelector.pool: Invalid value: "": a lowercase RFC 1123 subdomain'),
    (taint_rule(device="a.b"), 'spec.deviceSelector.device: Invalid value: "a.b": must not contain dots'),
    # priority classes
    (priority_class(value=1_000_000_001), "value: Forbidden: maximum allowed value of a user defined priority is 1"),
    (priority_class(metadata={"name": "system-x"}), "metadata.name: Forbidden: priority class names with 'system-'"),
    (
        priority_class(metadata={"name": "system-node-critical"}, value=5),
        "metadata.name: Forbidden: priority class names with 'system-' prefix are reserved",
    ),
    (priority_class(preemptionPolicy="never"), 'preemptionPolicy: Unsupported value: "never": supported values: "Pre'),
    (priority_class(preemptionPolicy="Always"), 'preemptionPolicy: Unsupported value: "Always"'),
    # runtime classes
    (runtime_class(handler=""), "handler: Required value"),
    (runtime_class(handler="Run_SC"), 'handler: Invalid value: "Run_SC": a lowercase RFC 1123 label must'),
    (runtime_class(overhead={"podFixed": {"cpu": "-1"}}), f'overhead.limits[cpu]: Invalid value: "-1": {NEGATIVE}'),
    (
        runtime_class(overhead={"podFixed": {"cpus": "1"}}),
        'overhead.limits[cpus]: Invalid value: "cpus": must be a standard resource type or fully qualified',
    ),
    (
        runtime_class(scheduling={"nodeSelector": {"-a": "b"}}),
        'scheduling.nodeSelector: Invalid value: "-a": name part must consist of',
    ),
    (
        runtime_class(scheduling={"nodeSelector": {"a": "b c"}}),
        'scheduling.nodeSelector: Invalid value: "b c": a valid label must be',
    ),
    (
        runtime_class(scheduling={"tolerations": [{"key": "a", "operator": "Exist"}]}),
        'scheduling.tolerations[0].operator: Unsupported value: "Exist": supported values: "Equal", "Exists"',
    ),
    (
        runtime_class(scheduling={"tolerations": [{"key": "a", "operator": "Exists"}] * 2}),
        'scheduling.tolerations[1]: Duplicate value: {"key":"a","operator":"Exists"}',
    ),
    # limit ranges
    (limits({"type": "Containers"}), 'spec.limits[0].type: Invalid value: "Containers": must be a standard limit type'),
    (limits({"type": "-"}), 'spec.limits[0].type: Invalid value: "-": name part must consist of'),
    (limits({"type": "Pod"}, {"type": "Pod"}), 'spec.limits[1].type: Duplicate value: "Pod"'),
    (
        limits({"type": "Pod", "default": {"cpu": "1"}}),
        "spec.limits[0].default: Forbidden: may not be specified when `type` is 'Pod'",
    ),
    (
        limits({"type": "Pod", "defaultRequest": {"cpu": "1"}}),
        "spec.limits[0].defaultRequest: Forbidden: may not be specified when `type` is 'Pod'",
    ),
    (
        limits({"type": "PersistentVolumeClaim", "min": {"cpu": "1"}}),
        "spec.limits[0].limits: Required value: either minimum or maximum storage value is required",
    ),
    (
        item(min={"cpu": "2"}, max={"cpu": "1"}),
        'spec.limits[0].min[cpu]: Invalid value: "2": min value 2 is greater than max value 1',
    ),
    (
        item(min={"cpu": "2"}, defaultRequest={"cpu": "1"}),
        'spec.limits[0].defaultRequest[cpu]: Invalid value: "1": min value 2 is greater than default request value 1',
    ),
    (
        item(max={"cpu": "2"}, defaultRequest={"cpu": "3"}),
        'spec.limits[0].defaultRequest[cpu]: Invalid value: "3": default request value 3 is greater than max value 2',
    ),
    (
        item(default={"cpu": "2"}, defaultRequest={"cpu": "3"}),
        'spec.limits[0].defaultRequest[cpu]: Invalid value: "3": default request value 3 is greater than default limit',
    ),
    (
        item(min={"cpu": "3"}, default={"cpu": "2"}),
        'spec.limits[0].default[cpu]: Invalid value: "3": min value 3 is greater than default value 2',
    ),
    (
        item(max={"cpu": "1"}, default={"cpu": "2"}),
        'spec.limits[0].default[cpu]: Invalid value: "1": default value 2 is greater than max value 1',
    ),
    (
        item(maxLimitRequestRatio={"cpu": "500m"}),
        'spec.limits[0].maxLimitRequestRatio[cpu]: Invalid value: "500m": ratio 500m is less than 1',
    ),
    # storage classes
    (storage_class(provisioner="a b"), 'provisioner: Invalid value: "a b": name part must consist of'),
    (storage_class(reclaimPolicy="Recycle"), 'reclaimPolicy: Unsupported value: "Recycle": supported values: "Delete"'),
    (storage_class(volumeBindingMode="Late"), 'volumeBindingMode: Unsupported value: "Late": supported values: "Immed'),
    (storage_class(volumeBindingMode=""), 'volumeBindingMode: Unsupported value: ""'),
    (topology({"key": "zone"}), "allowedTopologies[0].matchLabelExpressions[0].values: Required value"),
    (
        topology({"key": "zone", "values": ["a", "a"]}),
        'allowedTopologies[0].matchLabelExpressions[0].values[1]: Duplicate value: "a"',
    ),
    (
        topology({"key": "a b", "values": ["a"]}),
        'allowedTopologies[0].matchLabelExpressions[0].key: Invalid value: "a b": name part',
    ),
    (
        topology({"key": "zone", "values": ["a"]}, {"key": "zone", "values": ["b"]}),
        'allowedTopologies[0].matchLabelExpressions[1].key: Duplicate value: "zone"',
    ),
    # disruption budgets
    (budget(minAvailable=1, maxUnavailable=1), 'spec: Invalid value: {"minAvailable":1,"maxUnavailable":1,"selector"'),
    (budget(minAvailable=-1), f"spec.minAvailable: Invalid value: -1: {NEGATIVE}"),
    (budget(minAvailable="half"), f'spec.minAvailable: Invalid value: "half": {PERCENT}'),
    (budget(minAvailable="101%"), 'spec.minAvailable: Invalid value: "101%": must not be greater than 100%'),
    (budget(maxUnavailable=-1), f"spec.maxUnavailable: Invalid value: -1: {NEGATIVE}"),
    (budget(maxUnavailable="1"), f'spec.maxUnavailable: Invalid value: "1": {PERCENT}'),
    (budget(maxUnavailable="200%"), 'spec.maxUnavailable: Invalid value: "200%": must not be greater than 100%'),
    (budget(selector=OPERATOR), f"spec.selector.matchExpressions[0].{NO_OPERATOR}"),
    (budget(selector={"matchLabels": {"a": "b/"}}), 'spec.selector.matchLabels: Invalid value: "b/": a valid label'),
    (
        budget(unhealthyPodEvictionPolicy="Always"),
        'spec.unhealthyPodEvictionPolicy: Unsupported value: "Always": supported values: "AlwaysAllow"',
    ),
    # claims and volumes
    (claim(accessModes=["ReadWrite"]), 'spec.accessModes: Unsupported value: "ReadWrite": supported values: "ReadOnly'),
    (
        claim(accessModes=["ReadWriteOncePod", "ReadWriteOnce"]),
        "spec.accessModes: Forbidden: may not use ReadWriteOncePod with other access modes",
    ),
    (claim(selector=OPERATOR), f"spec.selector.matchExpressions[0].{NO_OPERATOR}"),
    (
        claim(resources={"requests": {"storage": "0"}}),
        'spec.resources[storage]: Invalid value: "0": must be greater than zero',
    ),
    (claim(storageClassName="Fast!"), 'spec.storageClassName: Invalid value: "Fast!": a lowercase RFC 1123 subdomain'),
    (claim(volumeMode="block"), 'spec.volumeMode: Unsupported value: "block": supported values: "Block", "Filesystem"'),
    (volume(accessModes=["ReadMany"]), 'spec.accessModes: Unsupported value: "ReadMany"'),
    (
        volume(persistentVolumeReclaimPolicy="Keep"),
        'spec.persistentVolumeReclaimPolicy: Unsupported value: "Keep": supported values: "Delete"',
    ),
    (volume(volumeMode="Files"), 'spec.volumeMode: Unsupported value: "Files"'),
    (volume(storageClassName="A"), 'spec.storageClassName: Invalid value: "A"'),
    (volume(nodeAffinity={}), "spec.nodeAffinity.required: Required value: must specify required node constraints"),
    (
        volume(nodeAffinity={"required": {"nodeSelectorTerms": []}}),
        "spec.nodeAffinity.required.nodeSelectorTerms: Required value: must have at least one node selector term",
    ),
    (
        volume(nodeAffinity={"required": {"nodeSelectorTerms": [OPERATOR]}}),
        f"spec.nodeAffinity.required.nodeSelectorTerms[0].matchExpressions[0].{NO_OPERATOR}",
    ),
    (csi_node({"name": ""}), "spec.drivers[0].name: Required value"),
    (csi_node({"name": "a b"}), 'spec.drivers[0].name: Invalid value: "a b": a lowercase RFC 1123 subdomain'),
    (csi_node({"name": "a"}, {"name": "a"}), 'spec.drivers[1].name: Duplicate value: "a"'),
    (
        csi_node({"name": "a", "allocatable": {"count": -1}}),
        f"spec.drivers[0].allocatable.count: Invalid value: -1: {NEGATIVE}",
    ),
    (
        ("storage.k8s.io/v1", "CSIStorageCapacity", {"storageClassName": "a", "nodeTopology": OPERATOR}),
        f"nodeTopology.matchExpressions[0].{NO_OPERATOR}",
    ),
    (
        ("storage.k8s.io/v1", "CSIStorageCapacity", {"storageClassName": "A_"}),
        'storageClassName: Invalid value: "A_": a lowercase RFC 1123 subdomain',
    ),
    # nodes
    (
        node({"key": "a", "effect": "Nope"}),
        'spec.taints[0].effect: Unsupported value: "Nope": supported values: "No',
    ),
    (node({"key": "a"}), "spec.taints[0].effect: Required value"),
    (node({"key": "a b", "effect": "NoSchedule"}), 'spec.taints[0].key: Invalid value: "a b": name part'),
    (
        node({"key": "a", "value": "b c", "effect": "NoSchedule"}),
        'spec.taints[0].value: Invalid value: "b c": a valid label must be',
    ),
    (
        node(*[{"key": "a", "effect": "NoSchedule"}] * 2),
        'spec.taints[1]: Duplicate value: {"key":"a","effect":"NoSchedule"}: taints must be unique by key and effect',
    ),
    # deployments
    (deployment(replicas=-1), f"spec.replicas: Invalid value: -1: {NEGATIVE}"),
    (deployment(minReadySeconds=-1), f"spec.minReadySeconds: Invalid value: -1: {NEGATIVE}"),
    (deployment(revisionHistoryLimit=-1), f"spec.revisionHistoryLimit: Invalid value: -1: {NEGATIVE}"),
    (deployment(progressDeadlineSeconds=-1), f"spec.progressDeadlineSeconds: Invalid value: -1: {NEGATIVE}"),
    (
        deployment(progressDeadlineSeconds=5, minReadySeconds=5),
        "spec.progressDeadlineSeconds: Invalid value: 5: must be greater than minReadySeconds",
    ),
    (deployment(strategy={"type": "Slow"}), 'spec.strategy: Unsupported value: {"type":"Slow"}: supported values: "Re'),
    (
        deployment(strategy={"type": "Recreate", "rollingUpdate": {"maxSurge": 1}}),
        f"{ROLLING}: Forbidden: may not be specified when strategy `type` is 'Recreate'",
    ),
    (rolling(maxSurge=-1), f"{ROLLING}.maxSurge: Invalid value: -1: {NEGATIVE}"),
    (rolling(maxSurge="some"), f'{ROLLING}.maxSurge: Invalid value: "some": {PERCENT}'),
    (rolling(maxUnavailable=-1), f"{ROLLING}.maxUnavailable: Invalid value: -1: {NEGATIVE}"),
    (rolling(maxUnavailable="101%"), f'{ROLLING}.maxUnavailable: Invalid value: "101%": must not be greater than'),
    (
        rolling(maxUnavailable=0, maxSurge="0%"),
        f"{ROLLING}.maxUnavailable: Invalid value: 0: may not be 0 when `maxSurge` is 0",
    ),
    (
        deployment(selector={**SELECTOR, **OPERATOR}),
        f"spec.selector.matchExpressions[0].{NO_OPERATOR}",
    ),
    (
        deployment(template=template_of(restartPolicy="Never")),
        'spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always"',
    ),
    (
        deployment(template=template_of(activeDeadlineSeconds=5)),
        "spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in ReplicaSet is not Supported",
    ),
    (
        deployment(template=template_of(tolerations=[{"key": "a", "operator": "Exist"}])),
        'spec.template.spec.tolerations[0].operator: Unsupported value: "Exist"',
    ),
    # replica sets and replication controllers
    (workload("ReplicaSet", replicas=-1), f"spec.replicas: Invalid value: -1: {NEGATIVE}"),
    (workload("ReplicaSet", minReadySeconds=-2), f"spec.minReadySeconds: Invalid value: -2: {NEGATIVE}"),
    (controller(replicas=-1), f"spec.replicas: Invalid value: -1: {NEGATIVE}"),
    (controller(minReadySeconds=-1), f"spec.minReadySeconds: Invalid value: -1: {NEGATIVE}"),
    (
        controller(template=template_of(restartPolicy="OnFailure")),
        'spec.template.spec.restartPolicy: Unsupported value: "OnFailure": supported values: "Always"',
    ),
    # stateful sets
    (stateful_set(replicas=-1), f"spec.replicas: Invalid value: -1: {NEGATIVE}"),
    (stateful_set(minReadySeconds=-1), f"spec.minReadySeconds: Invalid value: -1: {NEGATIVE}"),
    (stateful_set(revisionHistoryLimit=-1), f"spec.revisionHistoryLimit: Invalid value: -1: {NEGATIVE}"),
    (stateful_set(ordinals={"start": -1}), f"spec.ordinals.start: Invalid value: -1: {NEGATIVE}"),
    (
        stateful_set(podManagementPolicy="Serial"),
        "spec.podManagementPolicy: Invalid value: \"Serial\": must be 'OrderedReady' or 'Parallel'",
    ),
    (
        stateful_set(updateStrategy={"type": "Recreate"}),
        "spec.updateStrategy: Invalid value: {\"type\":\"Recreate\"}: must be 'RollingUpdate' or 'OnDelete'",
    ),
    (
        stateful_set(updateStrategy={"type": "OnDelete", "rollingUpdate": {"partition": 1}}),
        f"{DAEMON_ROLLING}: Invalid value: {{\"partition\":1}}: only allowed for updateStrategy 'RollingUpdate'",
    ),
    (
        stateful_set(updateStrategy={"type": "RollingUpdate", "rollingUpdate": {"partition": -1}}),
        f"{DAEMON_ROLLING}.partition: Invalid value: -1: {NEGATIVE}",
    ),
    (
        stateful_set(updateStrategy={"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0}}),
        f"{DAEMON_ROLLING}.maxUnavailable: Invalid value: 0: cannot be 0",
    ),
    (
        stateful_set(updateStrategy={"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "x"}}),
        f'{DAEMON_ROLLING}.maxUnavailable: Invalid value: "x": {PERCENT}',
    ),
    (
        stateful_set(persistentVolumeClaimRetentionPolicy={"whenDeleted": "Keep", "whenScaled": "Retain"}),
        'spec.persistentVolumeClaimRetentionPolicy.whenDeleted: Unsupported value: "Keep": supported values: "Retain"',
    ),
    (
        stateful_set(persistentVolumeClaimRetentionPolicy={"whenDeleted": "Retain", "whenScaled": "Drop"}),
        'spec.persistentVolumeClaimRetentionPolicy.whenScaled: Unsupported value: "Drop"',
    ),
    # daemon sets
    (workload("DaemonSet", minReadySeconds=-1), f"spec.minReadySeconds: Invalid value: -1: {NEGATIVE}"),
    (workload("DaemonSet", revisionHistoryLimit=-1), f"spec.revisionHistoryLimit: Invalid value: -1: {NEGATIVE}"),
    (
        workload("DaemonSet", updateStrategy={"type": "Recreate"}),
        'spec.updateStrategy: Unsupported value: {"type":"Recreate"}: supported values: "RollingUpdate", "OnDelete"',
    ),
    (daemon_set(maxUnavailable="x"), f'{DAEMON_ROLLING}.maxUnavailable: Invalid value: "x": {PERCENT}'),
    (daemon_set(maxUnavailable=-1), f"{DAEMON_ROLLING}.maxUnavailable: Invalid value: -1: {NEGATIVE}"),
    (daemon_set(maxUnavailable="101%"), f'{DAEMON_ROLLING}.maxUnavailable: Invalid value: "101%": must not be greater'),
    (
        daemon_set(maxSurge="101%", maxUnavailable=0),
        f'{DAEMON_ROLLING}.maxSurge: Invalid value: "101%": must not be greater',
    ),
    (
        daemon_set(maxSurge=1, maxUnavailable=1),
        f"{DAEMON_ROLLING}.maxSurge: Invalid value: 1: may not be set when maxUnavailable is non-zero",
    ),
    (
        daemon_set(maxSurge=0, maxUnavailable=0),
        f"{DAEMON_ROLLING}.maxUnavailable: Required value: cannot be 0 when maxSurge is 0",
    ),
    (
        workload("DaemonSet", template=template_of(restartPolicy="Never")),
        'spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always"',
    ),
    (
        workload("DaemonSet", template=template_of(activeDeadlineSeconds=1)),
        "spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in DaemonSet is not Supported",
    ),
    # jobs
    (job(parallelism=-1), f"spec.parallelism: Invalid value: -1: {NEGATIVE}"),
    (job(completions=-1), f"spec.completions: Invalid value: -1: {NEGATIVE}"),
    (job(activeDeadlineSeconds=-1), f"spec.activeDeadlineSeconds: Invalid value: -1: {NEGATIVE}"),
    (job(backoffLimit=-1), f"spec.backoffLimit: Invalid value: -1: {NEGATIVE}"),
    (job(ttlSecondsAfterFinished=-1), f"spec.ttlSecondsAfterFinished: Invalid value: -1: {NEGATIVE}"),
    (job(completionMode="indexed"), 'spec.completionMode: Unsupported value: "indexed": supported values: "NonIndexed'),
    (
        job(completionMode="Indexed", completions=None),
        "spec.completions: Required value: when completion mode is Indexed",
    ),
    (job(backoffLimitPerIndex=1), "spec.backoffLimitPerIndex: Invalid value: 1: requires indexed completion mode"),
    (job(maxFailedIndexes=1), "spec.maxFailedIndexes: Invalid value: 1: requires indexed completion mode"),
    (
        job(template=template_of(restartPolicy="Always")),
        'spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never"',
    ),
    (
        job(template=template_of(restartPolicy="Never", preemptionPolicy="never")),
        'spec.template.spec.preemptionPolicy: Unsupported value: "never"',
    ),
    # cron jobs
    (cron_job(startingDeadlineSeconds=-1), f"spec.startingDeadlineSeconds: Invalid value: -1: {NEGATIVE}"),
    (cron_job(successfulJobsHistoryLimit=-1), f"spec.successfulJobsHistoryLimit: Invalid value: -1: {NEGATIVE}"),
    (cron_job(failedJobsHistoryLimit=-1), f"spec.failedJobsHistoryLimit: Invalid value: -1: {NEGATIVE}"),
    (cron_job(concurrencyPolicy="Queue"), 'spec.concurrencyPolicy: Unsupported value: "Queue": supported values: "Al'),
    (
        cron_job(jobTemplate={"spec": {**JOB, "parallelism": -1}}),
        f"spec.jobTemplate.spec.parallelism: Invalid value: -1: {NEGATIVE}",
    ),
    (
        cron_job(jobTemplate={"spec": {"template": template_of(restartPolicy="Never", nodeSelector={"a": "b c"})}}),
        'spec.jobTemplate.spec.template.spec.nodeSelector: Invalid value: "b c": a valid label must be',
    ),
]


@pytest.mark.parametrize(("subject", "problem"), FAULTY)
def test_faulty_field_is_found_in_files_and_by_the_fake_api(
    subject: tuple[str, str, dict[str, Any]], problem: str
) -> None:
    api_version, name, fields = subject
    kind = find_kind(api_version, name)
    assert kind is not None
    data = {"metadata": {"name": "x"}, **fields}
    found = find_problem(convert(data, kind))
    assert found is not None and str(found).startswith(problem), found
    whole = with_defaults({"apiVersion": api_version, "kind": name, **data}, api_version, name)
    causes = [str(each) for each in object_causes(whole, api_version, name)]
    assert sum(each.startswith(problem) for each in causes) == 1, causes


VALID = [
    priority_class(metadata={"name": "system-node-critical"}, value=2_000_001_000),
    priority_class(value=1_000_000_000, preemptionPolicy="Never"),
    runtime_class(overhead={"podFixed": {"cpu": "1"}}, scheduling={"nodeSelector": {"a": "b"}}),
    item(min={"cpu": "1"}, defaultRequest={"cpu": "1"}, default={"cpu": "2"}, max={"cpu": "2"}),
    limits({"type": "PersistentVolumeClaim", "max": {"storage": "1Gi"}}),
    topology({"key": "zone", "values": ["a", "b"]}),
    budget(minAvailable="0%"),
    budget(maxUnavailable="100%", unhealthyPodEvictionPolicy="AlwaysAllow"),
    claim(accessModes=["ReadWriteOncePod"], storageClassName="", volumeMode="Block"),
    volume(persistentVolumeReclaimPolicy="Recycle"),
    csi_node({"name": "a", "allocatable": {"count": 0}}, {"name": "b"}),
    node({"key": "a", "effect": "NoSchedule"}, {"key": "a", "effect": "NoExecute"}),
    deployment(replicas=0),
    rolling(maxSurge="10%", maxUnavailable=0),
    deployment(strategy={"type": "Recreate"}),
    stateful_set(podManagementPolicy="Parallel", updateStrategy={"type": "OnDelete"}),
    daemon_set(maxSurge=1, maxUnavailable=0),
    daemon_set(maxUnavailable="20%"),
    job(completionMode="Indexed", completions=3, backoffLimitPerIndex=1),
    cron_job(concurrencyPolicy="Forbid"),
    controller(),
]


@pytest.mark.parametrize("subject", VALID)
def test_valid_object_has_no_problem(subject: tuple[str, str, dict[str, Any]]) -> None:
    api_version, name, fields = subject
    kind = find_kind(api_version, name)
    assert kind is not None
    data = {"metadata": {"name": "x"}, **fields}
    assert find_problem(convert(data, kind)) is None
    whole = with_defaults({"apiVersion": api_version, "kind": name, **data}, api_version, name)
    assert [str(each) for each in object_causes(whole, api_version, name)] == []
