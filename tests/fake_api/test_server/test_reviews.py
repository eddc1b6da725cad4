"""The authorizer answers reviews, which are not stored."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from kframework.client.transport import ADMIN, User
from kframework.clock import LoopClock
from kframework.fake_api.access import RbacAuthorizer, RbacSubject, RoleBinding, RoleRef, default_roles
from kframework.in_memory.cluster import MemoryCluster
from kframework.objects import ObjectMeta
from tests.fake_api.local_api import Json, LocalApi, request

AUTHORIZATION = "/apis/authorization.k8s.io/v1"
MYSELF = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
CREATE_PODS = {"resourceAttributes": {"verb": "create", "resource": "pods", "namespace": "default"}}
ANN = User("ann", ("system:authenticated",), "7")


async def ask(api: LocalApi, path: str, body: Json, user: User | None = ANN) -> Json:
    response = await api.server.answer(msgspec.structs.replace(request("POST", path, body), user=user))
    assert response.status == 201, response.body
    answer: Json = msgspec.json.decode(response.body)
    return answer


async def test_self_subject_review_names_the_user() -> None:
    answer = await ask(LocalApi(), MYSELF, {"kind": "SelfSubjectReview"})
    assert answer["status"]["userInfo"] == {"username": "ann", "groups": ["system:authenticated"], "uid": "7"}


@pytest.mark.parametrize("roles", [False, True])
async def test_access_review_checks_the_user(roles: bool) -> None:
    api = LocalApi()
    if roles:
        api.server.authorizer = RbacAuthorizer(api.cluster)
    answer = await ask(api, f"{AUTHORIZATION}/selfsubjectaccessreviews", {"spec": CREATE_PODS}, None)
    assert answer["status"] == {"allowed": True}
    other = await ask(
        api,
        f"{AUTHORIZATION}/subjectaccessreviews",
        {"spec": CREATE_PODS | {"user": "bob", "groups": []}},
        None,
    )
    assert other["status"] == {"allowed": not roles}


@pytest.mark.parametrize("spec", [None, [], 7, {"resourceAttributes": 7}, {"user": 7, "groups": [7]}])
async def test_review_of_any_spec_is_answered(spec: object) -> None:
    await ask(LocalApi(), f"{AUTHORIZATION}/subjectaccessreviews", {"spec": spec})


async def test_rules_review_lists_all_rights() -> None:
    api, path = LocalApi(), f"{AUTHORIZATION}/selfsubjectrulesreviews"
    status = (await ask(api, path, {"spec": {"namespace": "default"}}))["status"]
    everything = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}
    assert (status["resourceRules"], status["incomplete"]) == ([everything], False)
    assert status["nonResourceRules"] == [{"verbs": ["*"], "nonResourceURLs": ["*"]}]


async def test_rules_review_lists_granted_rules() -> None:
    cluster = MemoryCluster(LoopClock(asyncio.get_running_loop()), default_roles())
    ref, ann = RoleRef(kind="ClusterRole", name="view"), RbacSubject(kind="User", name="ann")
    cluster.add(RoleBinding(metadata=ObjectMeta(name="ann", namespace="shop"), role_ref=ref, subjects=(ann,)))
    authorizer = RbacAuthorizer(cluster)
    recorded = {verb for rule in authorizer.rules(User("ann"), "shop") for verb in rule.verbs}
    assert recorded == {"get", "list", "watch"}
    assert authorizer.rules(User("ann"), "other") == []
    assert [rule.verbs for rule in authorizer.rules(ADMIN, "other")] == [("*",), ("*",)]
