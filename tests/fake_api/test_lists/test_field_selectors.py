"""Field selectors: the fields of each kind, and what is refused."""

from __future__ import annotations

import pytest

from kframework.errors import ClusterError
from kframework.fake_api.lists import compile_field_selector
from kframework.objects import (
    ApiObject,
    CoreEvent,
    Event,
    Kind,
    Lease,
    Namespace,
    Node,
    Pod,
    ReplicationController,
    Service,
    kind_of,
)

ApiDocument = dict[str, object]

POD: ApiDocument = {
    "metadata": {"name": "a", "namespace": "default"},
    "spec": {"nodeName": "n1", "serviceAccountName": "default"},
    "status": {"phase": "Running", "podIP": "10.0.0.1"},
}
EVENT: ApiDocument = {
    "metadata": {"name": "a.1", "namespace": "default"},
    "regarding": {"kind": "Pod", "name": "a", "namespace": "default", "uid": "u", "fieldPath": "spec.containers{main}"},
    "reportingController": "default-scheduler",
    "reason": "Scheduled",
    "type": "Normal",
}
CORE_EVENT: ApiDocument = {
    "metadata": {"name": "a.1", "namespace": "default"},
    "involvedObject": {"kind": "Pod", "name": "a", "namespace": "default", "uid": "u"},
    "reportingComponent": "default-scheduler",
    "reason": "Scheduled",
    "type": "Normal",
}


@pytest.mark.parametrize(
    ("kind", "document", "selector", "expected"),
    [
        (Pod, POD, "", True),
        (Pod, POD, "spec.nodeName=n1", True),
        (Pod, POD, "spec.nodeName==n1,metadata.name=a,metadata.namespace=default", True),
        (Pod, POD, "spec.nodeName=n1,metadata.name=b", False),
        (Pod, POD, "spec.nodeName!=n1", False),
        (Pod, POD, "spec.nodeName=", False),
        (Pod, {}, "spec.nodeName=", True),
        (Pod, POD, "spec.host=n1", True),
        (Pod, POD, "status.phase!=Succeeded,status.phase!=Failed", True),
        (Pod, {"status": {"phase": "Failed"}}, "status.phase!=Succeeded,status.phase!=Failed", False),
        (Pod, {}, "status.phase=Pending", True),
        (Pod, POD, "spec.schedulerName=default-scheduler,spec.restartPolicy=Always", True),
        (Pod, POD, "spec.serviceAccountName=default", True),
        (Pod, POD, "spec.hostNetwork=false", True),
        (Pod, {"spec": {"hostNetwork": True}}, "spec.hostNetwork=true", True),
        (Pod, POD, "status.podIP=10.0.0.1", True),
        (Pod, POD, "status.nominatedNodeName=", True),
        (Node, {"spec": {"unschedulable": True}}, "spec.unschedulable=true", True),
        (Node, {"metadata": {"name": "n1"}}, "spec.unschedulable=false,metadata.name=n1", True),
        (Namespace, {}, "status.phase=Active", True),
        (Service, {"spec": {"clusterIP": "None"}}, "spec.clusterIP=None,spec.type=ClusterIP", True),
        (ReplicationController, {"status": {"replicas": 2}}, "status.replicas=2", True),
        (ReplicationController, {}, "status.replicas=0", True),
        (
            Lease,
            {"metadata": {"name": "x", "namespace": "kube-system"}},
            "metadata.name=x,metadata.namespace!=default",
            True,
        ),
        (
            Event,
            EVENT,
            "regarding.kind=Pod,regarding.name=a,regarding.uid=u,reportingController=default-scheduler",
            True,
        ),
        (Event, EVENT, "regarding.fieldPath=spec.containers{main},reason=Scheduled,type=Normal", True),
        (CoreEvent, CORE_EVENT, "involvedObject.name=a,involvedObject.namespace=default,involvedObject.uid=u", True),
        (CoreEvent, CORE_EVENT, "involvedObject.name=a,involvedObject.kind=Node", False),
        (CoreEvent, CORE_EVENT, "source=default-scheduler,reportingComponent=default-scheduler", True),
        (CoreEvent, {**CORE_EVENT, "source": {"component": "kubelet"}}, "source=kubelet", True),
    ],
)
def test_field_selector_matches(kind: type[ApiObject], document: ApiDocument, selector: str, expected: bool) -> None:
    assert compile_field_selector(selector, api_kind(kind))(document) is expected


@pytest.mark.parametrize(
    ("kind", "selector", "message"),
    [
        (Pod, "spec.containers=x", "field label not supported: spec.containers"),
        (Pod, "metadata.name=a,metadata.uid=b", "field label not supported: metadata.uid"),
        (CoreEvent, "regarding.name=a", "field label not supported: regarding.name"),
        (Event, "involvedObject.name=a", "field label not supported: involvedObject.name"),
        (
            Lease,
            "spec.holderIdentity=a",
            '"spec.holderIdentity" is not a known field selector: only "metadata.name", "metadata.namespace"',
        ),
        (Pod, "spec.nodeName", "field selector 'spec.nodeName': 'spec.nodeName' is not <field>=<value>, == or !="),
    ],
)
def test_unsupported_field_selector_is_rejected(kind: type[ApiObject], selector: str, message: str) -> None:
    with pytest.raises(ClusterError) as refused:
        compile_field_selector(selector, api_kind(kind))
    assert (refused.value.status, str(refused.value)) == (400, message)


def test_slices_of_a_node_can_be_selected() -> None:
    kind: Kind[ApiObject] = Kind("ResourceSlice", "resource.k8s.io/v1", "resourceslices", False, ApiObject)
    selects = compile_field_selector("spec.nodeName=n1,spec.driver=gpu.example.com", kind)
    assert selects({"spec": {"nodeName": "n1", "driver": "gpu.example.com"}})
    assert not selects({"spec": {"nodeName": "n2", "driver": "gpu.example.com"}})


def api_kind(struct: type[ApiObject]) -> Kind[ApiObject]:
    return kind_of(struct)
