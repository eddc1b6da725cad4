"""What may change in a pod, by its paths."""

from __future__ import annotations

import pytest

from kframework.objects import Pod
from tests.fake_api.local_api import PODS, STRATEGIC, Json, LocalApi, pod

MAIN = "pod updates may not change fields other than `spec.containers[*].image`"


def sized(cpu: str, **more: object) -> Json:
    return {"name": "c", "resources": {"requests": {"cpu": cpu} | more, "limits": {"cpu": "2"}}}


@pytest.fixture(name="resized")
async def a_pod_to_resize() -> LocalApi:
    api = LocalApi()
    await api.call("POST", PODS, pod(containers=[sized("1") | {"image": "i"}]))
    return api


async def test_valid_resize_is_accepted(resized: LocalApi) -> None:
    patch = {"spec": {"containers": [sized("1500m")], "nodeSelector": {"a": "b"}}}
    result = await resized.call("PATCH", f"{PODS}/web/resize", patch, content_type=STRATEGIC)
    assert result["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "1500m"}
    assert ("nodeSelector" in result["spec"], result["metadata"]["generation"]) == (False, 2)
    (remaining,) = resized.cluster.objects(Pod)
    assert remaining.spec.containers[0].resources.requests == {"cpu": "1500m"}


@pytest.mark.parametrize(
    ("path", "containers", "why"),
    [
        ("", [sized("1500m")], f"spec: Forbidden: {MAIN}"),
        ("/resize", [sized("1", **{"ephemeral-storage": "1Gi"})], "spec: Forbidden: only cpu and memory resources are"),
        ("/resize", [sized("3")], 'spec.containers[0].resources.requests: Invalid value: "3": must be less than'),
        ("/resize", [{"name": "d", "image": "i"}], "spec.containers: Forbidden: containers may not be"),
        (
            "/resize",
            [{"name": "c", "resources": {"$patch": "replace", "limits": {"cpu": "2", "memory": "1Gi"},
                                         "requests": {"cpu": "2", "memory": "1Gi"}}}],
            'spec: Invalid value: "Burstable": Pod QOS Class may not change as a result of resizing',
        ),
        (
            "/resize",
            [{"name": "c", "resources": {"$patch": "replace", "requests": {"memory": "1Gi"}}}],
            "spec.containers[0].resources.requests: Forbidden: resource requests cannot be removed",
        ),
    ],
)  # fmt: skip
async def test_forbidden_resize_is_rejected(resized: LocalApi, path: str, containers: list[Json], why: str) -> None:
    body = {"spec": {"containers": containers}}
    status, _, message = await resized.call_error("PATCH", f"{PODS}/web{path}", body, content_type=STRATEGIC)
    assert (status, why) == (422, why if why in message else message)


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"activeDeadlineSeconds": 5}, None),
        ({"tolerations": [{"key": "a", "operator": "Exists"}]}, None),
        ({"containers": [{"name": "c", "image": "j"}]}, None),
        ({"nodeSelector": {"a": "b"}}, MAIN),
        ({"containers": [{"name": "c", "command": ["sh"]}]}, MAIN),
        ({"containers": [{"name": "d", "image": "i"}]}, "pod updates may not add or remove containers"),
        ({"tolerations": None}, None),
        ({"schedulerName": "mine"}, MAIN),
    ],
)
async def test_forbidden_pod_change_is_rejected(resized: LocalApi, spec: Json, why: str | None) -> None:
    body: Json = {"metadata": {"labels": {"a": "b"}}, "spec": spec}
    if why is None:
        await resized.call("PATCH", f"{PODS}/web", body, content_type=STRATEGIC)
    else:
        _, _, message = await resized.call_error("PATCH", f"{PODS}/web", body, content_type=STRATEGIC)
        assert why in message


async def test_ephemeral_container_is_added(resized: LocalApi) -> None:
    path, put = f"{PODS}/web/ephemeralcontainers", {"name": "look", "image": "i", "targetContainerName": "c"}
    result = await resized.call("PATCH", path, {"spec": {"ephemeralContainers": [put]}}, content_type=STRATEGIC)
    (container,) = result["spec"]["ephemeralContainers"]
    assert container.items() >= put.items() and container["terminationMessagePolicy"] == "File"
    assert (await resized.call("GET", path))["spec"] == result["spec"]


@pytest.mark.parametrize(
    ("container", "why"),
    [
        ({"name": "c", "image": "i"}, 'spec.ephemeralContainers[1].name: Duplicate value: "c"'),
        ({"name": "d"}, "spec.ephemeralContainers[1].image: Required value"),
        ({"name": "d", "image": "i", "targetContainerName": "x"}, '[1].targetContainerName: Not found: "x"'),
        (
            {"name": "d", "image": "i", "ports": [{"containerPort": 80}]},
            "spec.ephemeralContainers[1].ports: Forbidden: cannot be set for an Ephemeral Container",
        ),
        ({"name": "look", "image": "j"}, 'existing ephemeral containers "look" may not be changed'),
        ({"name": "look", "$patch": "delete"}, 'existing ephemeral containers "look" may not be removed'),
    ],
)
async def test_invalid_ephemeral_container_is_rejected(resized: LocalApi, container: Json, why: str) -> None:
    path, first = f"{PODS}/web/ephemeralcontainers", {"name": "look", "image": "i"}
    await resized.call("PATCH", path, {"spec": {"ephemeralContainers": [first]}}, content_type=STRATEGIC)
    body = {"spec": {"ephemeralContainers": [container]}}
    _, _, message = await resized.call_error("PATCH", path, body, content_type=STRATEGIC)
    assert why.replace("[1]", "[0]") in message.replace("[1]", "[0]")
