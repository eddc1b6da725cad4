"""Lists are requested before their reader is there, and it reads what it would have read without that."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine

import pytest

from kframework.client import early_lists as early
from kframework.client.early_lists import early_lists
from kframework.client.reflector import UNENDED_PODS
from kframework.client.transport import Request, Response, Transport, TransportLayer
from kframework.client.wire import list_pages
from kframework.clock import run_virtual
from kframework.errors import ClusterError
from kframework.objects import Node, Pod, Service, kind_of
from tests.client.scripted import NO_ANSWER, listed, refused, some

NODES, PODS = "/api/v1/nodes", "/api/v1/pods"


class Pages(TransportLayer):
    """Serves lists of three pages, each after a second; `answers` are given instead, once each."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, str]] = []
        self.under_way = 0
        self.answers: dict[tuple[str, str], Response | ClusterError] = {}

    async def send(self, request: Request) -> Response:
        query = dict(request.query)
        token = query.get("continue", "")
        self.requests.append((request.path, token))
        self.under_way += 1
        try:
            await asyncio.sleep(1)
        finally:
            self.under_way -= 1
        answer = self.answers.pop((request.path, token), None)
        if isinstance(answer, ClusterError):
            raise answer
        name = f"{token or 0}{query.get('fieldSelector', '')[-6:]}"
        following = {"": "1", "1": "2"}.get(token, "") if "limit" in query else ""
        return answer or listed(5, some(name, 1), following=following)


async def read(transport: Transport, struct: type[Node | Pod | Service] = Node, limit: int = 1) -> list[str]:
    selection = UNENDED_PODS if struct is Pod else ()
    pages = list_pages(transport, kind_of(struct), limit, selection=selection)
    return [item.metadata.name async for page in pages for item in page.items]


def run(main: Callable[[Pages], Coroutine[object, object, None]]) -> Pages:
    server = Pages()
    run_virtual(lambda: main(server))
    assert not server.under_way
    return server


def test_pages_are_requested_once_before_they_are_read() -> None:
    async def main(server: Pages) -> None:
        async with early_lists(server, 1) as transport:
            await asyncio.sleep(10)
            assert sorted(server.requests) == [(path, token) for path in (NODES, PODS) for token in ("", "1", "2")]
            began = asyncio.get_running_loop().time()
            assert await read(transport) == ["0", "1", "2"]
            assert await read(transport, Pod) == ["0Failed", "1Failed", "2Failed"]
            assert asyncio.get_running_loop().time() == began

    assert len(run(main).requests) == 6


def test_reader_may_come_at_any_time() -> None:
    async def main(server: Pages) -> None:
        for seconds in (0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0):
            async with early_lists(server, 1) as transport:
                await asyncio.sleep(seconds)
                assert await read(transport) == ["0", "1", "2"]

    assert run(main).requests.count((NODES, "1")) == 7


def test_other_reader_gets_its_own_list() -> None:
    async def main(server: Pages) -> None:
        async with early_lists(server, 1) as transport:
            await asyncio.sleep(1.5)
            assert await read(transport, limit=0) == ["0"]
            assert await read(transport) == ["0", "1", "2"]

    assert run(main).requests.count((NODES, "")) == 3


def test_other_kinds_and_later_lists_are_requested_when_they_are_read() -> None:
    async def main(server: Pages) -> None:
        async with early_lists(server, 1) as transport:
            assert await read(transport, Service) == ["0", "1", "2"]
            assert await read(transport) == await read(transport) == ["0", "1", "2"]

    assert run(main).requests.count((NODES, "2")) == 2


def test_two_readers_read_everything() -> None:
    async def main(server: Pages) -> None:
        async with early_lists(server, 1) as transport:
            first, second = await asyncio.gather(read(transport), read(transport))
            assert first == second == ["0", "1", "2"]

    run(main)


@pytest.mark.parametrize("answer", [NO_ANSWER, refused(403), refused(410, "Expired")])
def test_failure_is_the_readers(answer: Response | ClusterError) -> None:
    async def main(server: Pages) -> None:
        server.answers[NODES, "1"] = answer
        async with early_lists(server, 1) as transport:
            await asyncio.sleep(5)
            with pytest.raises(ClusterError):
                await read(transport)
            assert await read(transport) == ["0", "1", "2"]

    run(main)


def test_deferred_page_is_requested_again() -> None:
    async def main(server: Pages) -> None:
        server.answers[NODES, "1"] = refused(429, retry_after="3")
        async with early_lists(server, 1) as transport:
            assert await read(transport) == ["0", "1", "2"]

    assert run(main).requests.count((NODES, "1")) == 2


def test_leaving_ends_requests_under_way() -> None:
    async def main(server: Pages) -> None:
        async with early_lists(server, 1):
            await asyncio.sleep(1.5)
        await asyncio.sleep(0)
        assert not server.under_way

    assert run(main).requests == [(NODES, ""), (PODS, ""), (NODES, "1"), (PODS, "1")]


def test_cancelled_reader_ends_its_request() -> None:
    async def main(server: Pages) -> None:
        async with early_lists(server, 1) as transport:
            reading = asyncio.create_task(read(transport))
            await asyncio.sleep(1.5)
            reading.cancel()
            await asyncio.wait((reading,))
            await asyncio.sleep(10)
            assert (NODES, "2") not in server.requests

    run(main)


def test_pages_without_a_reader_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(early, "MAX_WAITING_BYTES", 0)

    async def main(server: Pages) -> None:
        async with early_lists(server, 1) as transport:
            await asyncio.sleep(10)
            assert server.requests == [(NODES, ""), (PODS, "")]
            assert await read(transport) == ["0", "1", "2"]

    assert run(main).requests.count((NODES, "1")) == 1
