"""A kubeconfig leads to the fake API while it is served, and never replaces the user's own."""

from __future__ import annotations

import asyncio
import base64
import json
import stat
from collections.abc import Awaitable, Callable
from pathlib import Path
from urllib.request import urlopen

import pytest
import yaml

from kframework.clock import SystemClock
from kframework.errors import ConfigError
from kframework.fake_api.http_server import ServerOptions, publish
from kframework.fake_api.local_cluster import LocalCluster
from kframework.objects.manifest import Manifest
from kframework.testing import make_node

OTHERS = "contexts: [{name: production, context: {cluster: production}}]\n"


def publishing(publication: ServerOptions, work: Callable[[Path], Awaitable[None]]) -> None:
    """Do the work while a cluster of one node is published."""

    async def main() -> None:
        local = LocalCluster(SystemClock(), Manifest([make_node("a")]))
        async with publish(local.server, publication) as file:
            await work(file)

    asyncio.run(main())


def server(file: Path) -> str:
    """Return the URL in a kubeconfig, following it as kubectl does."""
    document = yaml.safe_load(file.read_text())
    contexts = {each["name"]: each["context"] for each in document["contexts"]}
    clusters = {each["name"]: each["cluster"] for each in document["clusters"]}
    return str(clusters[contexts[document["current-context"]]["cluster"]]["server"])


def nodes(file: Path) -> list[str]:
    with urlopen(f"{server(file)}/api/v1/nodes") as response:
        return [item["metadata"]["name"] for item in json.load(response)["items"]]


def mode(file: Path) -> int:
    return stat.S_IMODE(file.stat().st_mode)


@pytest.mark.parametrize("tls", [False, True])
def test_cluster_has_the_certificate_of_the_kubeconfig(tls: bool) -> None:
    async def certificates() -> tuple[str, str]:
        local = LocalCluster(SystemClock(), Manifest())
        async with publish(local.server, ServerOptions(tls=tls)) as file:
            cluster = yaml.safe_load(file.read_text())["clusters"][0]["cluster"]
        result = base64.b64decode(cluster.get("certificate-authority-data", ""))
        return local.memory.certificate_authority, result.decode()

    known, result = asyncio.run(certificates())
    assert known == result
    assert tls == result.startswith("-----BEGIN CERTIFICATE-----")


@pytest.mark.parametrize("tls", [False, True])
def test_kubeconfig_allows_plain_http_only_without_tls(tls: bool) -> None:
    async def work(file: Path) -> None:
        text = await asyncio.to_thread(file.read_text)
        cluster = yaml.safe_load(text)["clusters"][0]["cluster"]
        assert cluster.get("insecure-skip-tls-verify", False) is not tls

    publishing(ServerOptions(tls=tls), work)


@pytest.mark.parametrize("address", ["127.0.0.1", "0.0.0.0", "localhost"])
def test_temporary_kubeconfig_is_removed_with_the_server(address: str) -> None:
    recorded: list[Path] = []

    async def work(file: Path) -> None:
        recorded.append(file)
        assert await asyncio.to_thread(nodes, file) == ["a"]
        assert await asyncio.to_thread(mode, file) == 0o600

    publishing(ServerOptions(bind_address=address), work)
    assert not recorded[0].exists()


def test_requested_kubeconfig_stays_and_is_overwritten(tmp_path: Path) -> None:
    file = tmp_path / "kubeconfig"

    async def work(given: Path) -> None:
        assert given == file
        assert await asyncio.to_thread(nodes, file) == ["a"]

    for _ in range(2):
        publishing(ServerOptions(kubeconfig=str(file)), work)
        assert file.exists()


@pytest.mark.parametrize("text", ["", OTHERS, "contexts: []", "- a\n", "a: [b", "contexts: [1]", b"\xff"])
def test_foreign_file_is_not_overwritten(tmp_path: Path, text: str | bytes) -> None:
    file = tmp_path / "kubeconfig"
    content = text if isinstance(text, bytes) else text.encode()
    file.write_bytes(content)
    with pytest.raises(ConfigError, match="exists and is not a fake API's kubeconfig; name another file"):
        publishing(ServerOptions(kubeconfig=str(file)), nothing)
    assert file.read_bytes() == content


def test_unwritable_file_is_a_one_line_error(tmp_path: Path) -> None:
    file = tmp_path / "missing" / "kubeconfig"
    with pytest.raises(ConfigError) as raised:
        publishing(ServerOptions(kubeconfig=str(file)), nothing)
    assert str(raised.value) == f"{file}: cannot write: No such file or directory"


def test_taken_port_is_a_one_line_error() -> None:
    async def work(file: Path) -> None:
        port = int(server(file).rpartition(":")[2])
        with pytest.raises(ConfigError) as raised:
            async with publish(LocalCluster(SystemClock(), Manifest()).server, ServerOptions(port=port)):
                pass
        remedy = "choose another --bind-address or --port, or no --port for any free one"
        assert str(raised.value) == f"cannot listen on 127.0.0.1:{port}: Address already in use; {remedy}"

    publishing(ServerOptions(), work)


async def nothing(file: Path) -> None:
    raise AssertionError("not reached")
