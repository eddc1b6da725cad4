"""Tables: the columns of each kind, and what a row carries of its object."""

from __future__ import annotations

import pytest

from kframework.errors import ClusterError
from kframework.fake_api.printers.tables import build_table
from kframework.objects import (
    KINDS,
    ApiObject,
    CoreEvent,
    Event,
    Kind,
    Lease,
    Namespace,
    Node,
    Pod,
    PodDisruptionBudget,
    PriorityClass,
    ReplicaSet,
    ReplicationController,
    Service,
    StatefulSet,
    kind_of,
)

ApiDocument = dict[str, object]

NOW = 1767229200.0  # 2026-01-01T01:00:00Z
METADATA: ApiDocument = {"name": "a", "creationTimestamp": "2026-01-01T00:55:00Z"}


def api_kind(struct: type[ApiObject]) -> Kind[ApiObject]:
    return kind_of(struct)


def parse_columns(laid_out: ApiDocument) -> list[ApiDocument]:
    actual = laid_out["columnDefinitions"]
    assert isinstance(actual, list)
    return actual


def rows(laid_out: ApiDocument) -> list[ApiDocument]:
    actual = laid_out["rows"]
    assert isinstance(actual, list)
    return actual


def printed(kind: type[ApiObject], document: ApiDocument, *, wide: bool = False) -> dict[str, object]:
    """Give what kubectl prints of a row, by the headers."""
    laid_out = build_table(api_kind(kind), [{"metadata": METADATA, **document}], NOW)
    (row,) = rows(laid_out)
    cells = row["cells"]
    assert isinstance(cells, list)
    shown = zip(parse_columns(laid_out), cells, strict=True)
    return {str(column["name"]).upper(): cell for column, cell in shown if wide or not column["priority"]}


TEMPLATE = {"spec": {"containers": [{"name": "c", "image": "x:1"}, {"name": "d", "image": "y"}]}}
COUNTS = {"NAME": "a", "DESIRED": 2, "CURRENT": 1, "READY": 0, "AGE": "5m", "CONTAINERS": "c,d", "IMAGES": "x:1,y"}


