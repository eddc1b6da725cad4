"""Webhooks change and refuse what is written, and a write goes on or fails where one cannot be asked."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from aiohttp import web
from msgspec.structs import replace

from kframework.client.transport import Response
from kframework.errors import ClusterError
from kframework.fake_api.webhooks import chain
from kframework.fake_api.webhooks import hooks as hooks_module
from kframework.objects import Namespace, ObjectMeta
from tests.fake_api.local_api import MERGE, PODS, Json, LocalApi, pod, read, request


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


HOOKS = "/apis/admissionregistration.k8s.io/v1"
ANY = {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}

#: What a webhook says to a review.
Says = Callable[[Json], Json]


def allowed(sent: Json) -> Json:
    return {"allowed": True}


def refused(sent: Json) -> Json:
    return {"allowed": False, "status": {"message": "no", "code": 403}}


def labelled(key: str, value: str = "yes") -> Says:
    """Add a label, and a map for it where there is none."""

    def says(sent: Json) -> Json:
        labels = sent["object"]["metadata"].get("labels", {}) | {key: value}
        patch = [{"op": "add", "path": "/metadata/labels", "value": labels}]
        return patched(patch)

    return says


def patched(patch: object) -> Json:
    text = base64.b64encode(msgspec.json.encode(patch)).decode()
    return {"allowed": True, "patchType": "JSONPatch", "patch": text}


class Hooks:
    """A server of webhooks; each has its path, and notes what it is asked."""

    def __init__(self, api: LocalApi, port: int) -> None:
        self.api = api
        self.sent: list[Json] = []
        self.said: dict[str, Says] = {}
        self._url = f"http://127.0.0.1:{port}"

    async def add(self, name: str, says: Says = allowed, kind: str = "Validating", **settings: Any) -> None:
        self.said[name] = says
        hook = {
            "name": f"{name}.example.com",
            "clientConfig": {"url": f"{self._url}/{name}"},
            "rules": [ANY],
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        } | settings
        body = {"metadata": {"name": name}, "webhooks": [hook]}
        await self.api.call("POST", f"{HOOKS}/{kind.lower()}webhookconfigurations", body)

    async def send(self, method: str, path: str, body: object = None, **query: Any) -> Response:
        """Answer a request as the front over HTTP does."""
        sent = request(method, path, body, **query)
        server = self.api.server
        await server.prepare(sent)
        written, warnings = await server.webhooks.review(sent)
        answer = await server.answer(written)
        return replace(answer, headers={**answer.headers, **warnings})

    async def written(self, method: str, path: str, body: object = None, **query: Any) -> Json:
        response = await self.send(method, path, body, **query)
        assert response.status < 300, response
        return read(response.body)

    async def refusal(self, method: str, path: str, body: object = None, **query: Any) -> tuple[int, str, str]:
        with pytest.raises(ClusterError) as error:
            await self.send(method, path, body, **query)
        return error.value.status, error.value.reason, error.value.message

    def names(self) -> list[str]:
        return [each["hook"] for each in self.sent]

    async def answer(self, sent: web.BaseRequest) -> web.Response:
        review, name = msgspec.json.decode(await sent.read()), sent.path.strip("/")
        self.sent.append(review["request"] | {"hook": name})
        says = self.said[name](review["request"])
        response = {"uid": review["request"]["uid"]} | says
        return web.json_response({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})


@asynccontextmanager
async def webhooks() -> AsyncIterator[Hooks]:
    """Serve a cluster with webhooks."""

    async def handle(sent: web.BaseRequest) -> web.Response:
        return await hooks.answer(sent)

    runner = web.ServerRunner(web.Server(handle, handler_cancellation=True), shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    (address,) = runner.addresses
    hooks = Hooks(LocalApi(Namespace(metadata=ObjectMeta(name="team", labels={"team": "a"}))), address[1])
    try:
        yield hooks
    finally:
        await runner.cleanup()


async def test_webhook_receives_an_admission_review() -> None:
    async with webhooks() as hooks:
        await hooks.add("look")
        await hooks.written("POST", PODS, pod())
        await hooks.written("PATCH", f"{PODS}/web", {"metadata": {"labels": {"a": "b"}}}, content_type=MERGE)
        await hooks.written("PUT", f"{PODS}/web/status", await hooks.api.call("GET", f"{PODS}/web"))
        await hooks.written("POST", f"{PODS}/web/binding", {"target": {"name": "n1"}})
        await hooks.written("DELETE", f"{PODS}/web")
        create, update, delete = hooks.sent
        assert create["kind"] == {"group": "", "version": "v1", "kind": "Pod"}
        assert create["resource"] == {"group": "", "version": "v1", "resource": "pods"}
        assert (create["operation"], create["name"], create["namespace"]) == ("CREATE", "web", "default")
        assert create["userInfo"]["username"] == "kubernetes-admin"
        assert (create["object"]["spec"]["restartPolicy"], create["oldObject"]) == ("Always", None)
        assert (create["dryRun"], create["options"]["kind"]) == (False, "CreateOptions")
        assert (update["operation"], update["object"]["metadata"]["labels"]) == ("UPDATE", {"a": "b"})
        assert "labels" not in update["oldObject"]["metadata"]
        assert (delete["operation"], delete["object"]) == ("DELETE", None)
        assert delete["oldObject"]["metadata"]["name"] == "web"


async def test_mutating_webhooks_change_the_object() -> None:
    async with webhooks() as hooks:
        await hooks.add("b", labelled("b"), kind="Mutating")
        await hooks.add("a", labelled("a"), kind="Mutating")
        await hooks.add("look")
        created = await hooks.written("POST", PODS, pod(labels={"own": "1"}))
        assert created["metadata"]["labels"] == {"own": "1", "a": "yes", "b": "yes"}
        assert hooks.names() == ["a", "b", "look"]
        assert hooks.sent[-1]["object"]["metadata"]["labels"] == created["metadata"]["labels"]
        actual = await hooks.api.call("GET", f"{PODS}/web")
        assert (actual["metadata"]["labels"], actual["spec"]["dnsPolicy"]) == (created["metadata"]["labels"], "Default")
        patch = {"metadata": {"labels": {"a": None}, "annotations": {"x": "y"}}}
        changed = await hooks.written("PATCH", f"{PODS}/web", patch, content_type=MERGE)
        assert changed["metadata"]["labels"] == {"own": "1", "a": "yes", "b": "yes"}
        assert changed["metadata"]["annotations"] == {"x": "y"}


async def test_pod_has_the_priority_of_the_class_set_by_a_webhook() -> None:
    async with webhooks() as hooks:
        body = {"metadata": {"name": "high"}, "value": 1000, "preemptionPolicy": "Never"}
        await hooks.api.call("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", body)
        patch = [{"op": "add", "path": "/spec/priorityClassName", "value": "high"}]
        await hooks.add("class", lambda sent: patched(patch), kind="Mutating")
        spec = (await hooks.written("POST", PODS, pod()))["spec"]
        assert (spec["priority"], spec["preemptionPolicy"]) == (1000, "Never")


async def test_reinvoked_webhook_sees_later_changes() -> None:
    def noted(sent: Json) -> Json:
        labels = sent["object"]["metadata"].get("labels", {})
        return labelled("seen", "-".join(sorted(labels)) or "none")(sent)

    async with webhooks() as hooks:
        await hooks.add("a", noted, kind="Mutating", reinvocationPolicy="IfNeeded")
        await hooks.add("b", labelled("b"), kind="Mutating")
        created = await hooks.written("POST", PODS, pod())
        assert (hooks.names(), created["metadata"]["labels"]["seen"]) == (["a", "b", "a"], "b-seen")


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({"message": "no", "code": 403}, (403, "", "no")),
        ({"message": "no", "code": 422, "reason": "Invalid"}, (422, "Invalid", "no")),
        ({"message": "no", "code": 200}, (400, "BadRequest", "no")),
        ({"reason": "Because"}, (400, "Because", "Because")),
        ({}, (400, "BadRequest", "")),
    ],
)
async def test_rejection_has_an_api_servers_text(status: Json, expected: tuple[int, str, str]) -> None:
    async with webhooks() as hooks:
        await hooks.add("no", lambda sent: {"allowed": False, "status": status})
        code, reason, why = expected
        head = 'admission webhook "no.example.com" denied the request'
        message = f"{head}: {why}" if why else f"{head} without explanation"
        assert await hooks.refusal("POST", PODS, pod()) == (code, reason, message)
        assert (await hooks.api.call("GET", PODS))["items"] == []


async def test_invalid_write_is_not_reviewed() -> None:
    async with webhooks() as hooks:
        await hooks.add("no", refused)
        assert (await hooks.send("POST", PODS, {"kind": "Nonsense"})).status == 400
        assert (await hooks.send("DELETE", f"{PODS}/none")).status == 404
        assert hooks.sent == []


async def test_webhook_configurations_are_not_reviewed() -> None:
    async with webhooks() as hooks:
        await hooks.add("no", refused)
        await hooks.written("DELETE", f"{HOOKS}/validatingwebhookconfigurations/no")
        await hooks.written("POST", PODS, pod())
        assert hooks.sent == []


@pytest.mark.parametrize(("policy", "goes_on"), [("Ignore", True), ("Fail", False)])
@pytest.mark.parametrize("kind", ["Validating", "Mutating"])
@pytest.mark.parametrize(
    ("says", "why"),
    [
        (lambda sent: {"uid": "other", "allowed": True}, 'got "other"'),
        (lambda sent: {"allowed": "maybe"}, "its answer is not an AdmissionReview"),
        (lambda sent: 1 / 0, "HTTP status 500"),
    ],
)
async def test_invalid_answer_follows_the_failure_policy(
    kind: str, says: Says, why: str, policy: str, goes_on: bool
) -> None:
    async with webhooks() as hooks:
        await hooks.add("bad", says, kind=kind, failurePolicy=policy)
        if goes_on:
            await hooks.written("POST", PODS, pod())
            return
        code, reason, message = await hooks.refusal("POST", PODS, pod())
        assert (code, reason) == (500, "InternalError")
        assert message.startswith('Internal error occurred: failed calling webhook "bad.example.com": ')
        assert why in message


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"clientConfig": {"url": "http://127.0.0.1:1/none"}}, "failed to call webhook: Post"),
        (
            {"clientConfig": {"service": {"name": "hook", "namespace": "default"}}},
            "it is a Service, which has no network here",
        ),
        ({"clientConfig": {"url": "https://127.0.0.1:1/", "caBundle": "bm9uZQ=="}}, "failed to call webhook"),
    ],
)
async def test_unreachable_webhook_follows_the_failure_policy(said: Json, why: str) -> None:
    async with webhooks() as hooks:
        await hooks.add("away", **said)
        assert why in (await hooks.refusal("POST", PODS, pod()))[2]


async def test_slow_or_large_answer_follows_the_failure_policy(monkeypatch: pytest.MonkeyPatch) -> None:
    async with webhooks() as hooks:
        await hooks.add("long", lambda sent: {"allowed": True, "status": {"message": "x" * 5000}})
        monkeypatch.setattr(chain, "MAX_ANSWER_BYTES", 4000)
        assert "the answer exceeds 4000 bytes" in (await hooks.refusal("POST", PODS, pod()))[2]

    async def never(sent: web.BaseRequest) -> web.Response:
        await asyncio.Event().wait()
        raise AssertionError

    async with webhooks() as hooks:
        monkeypatch.setattr(hooks, "answer", never)
        monkeypatch.setattr(hooks_module, "_DEFAULT_TIMEOUT", 0.01)
        await hooks.add("slow")
        assert "context deadline exceeded" in (await hooks.refusal("POST", PODS, pod()))[2]


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ({"allowed": True, "patch": "W10=", "patchType": "Merge"}, 'invalid patchType: "Merge"'),
        ({"allowed": True, "patch": "?", "patchType": "JSONPatch"}, "its patch is not base64"),
    ],
)
async def test_invalid_patch_follows_the_failure_policy(answer: Json, why: str) -> None:
    async with webhooks() as hooks:
        await hooks.add("bad", lambda sent: answer, kind="Mutating")
        assert why in (await hooks.refusal("POST", PODS, pod()))[2]


@pytest.mark.parametrize(
    ("expressions", "policy", "said"),
    [
        (["object.metadata.name == 'web'", "request.operation == 'CREATE'"], "Fail", "no"),
        (["request.userInfo.username == 'somebody'"], "Fail", ""),
        (
            ["object.spec.nodeName == 'n1'"],
            "Fail",
            "object.spec.nodeName == 'n1'' resulted in error: no such key",
        ),
        (["object.spec.nodeName == 'n1'"], "Ignore", ""),
        (["object.spec.nodeName == 'n1'", "oldObject != null"], "Fail", ""),
        (
            ["object.a.b == 1", "object.c == 1"],
            "Fail",
            "[expression 'object.a.b == 1' resulted in error: no such",
        ),
    ],
)
async def test_conditions_decide_whether_a_webhook_is_called(expressions: list[str], policy: str, said: str) -> None:
    async with webhooks() as hooks:
        conditions = [{"name": f"c{place}", "expression": each} for place, each in enumerate(expressions)]
        await hooks.add("no", refused, matchConditions=conditions, failurePolicy=policy)
        if not said:
            await hooks.written("POST", PODS, pod())
            assert hooks.sent == []
            return
        code, reason, message = await hooks.refusal("POST", PODS, pod())
        assert code == 403 and said in message
        assert said == "no" or (reason, message[:24]) == ("Forbidden", 'pods "web" is forbidden:')


async def test_warnings_are_passed_on() -> None:
    async with webhooks() as hooks:
        await hooks.add("warn", lambda sent: {"allowed": True, "warnings": ['old "field"', "two\nlines"]})
        created = await hooks.send("POST", PODS, pod())
        assert created.headers["warning"] == '299 - "old \\"field\\"", 299 - "twolines"'


async def test_dry_run_is_reviewed() -> None:
    async with webhooks() as hooks:
        await hooks.add("none", sideEffects="NoneOnDryRun")
        await hooks.written("POST", PODS, pod(), dryRun="All")
        assert hooks.sent[0]["dryRun"]
        await hooks.written("POST", PODS, pod())
