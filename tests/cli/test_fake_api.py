"""`kframework fake-api`, as a user starts it."""

from __future__ import annotations

import json
import signal
import socket
from pathlib import Path
from urllib.request import urlopen

import pytest

from tests.cli.conftest import Command
from tests.cli.processes import fake_api, server_of

NODE = """
apiVersion: v1
kind: Node
metadata: {name: node-a}
status: {capacity: {cpu: "4", memory: 8Gi, pods: "110"}}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: web}
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_fake_api_serves_the_objects_of_files_until_it_is_stopped(tmp_path: Path, number: signal.Signals) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(NODE)
    with fake_api("-f", file) as (api, kubeconfig):
        with urlopen(f"{server_of(kubeconfig)}/api/v1/nodes") as response:
            assert [item["metadata"]["name"] for item in json.load(response)["items"]] == ["node-a"]
        passed_over = "notice: ignored, as this scheduler does not read them: 1 Ingress (networking.k8s.io/v1)"
        assert api.end(number) == (0, [], [passed_over])
        assert not kubeconfig.exists()


@pytest.mark.slow
def test_fake_api_serves_another_minor_on_request() -> None:
    with (
        fake_api("--emulated-version", "1.36") as (_, kubeconfig),
        urlopen(f"{server_of(kubeconfig)}/version") as response,
    ):
        assert json.load(response)["gitVersion"].startswith("v1.36.")


@pytest.mark.slow
def test_state_is_kept_over_a_restart(tmp_path: Path) -> None:
    file, state = tmp_path / "cluster.yaml", tmp_path / "state"
    file.write_text(NODE)
    found = []
    for _ in range(2):
        with fake_api("-f", file, "--state-file", state) as (api, kubeconfig):
            with urlopen(f"{server_of(kubeconfig)}/api/v1/nodes/node-a") as response:
                found.append(json.load(response)["metadata"]["uid"])
            assert api.end(signal.SIGTERM)[0] == 0
    assert found[0] == found[1]


def test_nodes_have_the_devices_that_a_file_describes(tmp_path: Path) -> None:
    file, devices = tmp_path / "cluster.yaml", tmp_path / "devices.yaml"
    file.write_text(NODE)
    pattern = "{driver: d, devices: [{name: g, count: 2, capacity: {memory: 1Gi}}]}"
    devices.write_text(f"apiVersion: kframework.dev/v1\nkind: Devices\npatterns: [{pattern}]\n")
    with fake_api("-f", file, "--devices", devices) as (_, kubeconfig):
        with urlopen(f"{server_of(kubeconfig)}/apis/resource.k8s.io/v1/resourceslices") as response:
            (published,) = json.load(response)["items"]
    assert published["metadata"]["name"] == "node-a-d-0"
    assert published["spec"]["devices"] == [
        {"name": name, "capacity": {"memory": {"value": "1Gi"}}} for name in ("g-0", "g-1")
    ]


def test_kubeconfig_goes_where_it_is_wanted(tmp_path: Path) -> None:
    file = tmp_path / "with space"
    with fake_api("--write-kubeconfig", file) as (api, kubeconfig):
        assert kubeconfig == file
        assert api.end() == (0, [], [])
    assert file.exists()


def test_port_that_is_taken_is_one_line(run: Command) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        remedy = "choose another --bind-address or --port, or no --port for any free one"
        line = f"error: cannot listen on 127.0.0.1:{port}: Address already in use; {remedy}\n"
        assert run("fake-api", "--port", port) == (1, "", line)


def test_misspelt_file_is_not_served_by_strict(run: Command, tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(NODE.replace("status", "stauts"))
    line = f'error: {file}:5: Node node-a: unknown field "stauts"; did you mean "status"?\n'
    assert run("fake-api", "--strict", "-f", file) == (1, "", line)


@pytest.mark.parametrize(
    ("arguments", "code", "line"),
    [
        (["-f", "none-such"], 1, "error: none-such: cannot be read: No such file or directory"),
        (["--port", "-1"], 2, "error: Invalid value for '--port': must be greater than or equal to 0"),
    ],
)
def test_bad_input_is_one_line(run: Command, arguments: list[str], code: int, line: str) -> None:
    result = run("fake-api", *arguments)
    assert (result.code, result.out) == (code, "")
    assert result.errors[0].startswith(line)
