"""The document defines every kind that is read or served, and says how its fields merge."""

from __future__ import annotations

import subprocess
import sys
from functools import reduce

import msgspec
import pytest

from kframework.objects import KINDS, ApiObject, Kind
from kframework.objects.openapi.definitions import (
    NO_SCHEMA,
    Schema,
    definition,
    definition_of,
    field_of,
    properties,
    reachable,
    read_document,
    reference_to,
    short_name,
)

CORE = "io.k8s.api.core.v1"
META = "io.k8s.apimachinery.pkg.apis.meta.v1"
VALUES = {
    "string",
    "byte",
    "boolean",
    "int32",
    "int64",
    "double",
    "object",
    "IntOrString",
    "Quantity",
    "Time",
    "MicroTime",
}


def at(api_version: str, kind: str, path: str) -> Schema:
    name = definition_of(api_version, kind)
    assert name is not None
    return reduce(field_of, path.split("."), reference_to(name))


def test_every_reference_is_defined_and_every_value_has_a_known_type() -> None:
    names = read_document().definitions
    assert set(reachable(names)) == set(names)
    for name in names:
        for schema in properties(name).values():
            while schema.element is not schema:
                schema = schema.element
            assert properties(schema.definition_name) or schema.value_type in VALUES, (name, schema)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: f"{kind.api_version}-{kind.name}")
def test_every_kind_is_defined_with_the_fields_of_its_struct(kind: Kind[ApiObject]) -> None:
    name = definition_of(kind.api_version, kind.name)
    assert name is not None
    assert {field.encode_name for field in msgspec.structs.fields(kind.struct)} <= properties(name).keys()


