"""A server beside the test, in a thread and on a loop of its own: it answers late, in part, over and over, or never."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from random import Random

#: How long the server lets its clients wait at most, in seconds.
LATE = 0.03


@contextmanager
def serve_slowly(seed: int = 0) -> Iterator[int]:
    """Serve HTTP on this port of the loopback, with delays drawn by the seed.

    `/` answers, `/slow` byte by byte, `/half` hangs up in the middle, `/stream` begins and says no more, `/never` does
    not answer at all.
    """
    random = Random(seed)
    with _serve_in_thread(lambda reader, writer: _serve(random, reader, writer)) as port:
        yield port


async def _serve(random: Random, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while line := await reader.readline():
            path = line.split()[1].decode()
            while await reader.readline() != b"\r\n":
                pass
            await _answer(random, path, writer)
            if path in ("/never", "/stream"):
                await reader.read()
            if path == "/half":
                break
    except OSError:
        pass  # the other side hung up
    finally:
        writer.transport.abort()


async def _answer(random: Random, path: str, writer: asyncio.StreamWriter) -> None:
    if path == "/never":
        return
    await asyncio.sleep(random.uniform(0, LATE))
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n")
    if path == "/":
        writer.write(b"1234")
    for byte in {"/half": b"1", "/slow": b"1234"}.get(path, b""):
        await asyncio.sleep(random.uniform(0, LATE))
        writer.write(bytes([byte]))


@contextmanager
def _serve_in_thread(serve: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]) -> Iterator[int]:
    ports: list[int] = []
    ready = threading.Event()
    loop = asyncio.new_event_loop()
    over = asyncio.Event()

    async def main() -> None:
        connections: list[asyncio.Future[None]] = []

        def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            connections.append(asyncio.ensure_future(serve(reader, writer)))

        server = await asyncio.start_server(take, "127.0.0.1", 0)
        ports.append(server.sockets[0].getsockname()[1])
        ready.set()
        await over.wait()
        server.close()
        for connection in connections:
            connection.cancel()
        await asyncio.gather(*connections, return_exceptions=True)
        await asyncio.sleep(0)  # what was aborted is closed in the next turn

    thread = threading.Thread(target=loop.run_until_complete, args=(main(),))
    thread.start()
    ready.wait()
    try:
        yield ports[0]
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join()
        loop.close()
