"""A cluster is read by its kubeconfig: what a scheduler watches, and the classes that decide what is admitted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kframework.client import kube
from kframework.client.transport import Request, Response
from tests.cli.conftest import Command

NODE = {
    "metadata": {"name": "a"},
    "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}},
}
RUNNING = {"metadata": {"name": "old"}, "spec": {"nodeName": "a", "containers": [{"name": "c"}]}}
URGENT = {"metadata": {"name": "urgent"}, "value": 7}
WORKLOAD = """
apiVersion: v1
kind: Pod
metadata: {name: web}
spec: {priorityClassName: urgent, containers: [{name: c, resources: {requests: {cpu: "1"}}}]}
"""


class Server:
    """An API server with one node, one pod and one class; it serves no other kinds.

    Attributes:
        asked: the resources that were listed.
    """

    def __init__(self) -> None:
        self.is_closed = False
        self.asked = set[str]()

    async def send(self, request: Request) -> Response:
        kind = request.path.partition("?")[0].rpartition("/")[2]
        self.asked.add(kind)
        items = {"nodes": [NODE], "pods": [RUNNING], "priorityclasses": [URGENT]}.get(kind)
        if items is None:
            return Response(404, b"{}")
        return Response(200, json.dumps({"metadata": {"resourceVersion": "1"}, "items": items}).encode())

    async def close(self) -> None:
        self.is_closed = True


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    server = Server()

    async def connect(settings: kube.ConnectionSettings) -> Server:
        assert (settings.kubeconfig, settings.context) == ("mine", "blue")
        return server

    monkeypatch.setattr(kube, "connect", connect)
    return server


def test_the_cluster_of_a_kubeconfig_is_read_once(run: Command, tmp_path: Path, server: Server) -> None:
    file = tmp_path / "web.yaml"
    file.write_text(WORKLOAD)
    result = run("fit", "--kubeconfig", "mine", "--context", "blue", "-f", file)
    assert (result.code, result.errors) == (0, []) and "default/web  a" in result.out and server.is_closed


def test_an_engine_reads_what_it_watches(run: Command, tmp_path: Path, server: Server) -> None:
    file = tmp_path / "web.yaml"
    file.write_text(WORKLOAD.replace("spec: {", "spec: {schedulerName: volcano, "))
    result = run("fit", "--kubeconfig", "mine", "--context", "blue", "-f", file, "--engine", "batch")
    assert (result.code, result.errors) == (0, []) and "default/web  a" in result.out
    assert server.asked >= {"nodes", "pods", "priorityclasses", "podgroups", "queues", "persistentvolumes"}
