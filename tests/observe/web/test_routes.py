"""Over HTTP a scheduler gives its page, and what the page asks for."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import aiohttp
import msgspec
import pytest

from kframework.explain.view import PodEngineView
from kframework.observe.web.nodes import describe_node, list_nodes
from kframework.observe.web.pods import list_queues
from kframework.observe.web.profiles import profile_views
from kframework.observe.web.summary import list_attempts, summarise_scheduler
from kframework.observe.web.view import live_page
from kframework.state.inbox import Upserted
from kframework.testing import make_node, make_pod
from tests.explain.scene import Scene
from tests.observe.web.serving import served


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    text: str

    @property
    def data(self) -> Any:
        return json.loads(self.text)


async def ask(scene: Scene, path: str, method: str = "GET") -> Answer:
    async with (
        served(scene) as url,
        aiohttp.ClientSession() as session,
        session.request(method, url + path) as response,
    ):
        return Answer(response.status, dict(response.headers), await response.text())


@pytest.fixture
def scene() -> Scene:
    return Scene(
        make_node("a"), make_pod("fits"), make_pod("huge", cpu=99), make_pod("gated", gates=["quota"])
    ).settle()


def plain(record: object) -> Any:
    return json.loads(msgspec.json.encode(record))


async def test_page_is_served_with_its_policy(scene: Scene) -> None:
    answer = await ask(scene, "/")
    assert answer.status == 200
    assert answer.text == live_page().html
    assert answer.headers["Content-Security-Policy"] == live_page().policy
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Referrer-Policy"] == "no-referrer"


async def test_views_are_served_as_json_records(scene: Scene) -> None:
    engine, history = scene.engine, scene.history
    shown = PodEngineView(engine, history)
    expected = {
        "/view/summary": summarise_scheduler(shown),
        "/view/queues": list_queues(shown),
        "/view/queues?queue=gated": list_queues(shown, queue="gated"),
        "/view/queues?profile=default-scheduler&plugin=NodeResourcesFit": list_queues(
            shown, held_by=("default-scheduler", "NodeResourcesFit")
        ),
        "/view/attempts": list_attempts(history),
        "/view/attempts?after=1": list_attempts(history, after=1),
        "/view/attempts?pod=default/huge": list_attempts(history, pod="default/huge"),
        "/view/sections": (),
        "/view/details?kind=pod&name=default/huge": shown.details("pod", "default/huge"),
        "/view/details": shown.details("", ""),
        "/view/nodes": list_nodes(engine.cluster.nodes),
        "/view/node?name=a": describe_node(engine.cluster, "a"),
        "/view/profiles": profile_views(engine.profiles, history, engine.clock.now()),
    }
    for path, record in expected.items():
        answer = await ask(scene, path)
        assert (answer.status, answer.headers["Content-Type"]) == (200, "application/json"), path
        assert answer.headers["Cache-Control"] == "no-store"
        assert answer.data == plain(record), path


async def test_find_view_returns_pods_by_name(scene: Scene) -> None:
    answer = await ask(scene, "/view/find?text=ug")
    assert answer.data == [{"pod": "default/huge", "queue": "unschedulable", "node": ""}]


@pytest.mark.parametrize(
    ("path", "status", "error"),
    [
        ("/view/node?name=b", 404, "there is no node 'b'"),
        ("/view/node", 404, "there is no node ''"),
        ("/view/attempts?after=x", 400, "after must be the number of an attempt"),
        ("/view/attempts?after=-1", 400, "after must be the number of an attempt"),
        (f"/view/attempts?after={'9' * 5000}", 400, "after must be the number of an attempt"),
    ],
)
async def test_invalid_request_is_answered_with_an_error(scene: Scene, path: str, status: int, error: str) -> None:
    answer = await ask(scene, path)
    assert (answer.status, answer.data) == (status, {"error": error})


async def test_page_routes_accept_only_get(scene: Scene) -> None:
    assert {(await ask(scene, path, "POST")).status for path in ("/", "/view/queues", "/view/find")} == {405}


async def test_requests_do_not_change_the_scheduler(scene: Scene) -> None:
    other = Scene(
        make_node("a"), make_pod("fits"), make_pod("huge", cpu=99), make_pod("gated", gates=["quota"])
    ).settle()
    for path in (
        "/view/summary",
        "/view/queues",
        "/view/nodes",
        "/view/node?name=a",
        "/view/profiles",
        "/view/find?text=x",
    ):
        await ask(scene, path)
    for each in (scene, other):
        each.engine.offer(Upserted(make_node("b", cpu=200)))
        each.time += 10
        each.settle()
    seen, unseen = ([(d.pod, d.node, d.message) for d in each.history.recent(9)] for each in (scene, other))
    assert seen == unseen


async def test_large_responses_are_compressed(scene: Scene) -> None:
    answer = await ask(scene, "/view/nodes")
    assert answer.headers["Content-Encoding"] in ("gzip", "deflate")
