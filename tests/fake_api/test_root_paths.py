"""What a server has beside its APIs."""

from __future__ import annotations

import pytest

from kframework.clock import VirtualTimeLoop
from kframework.process.http.health import PLAIN
from tests.fake_api.serving import Served


@pytest.fixture(scope="module")
def anyio_backend() -> object:
    return "asyncio", {"loop_factory": VirtualTimeLoop}


READY = """\
[+]ping ok
[+]log ok
[+]etcd excluded: ok
[+]etcd-readiness ok
[+]informer-sync ok
[+]shutdown ok
readyz check passed
"""


@pytest.mark.parametrize(
    ("path", "query", "text"),
    [
        *((f"/{endpoint}", {}, "ok") for endpoint in ("healthz", "livez", "readyz")),
        ("/livez", {"verbose": ""}, "[+]ping ok\n[+]log ok\n[+]etcd ok\nlivez check passed\n"),
        ("/readyz", {"verbose": "", "exclude": "etcd"}, READY),
        ("/readyz/informer-sync", {"verbose": ""}, "ok"),
    ],
)
async def test_health(path: str, query: dict[str, str], text: str) -> None:
    response = await Served().send("GET", path, **query)
    assert (response.status, response.body.decode(), response.headers) == (200, text, PLAIN)


async def test_the_paths_that_there_are() -> None:
    served = Served()
    for path in ("/", "/index.html"):
        paths = (await served.ask("GET", path))["paths"]
        assert paths == sorted(paths)
        assert {"/api/v1", "/apis/apps", "/apis/apps/v1", "/readyz/etcd", "/version"}.issubset(paths)
    for path in paths:
        assert (await served.send("GET", path)).status == 200, path


@pytest.mark.parametrize(
    "path",
    ["/nonsense", "/readyz/", "/livez/informer-sync", "/apis/example.dev", "/apis/example.dev/v1/things", "/apis/x/v"],
)
async def test_where_there_is_nothing(path: str) -> None:
    response = await Served().send("GET", path)
    assert (response.status, response.body, response.headers) == (404, b"404 page not found\n", PLAIN)


@pytest.mark.parametrize("path", ["/api/v2", "/api/v1/things", "/apis/apps/v9", "/apis/apps/v1/things"])
async def test_where_there_is_nothing_in_a_group_of_kubernetes(path: str) -> None:
    unknown = (404, "NotFound", "the server could not find the requested resource")
    assert await Served().refused("GET", path) == unknown
