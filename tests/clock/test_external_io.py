"""Operations outside the process pause virtual time while a task awaits them, whichever library runs them."""

from __future__ import annotations

import asyncio
import functools
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import anyio.to_thread
import httpx
import pytest

from kframework.clock import external_wait, run_virtual
from kframework.clock.external_io import SILENCE_TIMEOUT
from tests.support.slow_http_server import serve_slowly

Get = Callable[[str], Awaitable[str]]


@asynccontextmanager
async def with_aiohttp(port: int) -> AsyncIterator[Get]:
    async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session:

        async def get(path: str) -> str:
            async with session.get(path) as response:
                return await response.text()

        yield get


@asynccontextmanager
async def with_httpx(port: int) -> AsyncIterator[Get]:
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:

        async def get(path: str) -> str:
            return (await client.get(path)).text

        yield get


@asynccontextmanager
async def with_streams(port: int) -> AsyncIterator[Get]:
    """Speak HTTP by hand, over connections kept in a pool."""
    idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def get(path: str) -> str:
        reader, writer = idle.pop() if idle else await asyncio.open_connection("127.0.0.1", port)
        try:
            writer.write(f"GET {path} HTTP/1.1\r\n\r\n".encode())
            await reader.readuntil(b"\r\n\r\n")
            body = await reader.readexactly(4)
        except BaseException:
            writer.close()
            raise
        idle.append((reader, writer))
        return body.decode()

    yield get
    for _, writer in idle:
        writer.close()
        await writer.wait_closed()


CLIENTS = pytest.mark.parametrize("client", [with_aiohttp, with_httpx, with_streams])


