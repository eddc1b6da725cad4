"""Fields that decide where pods run have values that Kubernetes accepts, in files and in the fake API alike."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kframework.in_memory.schema.validation.pods import spec_causes
from kframework.objects import Pod
from kframework.objects.node import Taint
from kframework.objects.pod import PodSpec
from kframework.objects.problem import format_path
from kframework.objects.scheduling_rules import pod_spec_problems, taint_problems
from kframework.objects.validation import find_problem

SELECTOR = {"matchLabels": {"a": "b"}}
SPREAD = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": SELECTOR}
TERM = {"topologyKey": "zone", "labelSelector": SELECTOR}
REQUIRED, PREFERRED = (
    "requiredDuringSchedulingIgnoredDuringExecution",
    "preferredDuringSchedulingIgnoredDuringExecution",
)
NO_OPERATOR = "not a valid selector operator"
EFFECTS = 'supported values: "NoSchedule", "PreferNoSchedule", "NoExecute"'
INTEGER = "must be an integer"


def toleration(**fields: object) -> dict[str, Any]:
    return {"tolerations": [{"key": "gpu", "operator": "Exists"} | fields]}


def spread(**fields: object) -> dict[str, Any]:
    return {"topologySpreadConstraints": [SPREAD | fields]}


def node_term(**fields: object) -> dict[str, Any]:
    term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]} | fields]}
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [term]}}}}


def node_field(**fields: object) -> dict[str, Any]:
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]} | fields]}
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [term]}}}}


def node_wish(weight: int) -> dict[str, Any]:
    return {"affinity": {"nodeAffinity": {PREFERRED: [{"weight": weight, "preference": {}}]}}}


def pod_term(kind: str = "podAffinity", **fields: object) -> dict[str, Any]:
    return {"affinity": {kind: {REQUIRED: [TERM | fields]}}}


def pod_wish(weight: int, **fields: object) -> dict[str, Any]:
    return {"affinity": {"podAntiAffinity": {PREFERRED: [{"weight": weight, "podAffinityTerm": TERM | fields}]}}}


def expression(**fields: object) -> dict[str, Any]:
    return pod_term(labelSelector={"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]} | fields]})


def limits(amount: object, resource: str = "nvidia.com/gpu") -> dict[str, Any]:
    return {"containers": [{"name": "c", "image": "i", "resources": {"limits": {resource: amount}}}]}


def resources(requests: dict[str, str], limits: dict[str, str]) -> dict[str, Any]:
    return {"containers": [{"name": "c", "image": "i", "resources": {"requests": requests, "limits": limits}}]}


def resource_claims(*claims: dict[str, str]) -> dict[str, Any]:
    return {"resourceClaims": claims}


def ports(**fields: object) -> dict[str, Any]:
    return {"containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 80, **fields}]}]}


def found(spec: dict[str, Any]) -> list[str]:
    return [f"{format_path(each.path)}: {each.message}" for each in pod_spec_problems(msgspec.convert(spec, PodSpec))]


NODE_TERM = f"affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms[0]"
POD_TERM = f"affinity.podAffinity.{REQUIRED}[0]"
POD_WISH = f"affinity.podAntiAffinity.{PREFERRED}[0]"


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        (
            {"preemptionPolicy": "never"},
            'preemptionPolicy: Unsupported value: "never": supported values: "PreemptLower',
        ),
        ({"preemptionPolicy": ""}, "preemptionPolicy: Required value"),
        ({"nodeSelector": {"-a": "b"}}, 'nodeSelector: Invalid value: "-a": name part must consist of'),
        ({"nodeSelector": {"a": "b/"}}, 'nodeSelector: Invalid value: "b/": a valid label must be'),
        ({"schedulingGates": [{"name": ""}]}, 'schedulingGates[0]: Invalid value: "": name part must be non-empty'),
        ({"schedulingGates": [{"name": "g"}, {"name": "g"}]}, 'schedulingGates[1]: Duplicate value: "g"'),
        # tolerations
        (
            toleration(operator="Exist"),
            'tolerations[0].operator: Unsupported value: "Exist": supported values: "Equal"',
        ),
        (toleration(operator="Gt"), 'tolerations[0].operator: Unsupported value: "Gt"'),
        (toleration(key="", operator=""), 'tolerations[0].operator: Invalid value: "": operator must be Exists when'),
        (toleration(key="a b"), 'tolerations[0].key: Invalid value: "a b": name part'),
        (toleration(value="v"), 'tolerations[0].operator: Invalid value: "v": value must be empty when `operator` is'),
        (toleration(operator="Equal", value="a b"), 'tolerations[0].operator: Invalid value: "a b": a valid label'),
        (toleration(effect="Noschedule"), f'tolerations[0].effect: Unsupported value: "Noschedule": {EFFECTS}'),
        (
            toleration(tolerationSeconds=5),
            "tolerations[0].effect: Invalid value: \"\": effect must be 'NoExecute' when",
        ),
        (
            toleration(tolerationSeconds=5, effect="NoSchedule"),
            "tolerations[0].effect: Invalid value: \"NoSchedule\": effect must be 'NoExecute' when",
        ),
        # topology spread constraints
        (spread(maxSkew=0), "topologySpreadConstraints[0].maxSkew: Invalid value: 0: must be greater than zero"),
        (spread(maxSkew=-1), "topologySpreadConstraints[0].maxSkew: Invalid value: -1: must be greater than zero"),
        (spread(topologyKey=""), "topologySpreadConstraints[0].topologyKey: Required value: can not be empty"),
        (spread(whenUnsatisfiable=""), "topologySpreadConstraints[0].whenUnsatisfiable: Required value"),
        (
            spread(whenUnsatisfiable="DoNotSchedul"),
            'topologySpreadConstraints[0].whenUnsatisfiable: Unsupported value: "DoNotSchedul": supported values: ',
        ),
        (spread(minDomains=0), "topologySpreadConstraints[0].minDomains: Invalid value: 0: must be greater than zero"),
        (
            spread(minDomains=2, whenUnsatisfiable="ScheduleAnyway"),
            "topologySpreadConstraints[0].minDomains: Invalid value: 2: can only use minDomains if whenUnsatisfiable=",
        ),
        (
            spread(nodeAffinityPolicy="honor"),
            'topologySpreadConstraints[0].nodeAffinityPolicy: Unsupported value: "honor"',
        ),
        (spread(nodeTaintsPolicy="Ignored"), "topologySpreadConstraints[0].nodeTaintsPolicy: Unsupported value"),
        (
            spread(labelSelector={"matchExpressions": [{"key": "a", "operator": "in"}]}),
            'topologySpreadConstraints[0].labelSelector.matchExpressions[0].operator: Invalid value: "in": not a valid',
        ),
        (
            {"topologySpreadConstraints": [SPREAD, SPREAD]},
            'topologySpreadConstraints[0].{topologyKey, whenUnsatisfiable}: Duplicate value: "{zone, DoNotSchedule}"',
        ),
        # node affinity
        (
            {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": []}}}},
            f"affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms: Required value: must have at least one node selector",
        ),
        (node_term(operator="in"), f'{NODE_TERM}.matchExpressions[0].operator: Invalid value: "in": {NO_OPERATOR}'),
        (node_term(values=[]), f"{NODE_TERM}.matchExpressions[0].values: Required value: must be specified when"),
        (node_term(operator="Exists"), f"{NODE_TERM}.matchExpressions[0].values: Forbidden: may not be specified when"),
        (
            node_term(operator="Gt", values=["1", "2"]),
            f"{NODE_TERM}.matchExpressions[0].values: Required value: must be",
        ),
        (
            node_term(key="/a"),
            f'{NODE_TERM}.matchExpressions[0].key: Invalid value: "/a": prefix part must be non-empty',
        ),
        (node_field(key="metadata.uid"), f'{NODE_TERM}.matchFields[0].key: Invalid value: "metadata.uid": not a valid'),
        (node_field(operator="Exists"), f'{NODE_TERM}.matchFields[0].operator: Invalid value: "Exists": {NO_OPERATOR}'),
        (node_field(values=["a", "b"]), f"{NODE_TERM}.matchFields[0].values: Required value: must be only one value"),
        (node_wish(0), f"affinity.nodeAffinity.{PREFERRED}[0].weight: Invalid value: 0: must be in the range 1-100"),
        (
            node_wish(101),
            f"affinity.nodeAffinity.{PREFERRED}[0].weight: Invalid value: 101: must be in the range 1-100",
        ),
        # pod affinity
        (pod_term(topologyKey=""), f"{POD_TERM}.topologyKey: Required value: can not be empty"),
        (pod_term("podAntiAffinity", topologyKey=""), f"affinity.podAntiAffinity.{REQUIRED}[0].topologyKey: Required"),
        (pod_term(topologyKey="a b"), f'{POD_TERM}.topologyKey: Invalid value: "a b": name part'),
        (
            pod_term(labelSelector={"matchLabels": {"a": "b/"}}),
            f'{POD_TERM}.labelSelector.matchLabels: Invalid value: "b/',
        ),
        (pod_term(namespaceSelector={"matchLabels": {"-": "b"}}), f"{POD_TERM}.namespaceSelector.matchLabels: Invalid"),
        (
            expression(operator="Gt", values=["1"]),
            f'{POD_TERM}.labelSelector.matchExpressions[0].operator: Invalid value: "',
        ),
        (
            expression(values=[]),
            f"{POD_TERM}.labelSelector.matchExpressions[0].values: Required value: must be specified",
        ),
        (expression(operator="Exists"), f"{POD_TERM}.labelSelector.matchExpressions[0].values: Forbidden: may not be"),
        (expression(key=""), f'{POD_TERM}.labelSelector.matchExpressions[0].key: Invalid value: "": name part must be'),
        (pod_wish(0), f"{POD_WISH}.weight: Invalid value: 0: must be in the range 1-100"),
        (pod_wish(5, topologyKey=""), f"{POD_WISH}.podAffinityTerm.topologyKey: Required value: can not be empty"),
        (pod_term(namespaces=["A"]), f'{POD_TERM}.namespace: Invalid value: "A": a lowercase RFC 1123 label'),
        (
            pod_term(labelSelector=None, matchLabelKeys=["a"]),
            f"{POD_TERM}.matchLabelKeys: Forbidden: must not be specified when labelSelector is not set",
        ),
        (
            pod_term(labelSelector=None, mismatchLabelKeys=["a"]),
            f"{POD_TERM}.mismatchLabelKeys: Forbidden: must not be specified when labelSelector is not set",
        ),
        (pod_term(matchLabelKeys=["-"]), f'{POD_TERM}.matchLabelKeys[0]: Invalid value: "-": name part must'),
        (
            pod_term(matchLabelKeys=["x"], mismatchLabelKeys=["x"]),
            f'{POD_TERM}.matchLabelKeys[0]: Invalid value: "x": exists in both matchLabelKeys and mismatchLabelKeys',
        ),
        (
            expression(values=["b c"]),
            f'{POD_TERM}.labelSelector.matchExpressions[0].values[0]: Invalid value: "b c": a valid label must be',
        ),
        (node_term(values=["b c"]), f'{NODE_TERM}.matchExpressions[0].values[0]: Invalid value: "b c": a valid label'),
        (node_field(values=["N_1"]), f'{NODE_TERM}.matchFields[0].values[0]: Invalid value: "N_1": a lowercase RFC'),
        (
            spread(labelSelector=None, matchLabelKeys=["a"]),
            "topologySpreadConstraints[0].matchLabelKeys: Forbidden: must not be specified when labelSelector is not",
        ),
        (spread(matchLabelKeys=["a b"]), 'topologySpreadConstraints[0].matchLabelKeys[0]: Invalid value: "a b": name'),
        # the pod itself
        (
            {"nodeName": "n", "schedulingGates": [{"name": "g"}]},
            "nodeName: Forbidden: cannot be set until all schedulingGates have been cleared",
        ),
        ({"nodeName": "N 1"}, 'nodeName: Invalid value: "N 1": a lowercase RFC 1123 subdomain must'),
        ({"priorityClassName": "High"}, 'priorityClassName: Invalid value: "High": a lowercase RFC 1123 subdomain'),
        ({"runtimeClassName": ""}, 'runtimeClassName: Invalid value: "": a lowercase RFC 1123 subdomain'),
        ({"runtimeClassName": "a_b"}, 'runtimeClassName: Invalid value: "a_b": a lowercase RFC 1123 subdomain'),
        ({"serviceAccountName": "Bot"}, 'serviceAccountName: Invalid value: "Bot": a lowercase RFC 1123 subdomain'),
        ({"hostname": "a.b"}, 'hostname: Invalid value: "a.b": must not contain dots'),
        ({"restartPolicy": "always"}, 'restartPolicy: Unsupported value: "always": supported values: "Always", "OnF'),
        (
            {"activeDeadlineSeconds": 0},
            "activeDeadlineSeconds: Invalid value: 0: must be between 1 and 2147483647, inclusive",
        ),
        (
            {"terminationGracePeriodSeconds": -1},
            "terminationGracePeriodSeconds: Invalid value: -1: must be greater than or equal to 0",
        ),
        ({"overhead": {"cpu": "-1"}}, 'overhead[cpu]: Invalid value: "-1": must be greater than or equal to 0'),
        (
            {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": ""}}]},
            "volumes[0].persistentVolumeClaim.claimName: Required value",
        ),
        # resource claims
        (resource_claims({"resourceClaimName": "a"}), "resourceClaims[0].name: Required value"),
        (
            resource_claims({"name": "a", "resourceClaimName": "x"}, {"name": "a", "resourceClaimName": "y"}),
            'resourceClaims[1].name: Duplicate value: "a"',
        ),
        (
            resource_claims({"name": "A", "resourceClaimName": "x"}),
            'resourceClaims[0].name: Invalid value: "A": a lowercase RFC 1123 label must',
        ),
        (
            resource_claims({"name": "a"}),
            'resourceClaims[0]: Invalid value: {"name":"a"}: must specify one of: `resourceClaimName`, `resource',
        ),
        (
            resource_claims({"name": "a", "resourceClaimName": "x", "resourceClaimTemplateName": "y"}),
            'resourceClaims[0]: Invalid value: {"name":"a","resourceClaimName":"x","resourceClaimTemplateName":"y"}',
        ),
        (
            resource_claims({"name": "a", "resourceClaimName": "X"}),
            'resourceClaims[0].resourceClaimName: Invalid value: "X": a lowercase RFC 1123 subdomain',
        ),
        (
            resource_claims({"name": "a", "resourceClaimTemplateName": "X"}),
            'resourceClaims[0].resourceClaimTemplateName: Invalid value: "X": a lowercase RFC 1123 subdomain',
        ),
        # ports
        (ports(containerPort=70000), "containers[0].ports[0].containerPort: Invalid value: 70000: must be between 1"),
        (ports(hostPort=70000), "containers[0].ports[0].hostPort: Invalid value: 70000: must be between 1 and 65535"),
        (ports(hostPort=-1), "containers[0].ports[0].hostPort: Invalid value: -1: must be between 1 and 65535"),
        (ports(protocol="tcp"), 'containers[0].ports[0].protocol: Unsupported value: "tcp": supported values: "SCTP"'),
        (
            {"hostNetwork": True, **ports(hostPort=81)},
            "containers[0].ports[0].hostPort: Invalid value: 81: must match `containerPort` when `hostNetwork` is true",
        ),
        (
            {"containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 1, "hostPort": 80}] * 2}]},
            'containers[0].ports[1].hostPort: Duplicate value: "TCP//80"',
        ),
        # resources
        (
            limits("1", "cpus"),
            'containers[0].resources.limits[cpus]: Invalid value: "cpus": must be a standard resource',
        ),
        (
            limits("1", "pods"),
            'containers[0].resources.limits[pods]: Invalid value: "pods": must be a standard resource',
        ),
        (
            limits("1", "a b/c"),
            'containers[0].resources.limits[a b/c]: Invalid value: "a b/c": prefix part a lowercase',
        ),
        (
            limits("1", "requests.example.com/gpu"),
            'containers[0].resources.limits[requests.example.com/gpu]: Invalid value: "requests.example.com/gpu": does',
        ),
        (
            limits("-1", "memory"),
            'containers[0].resources.limits[memory]: Invalid value: "-1": must be greater than or',
        ),
        (
            limits("3Mi", "hugepages-2Mi"),
            'containers[0].resources.limits[hugepages-2Mi]: Invalid value: "3Mi": 3Mi is not positive integer multiple',
        ),
        (
            resources({"cpu": "2"}, {"cpu": "1"}),
            'containers[0].resources.requests: Invalid value: "2": must be less than or equal to cpu limit of 1',
        ),
        (
            resources({"nvidia.com/gpu": "1"}, {"nvidia.com/gpu": "2"}),
            'containers[0].resources.requests: Invalid value: "1": must be equal to nvidia.com/gpu limit of 2',
        ),
        (
            {"resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}},
            'resources.requests: Invalid value: "2": must be less than or equal to cpu limit of 1',
        ),
        (
            {"resources": {"requests": {"cpu": "1"}}, **resources({"cpu": "2"}, {})},
            'resources.requests[cpu]: Invalid value: "1": must be greater than or equal to aggregate container',
        ),
        (
            {"resources": {"limits": {"cpu": "1"}}, **resources({}, {"cpu": "2"})},
            'resources.containers[0][cpu].limits: Invalid value: "2": must be less than or equal to pod limits of 1',
        ),
        (limits("500m"), f'containers[0].resources.limits[nvidia.com/gpu]: Invalid value: "500m": {INTEGER}'),
        (limits(1.5), f"containers[0].resources.limits[nvidia.com/gpu]: Invalid value: 1.5: {INTEGER}"),
    ],
)
def test_invalid_field_is_refused_alike_in_files_and_in_the_fake_api(spec: dict[str, Any], problem: str) -> None:
    assert any(each.startswith(problem) for each in found(spec)), found(spec)
    pod = Pod(metadata=msgspec.structs.replace(Pod().metadata, name="p"), spec=msgspec.convert(spec, PodSpec))
    first = find_problem(pod)
    assert first is not None and first.path[0] == "spec"
    whole = {"containers": [{"name": "c", "image": "i"}], **spec}
    causes = [str(cause).removeprefix("spec.") for cause in spec_causes(whole, "spec")]
    assert any(each.startswith(problem) for each in causes), causes


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"preemptionPolicy": "Never", "nodeSelector": {"example.com/a": ""}, "schedulingGates": [{"name": "x.com/g"}]},
        toleration(),
        {"tolerations": [{"operator": "Exists"}, {"key": "a", "value": "b", "effect": "NoExecute"}]},
        toleration(effect="NoExecute", tolerationSeconds=-1),
        spread(minDomains=1, nodeAffinityPolicy="Ignore", nodeTaintsPolicy="Honor"),
        {"topologySpreadConstraints": [SPREAD, SPREAD | {"topologyKey": "host"}]},
        node_term(operator="Lt", values=["5"]),
        node_field(operator="NotIn"),
        node_wish(100),
        pod_term(labelSelector=None, namespaceSelector={}),
        expression(operator="DoesNotExist", values=[]),
        pod_wish(1),
        limits("2"),
        limits("500m", "cpu"),
        limits("broken"),
    ],
)
def test_valid_fields_are_accepted(spec: dict[str, Any]) -> None:
    assert found(spec) == []


@pytest.mark.parametrize(
    ("taint", "problems"),
    [
        (Taint(key="a", effect="NoSchedule"), []),
        (Taint(key="a", effect="Nope"), [f'[0].effect: Unsupported value: "Nope": {EFFECTS}']),
        (Taint(key="a"), ["[0].effect: Required value"]),
    ],
)
def test_taints_have_a_known_effect(taint: Taint, problems: list[str]) -> None:
    assert [str(each) for each in taint_problems([taint])] == problems
