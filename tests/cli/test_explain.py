"""`kframework explain`."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from aiohttp import web

from kframework.explain.explanation import Explanation
from kframework.observe.web.view import EngineExplanation
from kframework.process.http.endpoints import Listener, serve
from kframework.testing import make_node, make_pod
from tests.cli.conftest import Command, Install
from tests.explain.scene import Scene

CLUSTER = """
apiVersion: v1
kind: Node
metadata: {name: n1}
status: {capacity: {cpu: "1", memory: 4Gi, pods: "110"}}
---
apiVersion: v1
kind: Pod
metadata: {name: first}
spec: {containers: [{name: c, resources: {requests: {cpu: "1"}}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop}
spec: {containers: [{name: c, resources: {requests: {cpu: "1"}}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: foreign}
spec: {schedulerName: another, containers: [{name: c}]}
"""


TIERED = """
from kframework import Plugin, hookimpl, set_label, unresolvable

class Tiered(Plugin):
    name = "Tiered"
    reads = "node"

    @hookimpl
    def filter(self, state, pod, node):
        return None if "tier" in node.labels else unresolvable("node(s) had no tier")

    @hookimpl
    def suggest(self, state, pod, node, status):
        return [set_label(node.name, "tier", "gold")]
"""


@pytest.mark.parametrize("pod", [("shop/web",), ("web", "-n", "shop"), ("pod/web", "-n", "shop"), ("po/web", "-nshop")])
def test_pod_of_files_is_explained(run: Command, cluster: Path, pod: tuple[str, ...]) -> None:
    done = run("explain", *pod, "-f", cluster)
    assert (done.code, done.errors) == (0, [])
    assert done.out.startswith("Pod:          shop/web\n")
    assert "NodeResourcesFit  Insufficient cpu" in done.out
    assert "WHAT WOULD HELP" in done.out
    assert len(done.out.splitlines()) < 40


def test_namespace_is_default(run: Command, cluster: Path) -> None:
    assert run("explain", "first", "-f", cluster).out.startswith("Pod:          default/first\n")


def test_pod_is_explained_in_json(run: Command, cluster: Path) -> None:
    found = json.loads(run("explain", "shop/web", "-f", cluster, "-o", "json").out)
    assert (found["pod"], found["state"], found["assessment"]["reasons"]) == (
        "shop/web",
        "unschedulable",
        {"Insufficient cpu": 1},
    )
    assert msgspec.convert(found, Explanation).last_decision is not None


def test_wide_text_leaves_nothing_out(run: Command, cluster: Path) -> None:
    wide = run("explain", "shop/web", "-f", cluster, "-o", "wide").out
    assert "Message:      0/1 nodes are available: 1 Insufficient cpu." in wide


def test_files_are_simulated_by_a_configuration(run: Command, cluster: Path, tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "profiles:\n- schedulerName: another\n"
    )
    assert "Scheduler:    another" in run("explain", "foreign", "-f", cluster, "--config", config).out


def test_suggestion_of_any_plugin_is_shown(run: Command, install: Install, cluster: Path, tmp_path: Path) -> None:
    install("acme_tiers", {"Tiered": "Tiered"}, TIERED)
    config = tmp_path / "config.yaml"
    config.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "profiles:\n- plugins: {multiPoint: {enabled: [{name: Tiered}]}}\n"
    )
    shown = run("explain", "first", "-f", cluster, "--config", config).out
    assert "WHAT WOULD HELP" in shown and "label n1 with tier=gold" in shown


@pytest.mark.parametrize(
    ("pod", "line"),
    [
        ("absent", "error: there is no pod default/absent"),
        (
            "foreign",
            "error: pod default/foreign is for the scheduler 'another'; this one schedules for default-scheduler",
        ),
    ],
)
def test_unknown_pod_is_reported(run: Command, cluster: Path, pod: str, line: str) -> None:
    done = run("explain", pod, "-f", cluster)
    assert (done.code, done.out, done.errors) == (1, "", [line])


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("a/b/c", "-f", "x"), "Invalid value for 'POD': write POD, pod/NAME or NAMESPACE/NAME"),
        (("a/b", "-n", "c", "-f", "x"), "Invalid value for 'POD': names the namespace a; remove -n"),
        (("", "-f", "x"), "Invalid value for 'POD': write POD, pod/NAME or NAMESPACE/NAME"),
        (("pod/", "-f", "x"), "Invalid value for 'POD': write POD, pod/NAME or NAMESPACE/NAME"),
        (("/b", "-f", "x"), "Invalid value for 'POD': write POD, pod/NAME or NAMESPACE/NAME"),
        (("b", "--attempt", "1"), "Invalid value for '--attempt': only with --recording"),
        (("b", "--config", "c"), "Invalid value for '--config': only with -f; a scheduler or recording has its own"),
        (("b", "--source", "c"), "Invalid value for '--source': only with -f, for the plugins of a profile"),
        (("b", "--devices", "c"), "Invalid value for '--devices': only with -f"),
        (("b", "--engine", "c"), "Invalid value for '--engine': only with -f; a scheduler or recording names its own"),
        (
            ("b", "--engine", "tea", "-f", "d"),
            "Invalid value for '--engine': no installed distribution offers 'tea' under kframework.engines",
        ),
        (
            ("b", "--certificate-authority", "c", "-f", "d"),
            "Invalid value for '--certificate-authority': only with --scheduler",
        ),
        (
            ("b", "--scheduler", "127.0.0.1:10259"),
            "Invalid value for '--scheduler': must begin with http:// or https://, like http://127.0.0.1:10259",
        ),
        (
            ("b", "-f", "c", "--recording", "d"),
            "Invalid value for --filename and --recording: give only one of them",
        ),
    ],
)
def test_wrong_command_line_is_refused(run: Command, arguments: tuple[str, ...], problem: str) -> None:
    done = run("explain", *arguments)
    assert (done.code, done.errors[0]) == (2, f"error: {problem}")


@pytest.fixture
def port() -> Iterator[str]:
    """A port that answers as a scheduler does, about one pod; /bare answers as another server."""
    scene = Scene(make_node("n1", cpu=1), make_pod("pod", cpu=2)).settle()
    explanation = msgspec.json.encode(scene.explain("pod"))
    ready, over = threading.Event(), asyncio.Event()
    urls: list[str] = []
    loop = asyncio.new_event_loop()

    async def answer(request: web.Request) -> web.Response:
        if request.query["pod"] == "default/pod":
            return web.Response(body=explanation, content_type="application/json")
        return web.json_response({"error": f"there is no pod {request.query['pod']}"}, status=404)

    async def odd(request: web.Request) -> web.Response:
        return web.json_response({"pod": 1})

    async def of_tea(request: web.Request) -> web.Response:
        said = EngineExplanation("tea", "It steeps.\n", "It steeps for 3 minutes.\n", msgspec.Raw(b'{"minutes": 3}'))
        return web.Response(body=msgspec.json.encode(said), content_type="application/json")

    async def work() -> None:
        routes = [web.get("/explain", answer), web.get("/odd/explain", odd), web.get("/tea/explain", of_tea)]
        async with serve(routes, Listener(port=0)) as url:
            urls.append(url)
            ready.set()
            await over.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(work()))
    thread.start()
    ready.wait()
    yield urls[0]
    loop.call_soon_threadsafe(over.set)
    thread.join()
    loop.close()


@pytest.mark.parametrize(
    ("form", "out"),
    [
        ((), "It steeps.\n"),
        (("-o", "wide"), "It steeps for 3 minutes.\n"),
    ],
)
def test_another_engine_explains_in_its_own_words(run: Command, port: str, form: tuple[str, ...], out: str) -> None:
    done = run("explain", "pot", "--scheduler", f"{port}/tea", *form)
    assert (done.code, done.out) == (0, out)
    answer = json.loads(run("explain", "pot", "--scheduler", f"{port}/tea", "-o", "json").out)
    assert (answer["kind"], answer["explanation"]) == ("EngineExplanation", {"minutes": 3})


def test_running_scheduler_answers(run: Command, port: str) -> None:
    done = run("explain", "pod", "--scheduler", port)
    assert done.code == 0, done.err
    assert "Insufficient cpu" in done.out


@pytest.mark.parametrize(
    ("path", "pod", "error"),
    [
        ("", "absent", "there is no pod default/absent"),
        ("/bare", "pod", "{url}/bare does not serve /explain: 404 Not Found"),
        ("/odd", "pod", "{url}/odd is not a scheduler of this version: "),
    ],
)
def test_answer_without_an_explanation_is_reported(run: Command, port: str, path: str, pod: str, error: str) -> None:
    done = run("explain", pod, "--scheduler", port + path)
    assert done.code == 1
    assert done.errors[0].startswith(f"error: {error.format(url=port)}")


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "http://"])
def test_unreachable_scheduler_is_reported(run: Command, url: str) -> None:
    done = run("explain", "pod", "--scheduler", url)
    assert done.code == 1
    assert done.errors[0].startswith(f"error: no scheduler answers at {url}: ")
    assert done.errors[0].endswith("; name the right one with --scheduler URL, or cluster files with -f")


@pytest.mark.parametrize(
    ("text", "problem"), [(None, "No such file or directory"), ("none", "contains no PEM certificate")]
)
def test_unreadable_certificate_is_reported(run: Command, tmp_path: Path, text: str | None, problem: str) -> None:
    file = tmp_path / "ca.pem"
    if text is not None:
        file.write_text(text)
    done = run("explain", "pod", "--scheduler", "https://127.0.0.1:1", "--certificate-authority", file)
    assert (done.code, done.errors) == (1, [f"error: {file}: {problem}"])


ENDED = """
apiVersion: v1
kind: Pod
metadata: {name: short, annotations: {kframework.dev/run-seconds: "3"}}
spec: {priority: 5, containers: [{name: c, resources: {requests: {cpu: "1"}}}]}
"""


@pytest.fixture
def recording(run: Command, cluster: Path, tmp_path: Path) -> Path:
    """A run in which `short` comes first and ends, then `first` runs, and `web` never does."""
    ended, file = tmp_path / "ended.yaml", tmp_path / "run.rec"
    ended.write_text(ENDED)
    done = run("simulate", "-f", ended, "-f", cluster, "--record", file)
    assert done.code == 0, done.err
    return file


def test_recorded_pod_is_explained_as_it_was_in_the_end(run: Command, recording: Path) -> None:
    found = explained(run("explain", "shop/web", "--recording", recording, "-o", "json").out)
    assert found.state == "unschedulable"
    assert found.last_decision is not None and found.last_decision.reasons == found.assessment.reasons == {
        "Insufficient cpu": 1
    }


def test_one_that_has_ended_is_explained_as_it_was_last(run: Command, recording: Path) -> None:
    found = explained(run("explain", "short", "--recording", recording, "-o", "json").out)
    assert (found.node, found.last_decision, found.assessment.feasible) == ("", None, 1)


def test_pod_is_explained_as_it_was_before_an_attempt(run: Command, recording: Path) -> None:
    found = explained(run("explain", "first", "--recording", recording, "--attempt", 2, "-o", "json").out)
    assert (found.node, found.last_decision, found.assessment.feasible) == ("", None, 0)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("absent",), "the scheduler does not know pod default/absent in this recording"),
        (("short", "--attempt", 99), "there is no attempt 99 in this recording"),
        (
            ("absent", "--attempt", 2),
            "the scheduler does not know pod default/absent in this recording before attempt 2",
        ),
    ],
)
def test_recording_without_an_explanation_is_reported(
    run: Command, recording: Path, arguments: tuple[object, ...], error: str
) -> None:
    done = run("explain", *arguments, "--recording", recording)
    assert (done.code, done.errors) == (1, [f"error: {recording}: {error}"])


def explained(text: str) -> Explanation:
    return msgspec.json.decode(text, type=Explanation)
