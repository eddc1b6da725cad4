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
from tests.fake_api.serving import PODS, Json, Served, pod

ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"
BOT = "system:serviceaccount:default:bot"


@pytest.fixture(name="served")
async def with_an_account() -> Served:
    served = Served()
    await served.ask("POST", ACCOUNTS, {"metadata": {"name": "bot"}})
    return served


async def token(served: Served, **spec: object) -> str:
    asked = await served.ask("POST", f"{ACCOUNTS}/bot/token", {"spec": spec})
    return str(asked["status"]["token"])


def user(served: Served, brought: str) -> User:
    return served.server.authenticator.authenticate(CIMultiDict(Authorization=f"Bearer {brought}"))


async def test_token_identifies_the_service_account(served: Served) -> None:
    account = await served.ask("GET", f"{ACCOUNTS}/bot")
    asked = await served.ask("POST", f"{ACCOUNTS}/bot/token", {"spec": {"expirationSeconds": 600}})
    assert asked["metadata"].items() >= {"name": "bot", "namespace": "default"}.items()
    known = user(served, asked["status"]["token"])
    assert (known.name, known.uid) == (BOT, account["metadata"]["uid"])
    assert "system:serviceaccounts:default" in known.groups
    claims = asked["status"]["token"].split(".")[1]
    told = msgspec.json.decode(urlsafe_b64decode(claims + "=="[: -len(claims) % 4]))
    assert (told["sub"], told["aud"], told["exp"] - told["iat"]) == (BOT, [AUDIENCE], 600)


async def test_token_is_invalid_after_expiry_or_without_its_account(served: Served) -> None:
    first, second = await token(served, expirationSeconds=600), await token(served)
    await asyncio.sleep(599)
    assert user(served, first).name == BOT
    await asyncio.sleep(2)
    assert user(served, first).name == "kubernetes-admin"  # nobody has to log in here
    assert user(served, second).name == BOT
    await served.ask("DELETE", f"{ACCOUNTS}/bot")
    await served.ask("POST", ACCOUNTS, {"metadata": {"name": "bot"}})
    assert user(served, second).name == "kubernetes-admin"


async def test_token_is_invalid_without_its_bound_pod(served: Served) -> None:
    await served.ask("POST", PODS, pod(serviceAccountName="bot"))
    bound = await token(served, boundObjectRef={"kind": "Pod", "apiVersion": "v1", "name": "web"})
    assert user(served, bound).name == BOT
    served.cluster.remove(Pod, "web")
    assert user(served, bound).name == "kubernetes-admin"


@pytest.mark.parametrize("forged", ["", "a.b.c", "{}", "{}x", "x{}"])
async def test_foreign_token_has_no_user(served: Served, forged: str) -> None:
    real = await token(served)
    brought = forged.format(real[:-4])
    served.server.authenticator._tokens = {}
    with pytest.raises(ClusterError, match="Unauthorized"):
        user(served, brought or "x")
    assert user(served, real).name == BOT


@pytest.mark.parametrize(
    ("account", "asked", "status", "why"),
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
    served: Served, account: str, asked: Json, status: int, why: str
) -> None:
    found, _, message = await served.refused("POST", f"{ACCOUNTS}/{account}/token", asked)
    assert (found, why) == (status, why if why in message else message)


async def test_token_review_names_the_user(served: Served) -> None:
    mine, others = await token(served), await token(served, audiences=["vault"])
    for brought, audiences, status in (
        (mine, None, {"authenticated": True, "audiences": [AUDIENCE]}),
        (others, ["vault", "x"], {"authenticated": True, "audiences": ["vault"]}),
        (others, None, {"error": "invalid bearer token"}),
        ("other", None, {"error": "invalid bearer token"}),
    ):
        answer = await served.ask("POST", REVIEWS, {"spec": {"token": brought, "audiences": audiences}})
        assert answer["status"].items() >= status.items()
        assert answer["status"]["user"].get("username", BOT) == BOT
    assert (await served.refused("POST", REVIEWS, {"spec": {}}))[0] == 400
    assert (await served.refused("GET", REVIEWS))[0] == 405
