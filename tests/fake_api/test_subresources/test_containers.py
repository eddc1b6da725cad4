"""Logs are what an annotation says, and commands are refused with one clear line."""

from __future__ import annotations

import pytest

from kframework.fake_api.subresources import LOGS_ANNOTATION
from kframework.objects import Container, ObjectMeta, Pod, PodSpec, PodStatus
from tests.fake_api.local_api import PODS, LocalApi, read


def pod(*names: str, node: str = "n1", phase: str = "Running", first: tuple[str, ...] = (), logs: str = "") -> Pod:
    containers = tuple(Container(name=name, image="x") for name in names)
    return Pod(
        metadata=ObjectMeta(name="web", namespace="default", annotations={LOGS_ANNOTATION: logs} if logs else {}),
        spec=PodSpec(
            containers=containers,
            init_containers=tuple(Container(name=name, image="x") for name in first),
            node_name=node,
        ),
        status=PodStatus(phase=phase, start_time="2026-01-01T00:00:00Z"),
    )


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ({}, "a\nb\nc"),
        ({"follow": "true"}, "a\nb\nc"),
        ({"tailLines": "2"}, "b\nc"),
        ({"tailLines": "0"}, ""),
        ({"tailLines": "9" * 5000}, "a\nb\nc"),
        ({"tailLines": "x"}, "a\nb\nc"),
        ({"tailLines": "1", "timestamps": "true"}, "2026-01-01T00:00:00Z c"),
        ({"container": "c"}, "a\nb\nc"),
    ],
)
async def test_logs_come_from_the_annotation(query: dict[str, str], text: str) -> None:
    answer = await LocalApi(pod("c", logs="a\nb\nc")).send("GET", f"{PODS}/web/log", **query)
    assert (answer.status, answer.body.decode()) == (200, text)
    assert answer.headers["content-type"].startswith("text/plain")


async def test_logs_without_an_annotation_are_one_line() -> None:
    answer = await LocalApi(pod("c")).send("GET", f"{PODS}/web/log")
    assert answer.body.startswith(b"no logs: nothing is executed here")
    assert (await LocalApi(pod("c", node="", phase="Pending")).send("GET", f"{PODS}/web/log")).body == b""


@pytest.mark.parametrize(
    ("subject", "query", "status", "message"),
    [
        (pod("a", "b"), {}, 400, "a container name must be specified for pod web, choose one of: [a b]"),
        (
            pod("a", "b", first=("i",)),
            {},
            400,
            "a container name must be specified for pod web, choose one of: [a b] or one of the init containers: [i]",
        ),
        (pod("a"), {"container": "x"}, 400, "container x is not valid for pod web"),
        (
            pod("a", phase="Pending"),
            {},
            400,
            'container "a" in pod "web" is waiting to start: ContainerCreating',
        ),
    ],
)
async def test_logs_need_a_container_name(subject: Pod, query: dict[str, str], status: int, message: str) -> None:
    refused = await LocalApi(subject).call_error("GET", f"{PODS}/web/log", **query)
    assert (refused[0], refused[2]) == (status, message)


async def test_logs_need_a_pod() -> None:
    assert (await LocalApi().call_error("GET", f"{PODS}/web/log"))[2] == 'pods "web" not found'


@pytest.mark.parametrize("part", ["attach", "exec", "portforward"])
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_commands_are_rejected(method: str, part: str) -> None:
    answer = await LocalApi(pod("c")).send(method, f"{PODS}/web/{part}", command="ls")
    status = read(answer.body)
    assert (status["code"], status["reason"]) == (501, "NotImplemented")
    assert status["message"] == f"nothing is executed here: pod web has no process for {part}"


@pytest.mark.parametrize(
    ("policy", "is_interactive", "phase"),
    [("Never", True, "Succeeded"), ("Never", False, "Running"), ("Always", True, "Running")],
)
async def test_pod_that_reads_one_input_ends_with_its_client(policy: str, is_interactive: bool, phase: str) -> None:
    api = LocalApi()
    container = {"name": "c", "image": "x", "stdin": True, "stdinOnce": is_interactive}
    spec = {"containers": [container], "nodeName": "n1", "restartPolicy": policy}
    await api.call("POST", PODS, {"metadata": {"name": "web"}, "spec": spec})
    api.cluster.set_status(api.cluster.read(Pod, "web"), PodStatus(phase="Running"))
    for part in ("exec", "attach", "attach"):
        assert (await api.call_error("POST", f"{PODS}/web/{part}"))[0] == 501
    assert api.cluster.read(Pod, "web").status.phase == phase


async def test_command_needs_a_pod() -> None:
    assert (await LocalApi().call_error("POST", f"{PODS}/web/exec"))[2] == 'pods "web" not found'
