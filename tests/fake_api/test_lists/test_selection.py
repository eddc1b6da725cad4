"""Which objects are meant."""

from __future__ import annotations

import pytest

from kframework.errors import ClusterError
from kframework.fake_api.lists import Selection
from kframework.fake_api.wire.documents import Document
from kframework.objects import CoreEvent, Event, ObjectMeta, ObjectReference, Pod, PodSpec, PodStatus
from tests.fake_api.serving import served_as

POD = Document.of(
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
def test_pods(namespace: str, query: dict[str, str], selected: bool) -> None:
    selection = Selection(served_as(Pod), namespace, query)
    assert selection.selects(POD) is selected
    assert not selection.selects(None)


@pytest.mark.parametrize(
    ("fields", "name"),
    [("metadata.name=web", "web"), ("metadata.name!=web", ""), ("spec.nodeName=n1", ""), ("metadata.name==web", "web")],
)
def test_the_one_name(fields: str, name: str) -> None:
    assert Selection(served_as(Pod), "", {"fieldSelector": fields}).name == name


def test_fields_of_a_view() -> None:
    reference = ObjectReference(kind="Pod", name="web", uid="u")
    event = Document.of(Event(metadata=ObjectMeta(name="e", namespace="default"), regarding=reference, reason="R"))
    core = Selection(served_as(CoreEvent), "", {"fieldSelector": "involvedObject.name=web,involvedObject.uid=u"})
    assert core.selects(event)
    assert Selection(served_as(Event), "", {"fieldSelector": "regarding.name=web"}).selects(event)
    assert not Selection(served_as(Event), "", {"fieldSelector": "reason=S"}).selects(event)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ({"labelSelector": "a=b=c"}, "unable to parse requirement: label selector 'a=b=c'"),
        ({"fieldSelector": "spec.image=x"}, "field label not supported: spec.image"),
        ({"fieldSelector": "nothing"}, "field selector 'nothing'"),
    ],
)
def test_nonsense(query: dict[str, str], message: str) -> None:
    with pytest.raises(ClusterError) as refused:
        Selection(served_as(Pod), "", query)
    assert refused.value.status == 400
    assert refused.value.message.startswith(message)