def run_with_ticking_task(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run this while another task has timers that are due soon."""

    async def tick() -> None:
        while True:  # noqa: ASYNC110  # there is nothing to wait for
            await asyncio.sleep(0.001)

    async def both() -> None:
        ticking = asyncio.ensure_future(tick())
        await asyncio.sleep(0)
        await main()
        ticking.cancel()

    run_virtual(both)


@CLIENTS
@pytest.mark.parametrize("path", ["/", "/slow"])
def test_time_is_paused_until_the_answer_arrives(client: Any, path: str) -> None:
    with serve_slowly() as port:

        async def main() -> None:
            async with client(port) as get:
                assert await get(path) == "1234"
                assert asyncio.get_running_loop().time() == 0.0

        run_with_ticking_task(main)


@CLIENTS
def test_idle_connection_does_not_pause_time(client: Any) -> None:
    with serve_slowly() as port:

        async def main() -> None:
            async with client(port) as get:
                for _ in range(3):
                    await get("/")
                    await asyncio.sleep(1000)

        began = time.monotonic()
        assert run_virtual(lambda: _timed(main)) == 3000.0
        assert time.monotonic() - began < SILENCE_TIMEOUT


async def _timed(main: Callable[[], Coroutine[Any, Any, None]]) -> float:
    await main()
    return asyncio.get_running_loop().time()


@CLIENTS
def test_idle_connection_is_as_good_as_a_new_one(client: Any) -> None:
    with serve_slowly() as port:

        async def main() -> None:
            async with client(port) as get:
                await get("/")
                await asyncio.sleep(1000)
                before = asyncio.get_running_loop().time()
                assert await get("/slow") == "1234"
                assert asyncio.get_running_loop().time() == before

        run_virtual(main)


@CLIENTS
@pytest.mark.parametrize("limit", [asyncio.timeout, external_wait])
def test_caller_without_an_answer_is_released_by_its_own_timeout(client: Any, limit: Any) -> None:
    with serve_slowly() as port:

        async def main() -> None:
            async with client(port) as get:
                with pytest.raises(TimeoutError):
                    async with limit(0.1):
                        await get("/never")

        began = time.monotonic()
        assert run_virtual(lambda: _timed(main)) == pytest.approx(0.1)
        assert 0.1 <= time.monotonic() - began < SILENCE_TIMEOUT


@pytest.mark.parametrize("patience", [asyncio.wait_for, None])
def test_timeout_holds_for_the_tasks_that_its_setter_awaits(patience: Any) -> None:
    with serve_slowly() as port:

        async def never(get: Get) -> None:
            async with asyncio.TaskGroup() as tasks:
                # Get is an Awaitable to its callers; here it is a coroutine function.
                tasks.create_task(get("/never"))  # type: ignore[arg-type]

        async def main() -> None:
            async with with_streams(port) as get:
                with pytest.raises(TimeoutError):
                    if patience is not None:
                        await patience(never(get), 0.1)
                    async with asyncio.timeout(0.1):
                        await asyncio.gather(never(get), never(get))

        began = time.monotonic()
        assert run_virtual(lambda: _timed(main)) == pytest.approx(0.1)
        assert time.monotonic() - began < SILENCE_TIMEOUT


@pytest.mark.parametrize(
    ("client", "error"),
    [
        (lambda port: httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=0.1), httpx.ReadTimeout),
        (
            lambda port: aiohttp.ClientSession(
                f"http://127.0.0.1:{port}", timeout=aiohttp.ClientTimeout(sock_read=0.1)
            ),
            aiohttp.SocketTimeoutError,
        ),
    ],
)
def test_timeouts_of_libraries_hold(client: Any, error: type[Exception]) -> None:
    with serve_slowly() as port:

        async def main() -> None:
            async with client(port) as session:
                with pytest.raises(error):
                    await session.get("/never")

        began = time.monotonic()
        assert run_virtual(lambda: _timed(main)) == pytest.approx(0.1)
        assert time.monotonic() - began < SILENCE_TIMEOUT


@CLIENTS
def test_only_the_waiting_tasks_own_timer_moves_time(client: Any) -> None:
    with serve_slowly() as port:

        async def main() -> None:
            async with client(port) as get, asyncio.timeout(10):
                for _ in range(5):
                    await get("/slow")
            assert asyncio.get_running_loop().time() == 0.0

        run_with_ticking_task(main)


@CLIENTS
def test_connection_that_breaks_off_is_an_error_at_once(client: Any) -> None:
    with serve_slowly() as port:

        async def main() -> None:
            async with client(port) as get:
                with pytest.raises((aiohttp.ClientError, httpx.HTTPError, asyncio.IncompleteReadError)):
                    await get("/half")

        assert run_virtual(lambda: _timed(main)) == 0.0


@CLIENTS
def test_many_questions_at_once_are_answered_at_one_instant(client: Any) -> None:
    with serve_slowly() as port:

        async def main() -> None:
            async with client(port) as get:
                answers = await asyncio.gather(*(get("/slow") for _ in range(50)))
                assert set(answers) == {"1234"}
                assert asyncio.get_running_loop().time() == 0.0

        run_with_ticking_task(main)


def test_stream_that_falls_silent_holds_time_up_no_longer(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("kframework.clock.external_io.SILENCE_TIMEOUT", 0.05)
    with serve_slowly() as port:

        async def main() -> None:
            async with with_aiohttp(port) as get:
                stream = asyncio.ensure_future(get("/stream"))
                await asyncio.sleep(3600)
                stream.cancel()

        with caplog.at_level(logging.WARNING):
            assert run_virtual(lambda: _timed(main)) == 3600.0
        expected = f"virtual time moves on: gave up waiting for the connection to ('127.0.0.1', {port})"
        assert caplog.messages == [expected]


def test_operation_without_a_timeout_is_abandoned(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("kframework.clock.external_io.Operation.__init__.__defaults__", (0.05,), raising=False)
    with serve_slowly() as port:

        async def main() -> None:
            async with with_streams(port) as get:
                stuck = asyncio.ensure_future(get("/never"))
                await asyncio.sleep(3600)
                stuck.cancel()

        with caplog.at_level(logging.WARNING):
            assert run_virtual(lambda: _timed(main)) == 3600.0
        assert len(caplog.messages) == 1


@pytest.mark.parametrize("in_thread", [asyncio.to_thread, anyio.to_thread.run_sync])
def test_time_is_paused_while_a_thread_works(in_thread: Any) -> None:
    async def main() -> None:
        async with asyncio.timeout(10):
            await in_thread(time.sleep, 0.03)
        assert asyncio.get_running_loop().time() == 0.0

    run_with_ticking_task(main)


def test_thread_that_no_task_awaits_does_not_pause_time() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        job = loop.run_in_executor(None, time.sleep, 0.05)
        await asyncio.sleep(10)
        assert not job.done()
        await job
        assert loop.time() == 10.0

    run_virtual(main)


def test_time_is_paused_while_a_subprocess_is_read() -> None:
    async def main() -> None:
        process = await asyncio.create_subprocess_exec("sh", "-c", "sleep 0.02; echo hi", stdout=-1)
        assert process.stdout is not None
        assert await process.stdout.read() == b"hi\n"
        assert asyncio.get_running_loop().time() == 0.0
        await process.wait()

    run_with_ticking_task(main)


@pytest.mark.parametrize("path", ["tcp", "unix"])
def test_connection_within_the_process_does_not_pause_time(path: str, tmp_path: Any) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        await asyncio.sleep(5)
        writer.write(b"late\n")
        writer.close()

    async def main() -> None:
        if path == "tcp":
            server = await asyncio.start_server(answer, "127.0.0.1", 0)
            open_connection = functools.partial(asyncio.open_connection, *server.sockets[0].getsockname())
        else:
            server = await asyncio.start_unix_server(answer, tmp_path / "s")
            open_connection = functools.partial(asyncio.open_unix_connection, tmp_path / "s")
        async with server:
            reader, writer = await open_connection()
            writer.write(b"hello\n")
            assert await reader.read() == b"late\n"
            writer.close()
            await writer.wait_closed()

    began = time.monotonic()
    assert run_virtual(lambda: _timed(main)) == 5.0
    assert time.monotonic() - began < SILENCE_TIMEOUT


def test_anyio_server_within_the_process_does_not_pause_time() -> None:
    async def answer(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            await stream.receive()
            await anyio.sleep(5)
            await stream.send(b"late")

    async def main() -> None:
        listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
        port = listener.extra(anyio.abc.SocketAttribute.local_port)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(listener.serve, answer)
            async with await anyio.connect_tcp("127.0.0.1", port) as stream:
                await stream.send(b"hello")
                assert await stream.receive() == b"late"
            tasks.cancel_scope.cancel()
        await listener.aclose()

    began = time.monotonic()
    assert run_virtual(lambda: _timed(main)) == 5.0
    assert time.monotonic() - began < SILENCE_TIMEOUT