@pytest.mark.parametrize(
    ("kind", "document", "wide", "expected"),
    [
        (
            Pod,
            {"spec": {"containers": [{}]}, "status": {"phase": "Pending"}},
            False,
            {"NAME": "a", "READY": "0/1", "STATUS": "Pending", "RESTARTS": "0", "AGE": "5m"},
        ),
        (
            Node,
            {
                "status": {
                    "conditions": [{"type": "Ready", "status": "True"}],
                    "nodeInfo": {"kubeletVersion": "v1.36.0"},
                }
            },
            False,
            {"NAME": "a", "STATUS": "Ready", "ROLES": "<none>", "AGE": "5m", "VERSION": "v1.36.0"},
        ),
        (
            Node,
            {
                "metadata": {
                    **METADATA,
                    "labels": {
                        "node-role.kubernetes.io/worker": "",
                        "node-role.kubernetes.io/": "",
                        "kubernetes.io/role": "edge",
                    },
                },
                "spec": {"unschedulable": True},
                "status": {
                    "conditions": [{"type": "Ready", "status": "Unknown"}],
                    "addresses": [{"type": "Hostname", "address": "a"}, {"type": "InternalIP", "address": "10.0.0.1"}],
                    "nodeInfo": {"kernelVersion": "6.1", "architecture": "arm64", "osImage": "Debian"},
                },
            },
            True,
            {
                "NAME": "a",
                "STATUS": "NotReady,SchedulingDisabled",
                "ROLES": "edge,worker",
                "AGE": "5m",
                "VERSION": "",
                "INTERNAL-IP": "10.0.0.1",
                "EXTERNAL-IP": "<none>",
                "OS-IMAGE": "Debian",
                "KERNEL-VERSION": "6.1 (arm64)",
                "CONTAINER-RUNTIME": "<unknown>",
            },
        ),
        (
            Node,
            {},
            False,
            {"NAME": "a", "STATUS": "Unknown", "ROLES": "<none>", "AGE": "5m", "VERSION": ""},
        ),
        (Namespace, {"status": {"phase": "Terminating"}}, False, {"NAME": "a", "STATUS": "Terminating", "AGE": "5m"}),
        (
            Event,
            {
                "eventTime": "2026-01-01T00:59:30.000000Z",
                "regarding": {"kind": "Pod", "name": "web-0"},
                "reason": "Scheduled",
                "type": "Normal",
                "note": "Successfully assigned default/web-0 to n1\n",
                "reportingController": "default-scheduler",
                "reportingInstance": "default-scheduler-host",
            },
            True,
            {
                "LAST SEEN": "30s",
                "TYPE": "Normal",
                "REASON": "Scheduled",
                "OBJECT": "pod/web-0",
                "SUBOBJECT": "",
                "SOURCE": "default-scheduler, default-scheduler-host",
                "MESSAGE": "Successfully assigned default/web-0 to n1",
                "FIRST SEEN": "30s",
                "COUNT": 1,
                "NAME": "a",
            },
        ),
        (
            CoreEvent,
            {
                "eventTime": "2026-01-01T00:59:00.000000Z",
                "series": {"count": 4, "lastObservedTime": "2026-01-01T00:59:50.000000Z"},
                "involvedObject": {"kind": "Node"},
                "source": {"component": "kubelet"},
                "message": "x",
            },
            True,
            {
                "LAST SEEN": "10s",
                "TYPE": "",
                "REASON": "",
                "OBJECT": "node",
                "SUBOBJECT": "",
                "SOURCE": "kubelet",
                "MESSAGE": "x",
                "FIRST SEEN": "60s",
                "COUNT": 4,
                "NAME": "a",
            },
        ),
        (
            CoreEvent,
            {"firstTimestamp": "2026-01-01T00:50:00Z", "lastTimestamp": "2026-01-01T00:59:00Z", "count": 7},
            False,
            {"LAST SEEN": "60s", "TYPE": "", "REASON": "", "OBJECT": "", "MESSAGE": ""},
        ),
        (
            Service,
            {
                "spec": {
                    "clusterIP": "10.1.0.1",
                    "ports": [{"port": 80}, {"port": 53, "nodePort": 3053, "protocol": "UDP"}],
                }
            },
            False,
            {
                "NAME": "a",
                "TYPE": "ClusterIP",
                "CLUSTER-IP": "10.1.0.1",
                "EXTERNAL-IP": "<none>",
                "PORT(S)": "80/TCP,53:3053/UDP",
                "AGE": "5m",
            },
        ),
        (
            Service,
            {
                "spec": {"type": "LoadBalancer", "clusterIPs": ["10.1.0.2"], "selector": {"b": "2", "a": "1"}},
                "status": {"loadBalancer": {"ingress": [{"hostname": "lb"}, {"ip": "1.2.3.4"}]}},
            },
            True,
            {
                "NAME": "a",
                "TYPE": "LoadBalancer",
                "CLUSTER-IP": "10.1.0.2",
                "EXTERNAL-IP": "1.2.3.4,lb",
                "PORT(S)": "<none>",
                "AGE": "5m",
                "SELECTOR": "a=1,b=2",
            },
        ),
        (
            ReplicaSet,
            {
                "spec": {
                    "replicas": 2,
                    "template": TEMPLATE,
                    "selector": {"matchLabels": {"a": "1"}, "matchExpressions": [{"key": "b", "operator": "Exists"}]},
                },
                "status": {"replicas": 1},
            },
            True,
            {**COUNTS, "SELECTOR": "a=1,b"},
        ),
        (
            ReplicationController,
            {"spec": {"replicas": 2, "template": TEMPLATE}, "status": {"replicas": 1}},
            True,
            {**COUNTS, "SELECTOR": "<none>"},
        ),
        (StatefulSet, {"status": {"readyReplicas": 1}}, False, {"NAME": "a", "READY": "1/1", "AGE": "5m"}),
        (
            PodDisruptionBudget,
            {"spec": {"maxUnavailable": "30%"}, "status": {"disruptionsAllowed": 1}},
            False,
            {"NAME": "a", "MIN AVAILABLE": "N/A", "MAX UNAVAILABLE": "30%", "ALLOWED DISRUPTIONS": 1, "AGE": "5m"},
        ),
        (
            PriorityClass,
            {"value": 1000, "globalDefault": True},
            False,
            {
                "NAME": "a",
                "VALUE": 1000,
                "GLOBAL-DEFAULT": True,
                "AGE": "5m",
                "PREEMPTIONPOLICY": "PreemptLowerPriority",
            },
        ),
        (Lease, {"spec": {"holderIdentity": "host_1"}}, False, {"NAME": "a", "HOLDER": "host_1", "AGE": "5m"}),
    ],
)
def test_each_kind_has_its_columns(
    kind: type[ApiObject], document: ApiDocument, wide: bool, expected: dict[str, object]
) -> None:
    assert printed(kind, document, wide=wide) == expected


