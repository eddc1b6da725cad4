"""The scale of workloads, and of custom resources that have one."""

from __future__ import annotations

import pytest

from kframework.errors import ClusterError
from kframework.fake_api.resources import ScalePaths, to_scale, with_scale
from tests.fake_api.local_api import MERGE, TABLE, Json, LocalApi

DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
WEB: Json = {
    "metadata": {"name": "web"},
    "spec": {
        "replicas": 2,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "c", "image": "nginx"}]},
        },
    },
}


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ({"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "c", "operator": "Exists"}]}, "a=b,c"),
        ({"b": "2", "a": "1"}, "a=1,b=2"),
        ("a=b", "a=b"),
        (None, None),
        ({"matchExpressions": [{"key": "c", "operator": "Near"}]}, None),
    ],
)
def test_scale_selector_is_one_line(selector: object, expected: str | None) -> None:
    scale = to_scale(ScalePaths(), {"metadata": {}, "spec": {"selector": selector}})
    assert scale["status"] == {"replicas": 0} | ({"selector": expected} if expected else {})


def test_replicas_are_at_the_paths_of_the_definition() -> None:
    paths = ScalePaths("spec.size.wanted", "status.size", "status.chosen")
    custom: Json = {"spec": {"other": 1}, "status": {"size": 4, "chosen": "a=b"}}
    assert to_scale(paths, custom)["status"] == {"replicas": 4, "selector": "a=b"}
    assert with_scale(paths, custom, {"spec": {"replicas": 3}})["spec"] == {"other": 1, "size": {"wanted": 3}}


@pytest.mark.parametrize(
    ("scale", "status"),
    [({"spec": {"replicas": -1}}, 422), ({"spec": {"replicas": "1"}}, 400), ({"kind": "Pod"}, 400)],
)
def test_invalid_scale_is_rejected(scale: Json, status: int) -> None:
    with pytest.raises(ClusterError) as refused:
        with_scale(ScalePaths(), WEB, scale)
    assert refused.value.status == status


async def test_workload_is_scaled() -> None:
    api = LocalApi()
    await api.call("POST", DEPLOYMENTS, WEB)
    scale = await api.call("GET", f"{DEPLOYMENTS}/web/scale")
    assert (scale["kind"], scale["apiVersion"], scale["spec"]) == ("Scale", "autoscaling/v1", {"replicas": 2})
    assert scale["status"] == {"replicas": 0, "selector": "app=web"}
    scale["spec"] = {"replicas": 5}
    assert (await api.call("PUT", f"{DEPLOYMENTS}/web/scale", scale))["spec"] == {"replicas": 5}
    assert (await api.call_error("PUT", f"{DEPLOYMENTS}/web/scale", scale))[0] == 409
    patched = await api.call("PATCH", f"{DEPLOYMENTS}/web/scale", {"spec": {"replicas": 0}}, content_type=MERGE)
    assert patched["spec"] == {}
    web = await api.call("GET", f"{DEPLOYMENTS}/web")
    assert (web["spec"]["replicas"], web["metadata"]["generation"]) == (0, 3)


async def test_scale_is_printed_with_its_own_columns() -> None:
    api = LocalApi()
    await api.call("POST", DEPLOYMENTS, WEB)
    table = await api.call("GET", f"{DEPLOYMENTS}/web/scale", accept=TABLE)
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Desired", "Available", "Age"]
    assert table["rows"][0]["cells"] == ["web", 2, 0, "0s"]


async def test_kind_without_a_scale_is_not_found() -> None:
    assert (await LocalApi().call_error("GET", "/apis/apps/v1/namespaces/default/daemonsets/a/scale"))[0] == 404
