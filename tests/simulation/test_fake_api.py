"""A fake API beside a program answers over HTTP, and ends with it."""

from __future__ import annotations

import json
from urllib.error import URLError
from urllib.request import urlopen

import anyio.to_thread
import pytest

from kframework import ClusterError, FakeApi, InputError
from kframework.objects import Node
from kframework.testing import make_node


def names(url: str) -> list[str]:
    with urlopen(f"{url}/api/v1/nodes", timeout=10) as answer:
        return [each["metadata"]["name"] for each in json.load(answer)["items"]]


def test_it_serves_what_it_is_given_and_what_is_added() -> None:
    with FakeApi([make_node("a")]) as api:
        api.add(make_node("b"))
        assert names(api.url) == ["a", "b"] == [node.metadata.name for node in api.objects(Node)]
        assert api.url in api.kubeconfig.read_text()
        with pytest.raises(ClusterError, match="already exists"):
            api.add(make_node("b"))
    assert not api.kubeconfig.exists()
    with pytest.raises(URLError):
        names(api.url)


@pytest.mark.blocks_loop  # its thread writes a kubeconfig when it begins
async def test_a_test_with_a_loop_may_use_it(fake_api: FakeApi) -> None:
    await anyio.to_thread.run_sync(fake_api.add, make_node("a"))
    assert await anyio.to_thread.run_sync(names, fake_api.url) == ["a"]


def test_what_keeps_it_from_beginning_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*given: object) -> None:
        raise OSError("no port is left")

    monkeypatch.setattr("kframework.simulation.fake_api.LocalCluster", refuse)
    with pytest.raises(OSError, match="no port is left"), FakeApi():
        pass


def test_it_serves_a_cluster_file() -> None:
    with FakeApi("examples/clusters/tiny.yaml") as api:
        assert names(api.url) == ["left", "right"]


def test_a_file_that_cannot_be_read_is_an_error_at_once() -> None:
    with pytest.raises(InputError, match=r"nowhere\.yaml"):
        FakeApi("nowhere.yaml")