@pytest.mark.parametrize(
    ("spec", "status", "expected"),
    [
        ({"type": "NodePort", "externalIPs": ["1.1.1.1", "2.2.2.2"]}, {}, "1.1.1.1,2.2.2.2"),
        ({"type": "ExternalName", "externalName": "example.com"}, {}, "example.com"),
        ({"type": "LoadBalancer"}, {}, "<pending>"),
    ],
)
def test_service_row_shows_addresses_and_ports(spec: ApiDocument, status: ApiDocument, expected: str) -> None:
    assert printed(Service, {"spec": spec, "status": status})["EXTERNAL-IP"] == expected


def test_invalid_selector_is_an_error_cell() -> None:
    assert printed(ReplicaSet, {"spec": {"selector": {"matchLabels": 1}}}, wide=True)["SELECTOR"] == "<error>"


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: f"{kind.api_version}-{kind.name}")
def test_empty_object_of_any_kind_fills_a_row(kind: Kind[ApiObject]) -> None:
    laid_out = build_table(kind, [{}], NOW)
    (row,) = rows(laid_out)
    assert isinstance(row["cells"], list)
    assert len(row["cells"]) == len(parse_columns(laid_out))


def test_unknown_kind_has_name_and_age() -> None:
    unknown: Kind[ApiObject] = Kind("Widget", "example.com/v1", "widgets", True, ApiObject)
    (row,) = rows(laid_out := build_table(unknown, [{"metadata": METADATA}], NOW))
    assert [column["name"] for column in parse_columns(laid_out)] == ["Name", "Age"]
    assert row["cells"] == ["a", "5m"]


def test_columns_have_definitions() -> None:
    actual = {column["name"]: column for column in parse_columns(build_table(api_kind(StatefulSet), [], NOW))}
    assert actual["Name"] == {"name": "Name", "type": "string", "format": "name", "description": "", "priority": 0}
    assert actual["Images"] == {"name": "Images", "type": "string", "format": "", "description": "", "priority": 1}
    desired = parse_columns(build_table(api_kind(ReplicaSet), [], NOW))[1]
    assert (desired["name"], desired["type"]) == ("Desired", "integer")
    assert [column["name"] for column in parse_columns(build_table(api_kind(Service), [], NOW))][4] == "Port(s)"


@pytest.mark.parametrize(
    ("include", "expected"),
    [
        ("None", {}),
        (
            "Metadata",
            {"object": {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": METADATA}},
        ),
        ("Object", {"object": {"kind": "Lease", "metadata": METADATA}}),
    ],
)
def test_row_includes_the_requested_part_of_its_object(include: str, expected: ApiDocument) -> None:
    laid_out = build_table(api_kind(Lease), [{"kind": "Lease", "metadata": METADATA}], NOW, include)
    assert (laid_out["kind"], laid_out["apiVersion"], laid_out["metadata"]) == ("Table", "meta.k8s.io/v1", {})
    assert rows(laid_out) == [{"cells": ["a", "", "5m"], **expected}]


def test_unknown_include_option_is_rejected() -> None:
    with pytest.raises(ClusterError, match="must be one of None, Metadata and Object") as refused:
        build_table(api_kind(Pod), [], NOW, "Everything")
    assert refused.value.status == 400


@pytest.mark.parametrize(("phase", "completed"), [("Succeeded", True), ("Failed", True), ("Running", False)])
def test_row_of_a_terminated_pod_has_a_condition(phase: str, completed: bool) -> None:
    (row,) = rows(build_table(api_kind(Pod), [{"kind": "Pod", "status": {"phase": phase}}], NOW))
    condition = {"type": "Completed", "status": "True", "reason": phase}
    assert row.get("conditions") == ([condition] if completed else None)
