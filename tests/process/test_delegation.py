"""Who may ask the endpoints is what the API server says, in kube-scheduler's words."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import aiohttp
import msgspec
import pytest
from aiohttp import web

from kframework.client.kube import ConnectionSettings
from kframework.client.transport import Request, Response, Stream, Transport
from kframework.clock import VirtualTimeLoop
from kframework.errors import ClusterError, ConfigError
from kframework.process import delegation as module
from kframework.process.delegation import MAX_CACHED_ANSWERS, REQUEST_TIMEOUT, DelegatedAuth, Delegation
from kframework.process.http import endpoints
from kframework.process.http.endpoints import Listener, serve

SETTINGS = Delegation(authentication=ConnectionSettings(), authorization=ConnectionSettings())

TOKENS = "/apis/authentication.k8s.io/v1/tokenreviews"
ACCESSES = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


@pytest.fixture
def anyio_backend() -> object:
    return "asyncio", {"loop_factory": VirtualTimeLoop}


class Reviewer(Transport):
    """An API server that knows these tokens, and lets users ask for what is listed."""

    def __init__(self, tokens: Mapping[str, Any], may: Mapping[str, list[tuple[str, str]]]) -> None:
        self.tokens = tokens
        self.may = may
        self.asked: list[tuple[str, Any]] = []
        self.fault: ClusterError | None = None
        self.answers = asyncio.Event()
        self.answers.set()

    async def send(self, request: Request) -> Response:
        review = json.loads(request.body)
        self.asked.append((request.path, review["spec"]))
        await self.answers.wait()
        if self.fault is not None:
            raise self.fault
        spec = review["spec"]
        if request.path == TOKENS:
            user = self.tokens.get(spec["token"])
            return answer({"authenticated": True, "user": user} if user is not None else {"error": "unknown"})
        what = spec["nonResourceAttributes"]
        allowed = (what["verb"], what["path"]) in self.may.get(spec["user"], [])
        return answer({"allowed": allowed, **({} if allowed else {"reason": 'no "rule" fits'})})

    def stream(self, request: Request) -> AbstractAsyncContextManager[Stream]:
        raise AssertionError

    async def close(self) -> None: ...

    @property
    def paths(self) -> list[str]:
        return [path for path, _ in self.asked]


def answer(status: Mapping[str, Any]) -> Response:
    return Response(201, msgspec.json.encode({"kind": "Review", "status": status}))


PROMETHEUS: dict[str, Any] = {
    "username": "system:serviceaccount:monitoring:prometheus",
    "uid": "u-1",
    "groups": ["system:serviceaccounts"],
    "extra": {"example.com/pod": ["p"]},
}
KNOWN = {"right": PROMETHEUS, "root": {"username": "root", "groups": ["system:masters"]}, "other": {"username": "<x>"}}
MAY = {PROMETHEUS["username"]: [("get", "/metrics")]}


async def ok(request: web.Request) -> web.Response:
    return web.Response(text="ok")


@asynccontextmanager
async def guarded(
    reviewer: Reviewer, monkeypatch: pytest.MonkeyPatch, settings: Delegation = SETTINGS
) -> AsyncIterator[aiohttp.ClientSession]:
    """Serve /metrics and /livez to the users that the reviewer allows."""

    async def connect(connection: ConnectionSettings) -> Transport:
        return reviewer

    monkeypatch.setattr(module, "connect", connect)
    routes = [web.get("/metrics", ok), web.delete("/metrics", ok), web.get("/livez", ok), web.get("/livez/ping", ok)]
    async with (
        serve(routes, Listener(port=0, delegation=settings)) as url,
        aiohttp.ClientSession(url) as session,
    ):
        yield session


async def told(session: aiohttp.ClientSession, path: str, token: str | None, method: str = "GET") -> tuple[int, Any]:
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    async with session.request(method, path, headers=headers) as response:
        text = await response.text()
        is_json = response.content_type == "application/json"
        return response.status, json.loads(text) if is_json else text


def status(code: int, reason: str, message: str) -> dict[str, object]:
    about = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
    return about | {"message": message, "reason": reason, "code": code}


UNAUTHORIZED = 401, status(401, "Unauthorized", "Unauthorized")


def forbidden(user: str, verb: str, path: str) -> tuple[int, object]:
    why = f'forbidden: User "{user}" cannot {verb} path "{path}": no "rule" fits'
    return 403, status(403, "Forbidden", why)


@pytest.mark.parametrize(
    ("token", "method", "path", "expected"),
    [
        ("right", "GET", "/metrics", (200, "ok")),
        ("right", "DELETE", "/metrics", forbidden(PROMETHEUS["username"], "delete", "/metrics")),
        ("wrong", "GET", "/metrics", UNAUTHORIZED),
        (None, "GET", "/metrics", forbidden("system:anonymous", "get", "/metrics")),
        ("root", "DELETE", "/metrics", (200, "ok")),
        ("other", "GET", "/metrics", forbidden("&lt;x&gt;", "get", "/metrics")),
        ("wrong", "GET", "/livez", (200, "ok")),
        (None, "GET", "/livez", (200, "ok")),
        (None, "GET", "/livez/ping", forbidden("system:anonymous", "get", "/livez/ping")),
        (None, "GET", "/none", forbidden("system:anonymous", "get", "/none")),
    ],
)
async def test_access_follows_the_reviews(
    token: str | None, method: str, path: str, expected: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with guarded(Reviewer(KNOWN, MAY), monkeypatch) as session:
        assert await told(session, path, token, method) == expected


async def test_review_has_the_user_and_the_path(monkeypatch: pytest.MonkeyPatch) -> None:
    reviewer = Reviewer(KNOWN, MAY)
    async with guarded(reviewer, monkeypatch) as session:
        await told(session, "/metrics?x=1", "right")
    assert reviewer.asked == [
        (TOKENS, {"token": "right"}),
        (
            ACCESSES,
            {
                "user": PROMETHEUS["username"],
                "uid": "u-1",
                "groups": ["system:serviceaccounts", "system:authenticated"],
                "extra": {"example.com/pod": ["p"]},
                "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
            },
        ),
    ]


async def test_paths_for_everybody_may_be_others(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Delegation(
        authentication=ConnectionSettings(),
        authorization=ConnectionSettings(),
        always_allow_paths=("/metrics", "/livez/*"),
    )
    async with guarded(Reviewer({}, {}), monkeypatch, settings) as session:
        asked = [(await told(session, path, None))[0] for path in ("/metrics", "/livez/ping", "/livez")]
    assert asked == [200, 200, 403]


AWAY = 500, 'Internal Server Error: "/metrics?a=&b": POST: gone\\x1b &lt;b&gt;\n'.replace("&b", "&amp;b")


@pytest.mark.parametrize(("token", "expected"), [("right", UNAUTHORIZED), (None, AWAY)])
async def test_access_is_denied_while_the_api_server_is_unreachable(
    token: str | None, expected: object, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    reviewer = Reviewer(KNOWN, MAY)
    reviewer.fault = ClusterError("POST: gone\x1b <b>", status=0)
    async with guarded(reviewer, monkeypatch) as session:
        assert await told(session, "/metrics?a=&b", token) == expected
        assert (await told(session, "/livez", token))[0] == 200
    assert len(caplog.messages) == 1 and "right" not in caplog.text


async def test_answer_holds_for_some_seconds() -> None:
    reviewer = Reviewer(KNOWN, MAY)
    delegated = DelegatedAuth(SETTINGS, reviewer, reviewer)
    for pause, asked in ((0, 1), (9.9, 1), (0.2, 2)):
        await asyncio.sleep(pause)
        user = await delegated._authenticate("bearer right")
        assert user is not None and user.username == PROMETHEUS["username"]
        assert await delegated._authenticate("Bearer wrong") is None
        assert (await delegated._authorize(user, "get", "/metrics")).allowed
        assert not (await delegated._authorize(user, "get", "/configz")).allowed
        assert reviewer.paths.count(TOKENS) == reviewer.paths.count(ACCESSES) == 2 * asked


async def test_no_more_is_remembered_than_fits() -> None:
    reviewer = Reviewer(KNOWN, MAY)
    delegated = DelegatedAuth(SETTINGS, reviewer, reviewer)
    for number in range(MAX_CACHED_ANSWERS + 10):
        await delegated._authenticate(f"Bearer {number}")
    assert len(delegated._users._answers) == MAX_CACHED_ANSWERS
    assert not any(str(number).encode() in delegated._users._answers for number in range(MAX_CACHED_ANSWERS))


async def test_api_server_that_does_not_answer_has_its_time() -> None:
    reviewer, began = Reviewer(KNOWN, MAY), asyncio.get_running_loop().time()
    reviewer.answers.clear()
    with pytest.raises(ClusterError, match="no answer within 10 s"):
        await DelegatedAuth(SETTINGS, reviewer, reviewer)._authenticate("Bearer right")
    assert asyncio.get_running_loop().time() == began + REQUEST_TIMEOUT


async def test_tokens_are_not_requested_over_plain_http() -> None:
    with pytest.raises(ConfigError, match="clients would send their tokens over plain HTTP"):
        async with serve([], Listener(bind_address="0.0.0.0", port=0, delegation=SETTINGS)):
            pass


def test_times_are_kube_scheduler_s() -> None:
    assert (SETTINGS.token_ttl, SETTINGS.authorized_ttl, SETTINGS.unauthorized_ttl) == (10, 10, 10)
    assert SETTINGS.always_allow_paths == ("/healthz", "/readyz", "/livez")
    assert set(endpoints.HEALTH_ENDPOINTS) == {path[1:] for path in SETTINGS.always_allow_paths}
