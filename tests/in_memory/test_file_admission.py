"""Objects of files that admission rejects are found before they are loaded."""

from __future__ import annotations

from typing import Any

import pytest

from kframework.in_memory.file_admission import find_rejections
from kframework.objects import ApiObject, convert, find_kind

CONTAINERS = [{"name": "c", "resources": {"limits": {"cpu": "3"}}}]
LIMITS = {"limits": [{"type": "Container", "max": {"cpu": "2"}}]}


def make(api_version: str, kind: str, name: str = "web", **more: Any) -> ApiObject:
    known = find_kind(api_version, kind)
    assert known is not None
    return convert({"metadata": {"name": name}, **more}, known)


def pod(**spec: Any) -> ApiObject:
    return make("v1", "Pod", spec={"containers": [{"name": "c"}], **spec})


def found(*objects: ApiObject) -> list[tuple[int, str, str]]:
    return [(index, ".".join(map(str, path)), str(error)) for index, path, error in find_rejections(objects)]


TEMPLATE = {"spec": {"runtimeClassName": "nosuch", "containers": [{"name": "c"}]}}


@pytest.mark.parametrize(
    ("subject", "path", "name"),
    [
        (pod(runtimeClassName="nosuch"), "spec", "web"),
        (make("apps/v1", "Deployment", spec={"template": TEMPLATE}), "spec.template.spec", "web-"),
        (make("v1", "ReplicationController", spec={"template": TEMPLATE}), "spec.template.spec", "web-"),
        (
            make("batch/v1", "CronJob", spec={"jobTemplate": {"spec": {"template": TEMPLATE}}}),
            "spec.jobTemplate.spec.template.spec",
            "web-",
        ),
    ],
)
def test_pod_of_an_unknown_class_is_found_in_files_and_templates(subject: ApiObject, path: str, name: str) -> None:
    error = f'pods "{name}" is forbidden: pod rejected: RuntimeClass "nosuch" not found'
    assert found(make("v1", "Node"), subject) == [(1, f"{path}.runtimeClassName", error)]


def test_policies_admit_pods_whatever_their_order() -> None:
    assert not found(
        pod(runtimeClassName="boxed", priorityClassName="high"),
        make("node.k8s.io/v1", "RuntimeClass", "boxed"),
        make("scheduling.k8s.io/v1", "PriorityClass", "high", value=1),
    )


def test_unknown_priority_class_is_found() -> None:
    error = 'pods "web" is forbidden: no PriorityClass with name nosuch was found'
    assert found(pod(priorityClassName="nosuch")) == [(0, "spec.priorityClassName", error)]


def test_limit_is_for_new_pods_of_its_namespace() -> None:
    limits = make("v1", "LimitRange", "limits", spec=LIMITS)
    error = 'pods "web" is forbidden: maximum cpu usage per Container is 2, but limit is 3'
    assert found(pod(containers=CONTAINERS), limits) == [(0, "spec", error)]
    assert not found(pod(containers=CONTAINERS, nodeName="n1"), limits)
    assert not found(
        make("v1", "Pod", metadata={"name": "p", "namespace": "team"}, spec={"containers": CONTAINERS}), limits
    )


def test_claim_beyond_a_limit_is_found() -> None:
    claim = make("v1", "PersistentVolumeClaim", spec={"resources": {"requests": {"storage": "2Gi"}}})
    item = {"type": "PersistentVolumeClaim", "max": {"storage": "1Gi"}}
    assert len(found(claim, make("v1", "LimitRange", spec={"limits": [item]}))) == 1


def test_second_default_priority_class_is_found() -> None:
    first, second = (
        make("scheduling.k8s.io/v1", "PriorityClass", name, globalDefault=True) for name in ("first", "second")
    )
    assert [index for index, _, _ in found(first, second)] == [1]
