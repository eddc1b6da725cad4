"""The API of a cluster, as a test asks it, follows it, and listens in on those who write to it over plain HTTP."""

from __future__ import annotations

import json
import re
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit

import yaml

from tests.end_to_end.processes import DEADLINE

__all__ = ["Api", "Followed", "Tapped", "tapped"]

#: A JSON document of the API.
Json = dict[str, Any]

_LINE = re.compile(rb"(GET|POST|PUT|PATCH|DELETE) (\S+) HTTP/1\.1\r\n")


class Api:
    """The API server that a kubeconfig names."""

    def __init__(self, kubeconfig: Path) -> None:
        config = yaml.safe_load(kubeconfig.read_text())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        self.address: str = urlsplit(cluster["server"]).netloc
        authority = cluster.get("certificate-authority")
        self._tls = ssl.create_default_context(cafile=authority) if authority else None
        self._headers = {"Authorization": f"Bearer {user['token']}"} if "token" in user else {}

    def create(self, path: str, *objects: Json) -> None:
        """Create objects."""
        with closing(self._connection(DEADLINE)) as connection:
            for each in objects:
                self._ask(connection, "POST", path, each)

    def ask(self, method: str, path: str, body: Json | None = None) -> Json:
        """Send a request and return the answer; it must succeed."""
        with closing(self._connection(DEADLINE)) as connection:
            return self._ask(connection, method, path, body)

    def items(self, path: str) -> list[Json]:
        """List a collection."""
        items: list[Json] = self.ask("GET", path)["items"]
        return items

    def is_ready(self) -> bool:
        """Return whether there is a server, and it is ready."""
        with closing(self._connection(DEADLINE)) as connection, suppress(OSError, HTTPException):
            connection.request("GET", "/readyz", headers=self._headers)
            return connection.getresponse().status == 200
        return False

    def follow(self, path: str, selector: str = "") -> Followed:
        """Follow a collection, or what a field selector chooses of it."""
        connection = self._connection(None)
        connection.request("GET", f"{path}?watch=true&fieldSelector={selector}", headers=self._headers)
        return Followed(connection)

    def _connection(self, timeout: float | None) -> HTTPConnection:
        if self._tls is None:
            return HTTPConnection(self.address, timeout=timeout)
        return HTTPSConnection(self.address, timeout=timeout, context=self._tls)

    def _ask(self, connection: HTTPConnection, method: str, path: str, body: Json | None) -> Json:
        headers = {**self._headers, "Content-Type": "application/json"}
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        response = connection.getresponse()
        answer = response.read()
        assert response.status < 300, answer
        read: Json = json.loads(answer)
        return read


class Followed:
    """Every version of the objects of a collection, in order, as a watch from the start tells them."""

    def __init__(self, connection: HTTPConnection) -> None:
        #: As they were told: the type of each change, and the object.
        self.changes: list[Json] = []
        self._grown = threading.Condition()
        self._connection = connection
        self._reader = threading.Thread(target=self._read)

    def __enter__(self) -> Followed:
        self._reader.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._connection.sock is not None
        with suppress(OSError):  # the server has gone before
            self._connection.sock.shutdown(socket.SHUT_RDWR)
        self._reader.join()
        self._connection.close()

    @property
    def versions(self) -> list[Json]:
        """The objects of all changes."""
        return [change["object"] for change in self.changes]

    def until(self, happened: Callable[[list[Json]], object]) -> None:
        """Wait until the versions so far say that something has happened."""
        with self._grown:
            assert self._grown.wait_for(lambda: happened(self.versions), DEADLINE), self.versions[-3:]

    def _read(self) -> None:
        with self._connection.getresponse() as lines:
            for line in lines:
                with self._grown:
                    self.changes.append(json.loads(line))
                    self._grown.notify_all()


class Tapped:
    """A way to an API server on which all requests are noted, as method and path."""

    def __init__(self, address: str, listener: socket.socket) -> None:
        self.requests: list[tuple[str, str]] = []
        self.address: str = "{}:{}".format(*listener.getsockname())
        host, _, port = address.partition(":")
        self._server = host, int(port)
        self._listener = listener

    def serve(self) -> None:
        """Pass everything on, both ways, until the listener is closed."""
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(self._server)
                threading.Thread(target=self._pass_on, args=(client, server, self._note), daemon=True).start()
                threading.Thread(target=self._pass_on, args=(server, client, lambda piece: None), daemon=True).start()

    def writes(self) -> list[str]:
        """List the requests so far that bind or change pods."""
        return [f"{method} {path}" for method, path in self.requests if method != "GET" and "/pods/" in path]

    def _note(self, piece: bytes) -> None:
        self.requests += [(method.decode(), path.decode()) for method, path in _LINE.findall(piece)]

    def _pass_on(self, source: socket.socket, target: socket.socket, note: Callable[[bytes], None]) -> None:
        with suppress(OSError):
            while piece := source.recv(1 << 16):
                note(piece)
                target.sendall(piece)
        for each in (source, target):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()


@contextmanager
def tapped(kubeconfig: Path, copy: Path) -> Iterator[Tapped]:
    """Tap the way to the API server of a kubeconfig; the copy leads over the tap."""
    address = Api(kubeconfig).address
    with socket.create_server(("127.0.0.1", 0)) as listener:
        tap = Tapped(address, listener)
        copy.write_text(kubeconfig.read_text().replace(address, tap.address))
        server = threading.Thread(target=tap.serve)
        server.start()
        try:
            yield tap
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            server.join()
