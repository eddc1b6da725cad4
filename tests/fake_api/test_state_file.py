"""A cluster survives a restart, and an invalid file is reported with its line."""

from __future__ import annotations

import asyncio
import stat
from pathlib import Path

import msgspec
import pytest

from kframework.clock import SystemClock
from kframework.errors import InputError
from kframework.fake_api.local_cluster import LocalCluster
from kframework.fake_api.state_file import StateFile
from kframework.objects.manifest import Manifest
from kframework.testing import make_node
from tests.fake_api.local_api import PODS, Json, pod, read, request

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
WIDGETS = "/apis/example.com/v1/namespaces/default/widgets"
SECRETS = "/api/v1/namespaces/default/secrets"
DEFINITION = {
    "metadata": {"name": "widgets.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "widgets", "singular": "widget", "kind": "Widget"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}


class Life:
    """A cluster from its start to its end."""

    def __init__(self, state: StateFile, manifest: Manifest) -> None:
        self.local = LocalCluster(SystemClock(), manifest, state=state)

    async def __aenter__(self) -> Life:
        self._running = asyncio.ensure_future(self.local.run())
        await asyncio.sleep(0)
        return self

    async def __aexit__(self, *error: object) -> None:
        self._running.cancel()
        await asyncio.wait([self._running])

    async def call(self, method: str, path: str, body: object = None, **query: str) -> Json:
        sent = request(method, path, body, **query)
        await self.local.server.prepare(sent)
        return read((await self.local.server.answer(sent)).body)


async def test_saved_cluster_is_restored(tmp_path: Path) -> None:
    state = await asyncio.to_thread(StateFile, tmp_path / "state")
    async with Life(state, Manifest([make_node("n1")])) as life:
        await life.call("POST", DEFINITIONS, DEFINITION)
        before = [
            await life.call("POST", WIDGETS, {"metadata": {"name": "w"}, "spec": {"any": [1, {"thing": True}]}}),
            await life.call("POST", PODS, pod(), fieldManager="me"),
            await life.call("POST", SECRETS, {"metadata": {"name": "s"}, "data": {"a": "Yg=="}}),
        ]
        assert before[1]["metadata"]["managedFields"]
    again = await asyncio.to_thread(StateFile, tmp_path / "state")
    async with Life(again, Manifest([make_node("other")])) as life:
        after = [await life.call("GET", path) for path in (f"{WIDGETS}/w", f"{PODS}/web", f"{SECRETS}/s")]
        versions = [each["metadata"].pop("resourceVersion") for each in (*before, *after)]
        assert after == before
        assert min(map(int, versions[3:])) > max(map(int, versions[:3]))
        nodes = await life.call("GET", "/api/v1/nodes")
        assert [each["metadata"]["name"] for each in nodes["items"]] == ["n1"]
        expired = await life.call("GET", PODS, resourceVersion=versions[0], resourceVersionMatch="Exact")
        assert (expired["code"], expired["reason"]) == (410, "Expired")


def test_state_file_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "state"
    StateFile(path).write([b"{}"], 7)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.read_bytes().splitlines() == [b'{"kind":"ClusterState","version":7}', b"{}"]


def test_failed_write_keeps_the_old_file(tmp_path: Path) -> None:
    state = StateFile(tmp_path / "state")
    state.write([], 7)
    with pytest.raises(TypeError):
        state.write([b"{}", None], 8)  # type: ignore[list-item]  # it breaks off
    assert [each.name for each in tmp_path.iterdir()] == ["state"]
    remaining = StateFile(tmp_path / "state").saved
    assert remaining is not None
    assert remaining.version == 7


def test_missing_file_is_no_error(tmp_path: Path) -> None:
    assert StateFile(tmp_path / "state").saved is None


HEAD = b'{"kind":"ClusterState","version":7}\n'


@pytest.mark.parametrize(
    ("text", "line", "why"),
    [
        (b"", 1, "is not a saved cluster; remove the file"),
        (b"nonsense", 1, "is not a saved cluster"),
        (b'{"kind":"List"}', 1, "is not a saved cluster"),
        (HEAD + b'{"apiVersion":', 2, "is damaged: Input data was truncated"),
        (HEAD + b'{"a":"\xff"}', 2, "is damaged"),
        (HEAD + b"{}\n", 2, "is not served here"),
        (HEAD + b'{"apiVersion":"v1","kind":"Pod","metadata":5}', 2, "is damaged"),
    ],
)
def test_invalid_file_is_an_error_with_its_line(tmp_path: Path, text: bytes, line: int, why: str) -> None:
    path = tmp_path / "state"
    path.write_bytes(text)
    with pytest.raises(InputError, match=why) as refused:
        StateFile(path)
    assert (refused.value.file, refused.value.line) == (str(path), line)
    assert "--state-file" in str(refused.value)


def test_file_in_a_missing_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="its folder does not exist: create it"):
        StateFile(tmp_path / "none" / "state")


def test_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="Is a directory"):
        StateFile(tmp_path)


def test_damaged_definition_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "state"
    broken = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "spec": 5}
    path.write_bytes(HEAD + msgspec.json.encode(broken))
    with pytest.raises(InputError) as refused:
        StateFile(path)
    assert refused.value.line == 2
