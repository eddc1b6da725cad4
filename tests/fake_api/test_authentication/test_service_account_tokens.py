"""Tokens of service accounts: made, known again, and over in time."""

from __future__ import annotations

import asyncio
from base64 import urlsafe_b64decode

import msgspec
import pytest
from multidict import CIMultiDict

from kframework.client.transport import User
from kframework.errors import ClusterError
from kframework.fake_api.authentication import AUDIENCE
from kframework.objects import Pod
from tests.fake_api.local_api import PODS, Json, LocalApi, pod

ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"
BOT = "system:serviceaccount:default:bot"


@pytest.fixture(name="api")
async def with_an_account() -> LocalApi:
    api = LocalApi()
    await api.call("POST", ACCOUNTS, {"metadata": {"name": "bot"}})
    return api


async def token(api: LocalApi, **spec: object) -> str:
    sent = await api.call("POST", f"{ACCOUNTS}/bot/token", {"spec": spec})
    return str(sent["status"]["token"])


def user(api: LocalApi, token_text: str) -> User:
    return api.server.authenticator.authenticate(CIMultiDict(Authorization=f"Bearer {token_text}"))


async def test_token_identifies_the_service_account(api: LocalApi) -> None:
    account = await api.call("GET", f"{ACCOUNTS}/bot")
    sent = await api.call("POST", f"{ACCOUNTS}/bot/token", {"spec": {"expirationSeconds": 600}})
    assert sent["metadata"].items() >= {"name": "bot", "namespace": "default"}.items()
    known = user(api, sent["status"]["token"])
    assert (known.name, known.uid) == (BOT, account["metadata"]["uid"])
    assert "system:serviceaccounts:default" in known.groups
    claims = sent["status"]["token"].split(".")[1]
    result = msgspec.json.decode(urlsafe_b64decode(claims + "=="[: -len(claims) % 4]))
    assert (result["sub"], result["aud"], result["exp"] - result["iat"]) == (BOT, [AUDIENCE], 600)


async def test_token_is_invalid_after_expiry_or_without_its_account(api: LocalApi) -> None:
    first, second = await token(api, expirationSeconds=600), await token(api)
    await asyncio.sleep(599)
    assert user(api, first).name == BOT
    await asyncio.sleep(2)
    assert user(api, first).name == "kubernetes-admin"  # nobody has to log in here
    assert user(api, second).name == BOT
    await api.call("DELETE", f"{ACCOUNTS}/bot")
    await api.call("POST", ACCOUNTS, {"metadata": {"name": "bot"}})
    assert user(api, second).name == "kubernetes-admin"


async def test_token_is_invalid_without_its_bound_pod(api: LocalApi) -> None:
    await api.call("POST", PODS, pod(serviceAccountName="bot"))
    bound = await token(api, boundObjectRef={"kind": "Pod", "apiVersion": "v1", "name": "web"})
    assert user(api, bound).name == BOT
    api.cluster.remove(Pod, "web")
    assert user(api, bound).name == "kubernetes-admin"


@pytest.mark.parametrize("forged", ["", "a.b.c", "{}", "{}x", "x{}"])
async def test_foreign_token_has_no_user(api: LocalApi, forged: str) -> None:
    real = await token(api)
    token_text = forged.format(real[:-4])
    api.server.authenticator._tokens = {}
    with pytest.raises(ClusterError, match="Unauthorized"):
        user(api, token_text or "x")
    assert user(api, real).name == BOT


@pytest.mark.parametrize(
    ("account", "sent", "status", "why"),
    [
        ("other", {}, 404, 'serviceaccounts "other" not found'),
        ("bot", {"spec": {"expirationSeconds": 599}}, 422, "may not specify a duration less than 10 minutes"),
        ("bot", {"spec": {"expirationSeconds": 2**32 + 1}}, 422, "may not specify a duration larger than 2^32"),
        ("bot", {"spec": {"expirationSeconds": "x"}}, 400, "must be a whole number"),
        ("bot", {"metadata": {"name": "other"}}, 422, "must match the service account name if specified"),
        ("bot", {"metadata": {"uid": "other"}}, 409, "does not match the UID of the service account"),
        ("bot", {"spec": {"boundObjectRef": {"kind": "Job"}}}, 400, "cannot bind token to object of type"),
        ("bot", {"spec": {"boundObjectRef": {"kind": "Pod", "name": "web"}}}, 404, 'pods "web" not found'),
    ],
)
async def test_invalid_token_request_is_rejected(
    api: LocalApi, account: str, sent: Json, status: int, why: str
) -> None:
    actual, _, message = await api.call_error("POST", f"{ACCOUNTS}/{account}/token", sent)
    assert (actual, why) == (status, why if why in message else message)


async def test_token_review_names_the_user(api: LocalApi) -> None:
    mine, others = await token(api), await token(api, audiences=["vault"])
    for token_text, audiences, status in (
        (mine, None, {"authenticated": True, "audiences": [AUDIENCE]}),
        (others, ["vault", "x"], {"authenticated": True, "audiences": ["vault"]}),
        (others, None, {"error": "invalid bearer token"}),
        ("other", None, {"error": "invalid bearer token"}),
    ):
        answer = await api.call("POST", REVIEWS, {"spec": {"token": token_text, "audiences": audiences}})
        assert answer["status"].items() >= status.items()
        assert answer["status"]["user"].get("username", BOT) == BOT
    assert (await api.call_error("POST", REVIEWS, {"spec": {}}))[0] == 400
    assert (await api.call_error("GET", REVIEWS))[0] == 405