@pytest.mark.parametrize(
    ("api_version", "kind", "name"),
    [
        ("v1", "Event", f"{CORE}.Event"),
        ("events.k8s.io/v1", "Event", "io.k8s.api.events.v1.Event"),
        ("autoscaling/v2", "HorizontalPodAutoscaler", "io.k8s.api.autoscaling.v2.HorizontalPodAutoscaler"),
        ("rbac.authorization.k8s.io/v1", "Role", "io.k8s.api.rbac.v1.Role"),
        (
            *("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
            "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition",
        ),
        ("apps/v1", "DeleteOptions", f"{META}.DeleteOptions"),
        ("example.com/v1", "Pod", None),
        ("apps/v1", "Pod", None),
        ("v1", "Nonsense", None),
    ],
)
def test_definition_of_a_kind_is_found(api_version: str, kind: str, name: str | None) -> None:
    assert definition_of(api_version, kind) == name


def test_unknown_definition_is_empty() -> None:
    assert definition("Nonsense") == NO_SCHEMA
    assert not properties("")


def test_definition_has_descriptions_and_required_fields() -> None:
    container = definition(f"{CORE}.Container")
    assert container.required == ("name",)
    assert container.properties["image"].description.startswith("Container image name. More info: https://")


@pytest.mark.parametrize(
    ("name", "field", "value_type"),
    [
        ("io.k8s.api.apps.v1.DeploymentSpec", "replicas", "int32"),
        (f"{CORE}.PodSpec", "terminationGracePeriodSeconds", "int64"),
        (f"{CORE}.PodSpec", "hostNetwork", "boolean"),
        (f"{CORE}.ResourceRequirements", "limits", "Quantity"),
        (f"{CORE}.EnvVar", "value", "string"),
        (f"{CORE}.LimitRangeSpec", "limits", "object"),
        (f"{CORE}.Secret", "data", "byte"),
        (f"{CORE}.ConfigMap", "data", "string"),
        (f"{CORE}.HTTPGetAction", "port", "IntOrString"),
        (f"{META}.ObjectMeta", "creationTimestamp", "Time"),
        ("io.k8s.api.coordination.v1.LeaseSpec", "renewTime", "MicroTime"),
        ("io.k8s.api.apps.v1.ControllerRevision", "data", "object"),
    ],
)
def test_type_of_a_value_is_found(name: str, field: str, value_type: str) -> None:
    assert properties(name)[field].element.value_type == value_type


@pytest.mark.parametrize(
    ("kind", "path", "strategy", "key"),
    [
        ("v1/Pod", "spec.containers", "merge", "name"),
        ("v1/Pod", "spec.initContainers.env", "merge", "name"),
        ("v1/Pod", "spec.containers.ports", "merge", "containerPort"),
        ("v1/Pod", "spec.containers.args", "", ""),
        ("v1/Pod", "spec.volumes", "merge,retainKeys", "name"),
        ("v1/Pod", "spec.tolerations", "", ""),
        ("v1/Pod", "spec.topologySpreadConstraints", "merge", "topologyKey"),
        ("v1/Pod", "spec.schedulingGates", "merge", "name"),
        ("v1/Pod", "status.conditions", "merge", "type"),
        ("v1/Pod", "status.podIPs", "merge", "ip"),
        ("v1/Pod", "status.containerStatuses", "", ""),
        ("v1/Pod", "metadata.finalizers", "merge", ""),
        ("v1/Pod", "metadata.ownerReferences", "merge", "uid"),
        ("v1/Node", "spec.taints", "", ""),
        ("v1/Node", "spec.podCIDRs", "merge", ""),
        ("v1/Node", "status.addresses", "merge", "type"),
        ("v1/Service", "spec.ports", "merge", "port"),
        ("v1/ServiceAccount", "secrets", "merge", "name"),
        ("storage.k8s.io/v1/CSINode", "spec.drivers", "merge", "name"),
        ("apps/v1/StatefulSet", "spec.template.spec.containers.env", "merge", "name"),
        ("apps/v1/ReplicaSet", "spec.template.metadata.finalizers", "merge", ""),
        ("batch/v1/CronJob", "spec.jobTemplate.spec.template.spec.containers", "merge", "name"),
        ("admissionregistration.k8s.io/v1/ValidatingWebhookConfiguration", "webhooks", "merge", "name"),
        ("policy/v1/PodDisruptionBudget", "spec.selector", "replace", ""),
        ("apps/v1/ReplicaSet", "spec.selector", "", ""),
    ],
)
def test_field_has_the_patch_strategy_that_kubernetes_gives_it(kind: str, path: str, strategy: str, key: str) -> None:
    api_version, _, name = kind.rpartition("/")
    schema = at(api_version, name, path)
    assert schema != NO_SCHEMA
    assert (schema.patch_strategy, schema.patch_merge_key) == (strategy, key)


@pytest.mark.parametrize(
    ("name", "field", "list_type", "keys"),
    [
        (f"{CORE}.PodSpec", "containers", "map", ("name",)),
        (f"{CORE}.PodSpec", "tolerations", "atomic", ()),
        (f"{CORE}.Container", "ports", "map", ("containerPort", "protocol")),
        (f"{META}.ObjectMeta", "finalizers", "set", ()),
        ("io.k8s.api.apps.v1.DeploymentStatus", "conditions", "map", ("type",)),
        ("io.k8s.api.batch.v1.JobStatus", "conditions", "atomic", ()),
    ],
)
def test_list_has_the_keys_that_distinguish_its_elements(
    name: str, field: str, list_type: str, keys: tuple[str, ...]
) -> None:
    schema = properties(name)[field]
    assert (schema.list_type, schema.list_map_keys) == (list_type, keys)


def test_field_of_a_map_has_the_schema_of_its_values() -> None:
    assert at("v1", "Pod", "metadata.labels.any").type == "string"
    assert at("v1", "Pod", "spec.nonsense") == NO_SCHEMA


def test_definitions_are_reached_once() -> None:
    crd = definition_of("apiextensions.k8s.io/v1", "CustomResourceDefinition")
    assert crd is not None
    names = list(reachable([crd]))
    assert len(names) == len(set(names))
    assert {"JSONSchemaProps", "ObjectMeta", "OwnerReference"} <= set(map(short_name, names))


def test_document_is_not_read_before_it_is_needed() -> None:
    code = (
        "from kframework.objects.openapi import definitions\n"
        "assert definitions.read_document.cache_info().currsize == 0\n"
        "assert definitions.definition_of('v1', 'Pod')\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
