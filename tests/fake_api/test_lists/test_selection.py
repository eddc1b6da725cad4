"""Which objects are meant."""

from __future__ import annotations

import pytest

from kframework.errors import ClusterError
from kframework.fake_api.lists import ObjectSelection
from kframework.fake_api.wire.documents import ApiDocument
from kframework.objects import CoreEvent, Event, ObjectMeta, ObjectReference, Pod, PodSpec, PodStatus
from tests.fake_api.local_api import resource_of

POD = ApiDocument.from_struct(
    Pod(
        metadata=ObjectMeta(name="web", namespace="default", labels={"app": "a"}),
        spec=PodSpec(node_name="n1"),
        status=PodStatus(phase="Running"),
    )
)


@pytest.mark.parametrize(
    ("namespace", "query", "selected"),
    [
        ("", {}, True),
        ("default", {}, True),
        ("other", {}, False),
        ("", {"labelSelector": "app=a"}, True),
        ("", {"labelSelector": "app in (b,c)"}, False),
        ("", {"labelSelector": ""}, True),
        ("", {"fieldSelector": "metadata.name=web,metadata.namespace=default"}, True),
        ("", {"fieldSelector": "metadata.name=other"}, False),
        ("", {"fieldSelector": "status.phase!=Succeeded,status.phase!=Failed"}, True),
        ("", {"fieldSelector": "spec.nodeName=n1,status.phase=Pending"}, False),
        ("", {"labelSelector": "app=a", "fieldSelector": "spec.nodeName=n2"}, False),
    ],
)
def test_selectors_select_pods(namespace: str, query: dict[str, str], selected: bool) -> None:
    selection = ObjectSelection(resource_of(Pod), namespace, query)
    assert selection.matches(POD) is selected
    assert not selection.matches(None)


@pytest.mark.parametrize(
    ("fields", "name"),
    [("metadata.name=web", "web"), ("metadata.name!=web", ""), ("spec.nodeName=n1", ""), ("metadata.name==web", "web")],
)
def test_field_selector_names_one_object(fields: str, name: str) -> None:
    assert ObjectSelection(resource_of(Pod), "", {"fieldSelector": fields}).name == name


def test_field_selector_reads_the_view() -> None:
    reference = ObjectReference(kind="Pod", name="web", uid="u")
    event = ApiDocument.from_struct(
        Event(metadata=ObjectMeta(name="e", namespace="default"), regarding=reference, reason="R")
    )
    core = ObjectSelection(
        resource_of(CoreEvent), "", {"fieldSelector": "involvedObject.name=web,involvedObject.uid=u"}
    )
    assert core.matches(event)
    assert ObjectSelection(resource_of(Event), "", {"fieldSelector": "regarding.name=web"}).matches(event)
    assert not ObjectSelection(resource_of(Event), "", {"fieldSelector": "reason=S"}).matches(event)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ({"labelSelector": "a=b=c"}, "unable to parse requirement: label selector 'a=b=c'"),
        ({"fieldSelector": "spec.image=x"}, "field label not supported: spec.image"),
        ({"fieldSelector": "nothing"}, "field selector 'nothing'"),
    ],
)
def test_invalid_selector_is_rejected(query: dict[str, str], message: str) -> None:
    with pytest.raises(ClusterError) as refused:
        ObjectSelection(resource_of(Pod), "", query)
    assert refused.value.status == 400
    assert refused.value.message.startswith(message)
