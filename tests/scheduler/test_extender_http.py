"""Questions go over HTTP, with TLS as configured; whatever goes wrong on the way is one kind of error."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kframework.clock import run_virtual
from kframework.core.cycle.suspendable import ExtenderError
from kframework.errors import ConfigError
from kframework.scheduler.extender_http import HttpExtenderTransport
from tests.support.extenders import ExtenderServer, Reply, settings

TOO_LATE = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"


def ask(url: str, verb: str = "filter", question: object = None, times: int = 1, **fields: Any) -> Any:
    """Ask over a line of its own, and return the last answer."""

    async def main() -> bytes:
        line = HttpExtenderTransport(settings(urlPrefix=url, **fields))
        await line.start()
        try:
            for _ in range(times):
                answer = await line.send(verb, json.dumps(question).encode())
            return answer
        finally:
            await line.close()

    return json.loads(asyncio.run(main()))


def echo(question: Any) -> object:
    return {"echo": question}


@pytest.mark.parametrize("slashes", ["", "/", "//"])
def test_question_is_posted_to_its_verb(slashes: str) -> None:
    with ExtenderServer({"filter": echo}) as server:
        assert ask(server.url + slashes, question={"Pod": 1}) == {"echo": {"Pod": 1}}
        (request,) = server.requests
        assert (request.command, request.path) == ("POST", "/extend/filter")
        assert request.headers["Content-Type"] == "application/json"


def test_connection_is_used_again() -> None:
    with ExtenderServer({"filter": echo}) as server:
        ask(server.url, times=3)
        assert len({request.client_address for request in server.requests}) == 1


@pytest.mark.parametrize("status", [201, 204, 404, 500, 503])
def test_only_200_is_an_answer(status: int) -> None:
    with ExtenderServer({"filter": Reply(status, b"" if status == 204 else b"{}")}) as server:
        with pytest.raises(ExtenderError) as raised:
            ask(server.url + "/")
        assert str(raised.value) == f"failed filter with extender at URL {server.url}/filter, code {status}"


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirect_is_not_followed(status: int) -> None:
    with ExtenderServer({"filter": echo}) as elsewhere:
        moved = Reply(status, b"", location=f"{elsewhere.url}/filter")
        with ExtenderServer({"filter": moved}) as server, pytest.raises(ExtenderError, match=f"code {status}"):
            ask(server.url)
        assert not elsewhere.requests


def test_credentials_do_not_go_over_plain_http() -> None:
    with pytest.raises(ConfigError) as raised:
        HttpExtenderTransport(settings(urlPrefix="http://me:s3cret@far/x"))
    assert str(raised.value) == (
        "extenders: couldn't build extenders: http://me:xxxxx@far/x: "
        "refusing to send credentials over plain HTTP; use https://"
    )


def test_credentials_are_shown_to_the_extender_alone() -> None:
    with ExtenderServer({"filter": echo, "prioritize": Reply(500)}) as server:
        url = server.url.replace("://", "://me:s3cret@")
        ask(url)
        assert server.requests[0].headers["Authorization"] == "Basic bWU6czNjcmV0"
        with pytest.raises(ExtenderError) as raised:
            ask(url, "prioritize")
        assert str(raised.value).endswith(url.replace("s3cret", "xxxxx") + "/prioritize, code 500")


@pytest.mark.parametrize("runner", [asyncio.run, lambda main: run_virtual(lambda: main)])
def test_answer_has_its_time(runner: Callable[[Any], None]) -> None:
    server: ExtenderServer = ExtenderServer({"filter": lambda _: server.hang()})

    async def main() -> None:
        line = HttpExtenderTransport(settings(urlPrefix=server.url, httpTimeout="50ms"))
        await line.start()
        with pytest.raises(ExtenderError) as raised:
            await line.send("filter", b"{}")
        assert str(raised.value) == f'Post "{server.url}/filter": {TOO_LATE}'
        await line.close()

    with server:
        runner(main())


def test_body_that_never_ends_has_its_time_too() -> None:
    server = ExtenderServer({"filter": Reply(body=b"[", length=2)})
    with server, pytest.raises(ExtenderError, match="deadline"):
        ask(server.url, httpTimeout="50ms")


def test_answer_has_its_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kframework.scheduler.extender_http.MAX_RESPONSE_BYTES", 1000)
    with ExtenderServer({"filter": lambda _: "x" * 998, "prioritize": lambda _: "x" * 999}) as server:
        assert ask(server.url) == "x" * 998
        with pytest.raises(ExtenderError) as raised:
            ask(server.url, "prioritize")
        assert str(raised.value) == f'Post "{server.url}/prioritize": the answer is longer than 1000 bytes'
        # To echo a large question is no fault.
        assert ask(server.url, "prioritize", "y" * 499) == "x" * 999


def test_refused_connection_is_an_error() -> None:
    with ExtenderServer({}) as server:
        url = server.url
    with pytest.raises(ExtenderError) as raised:
        ask(url)
    address = url.split("/")[2]
    assert str(raised.value) == f'Post "{url}/filter": dial tcp {address}: connect: connection refused'


@pytest.mark.parametrize("url", ["", "nonsense", "ftp://x/", "http://", "http://["])
def test_invalid_url_is_an_error(url: str) -> None:
    with pytest.raises(ExtenderError, match=r'^Post "'):
        ask(url)


class Raw:
    """A server that answers each connection as given, request by request, and hangs up at the end.

    None is a request that is read and not answered.
    """

    def __init__(self, *connections: list[bytes | None]) -> None:
        self.connections = list(connections)
        self.accepted = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        replies = self.connections.pop(0) if self.connections else []
        for reply in replies:
            await reader.readuntil(b"\r\n\r\n")
            await reader.readexactly(2)
            writer.write(reply or b"")
        writer.close()
        await writer.wait_closed()

    def ask(self, times: int) -> list[bytes]:
        return asyncio.run(self._ask(times))

    async def _ask(self, times: int) -> list[bytes]:
        async with await asyncio.start_server(self.serve, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            line = HttpExtenderTransport(settings(urlPrefix=f"http://127.0.0.1:{port}"))
            await line.start()
            try:
                return [await line.send("filter", b"{}") for _ in range(times)]
            finally:
                await line.close()


OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


def test_connection_that_is_closed_before_the_answer_is_replaced_once() -> None:
    raw = Raw([OK, None], [OK])
    assert raw.ask(2) == [b"{}", b"{}"]
    assert raw.accepted == 2


@pytest.mark.parametrize("reply", [None, b"garbage\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}"])
def test_invalid_http_is_an_error(reply: bytes | None) -> None:
    with pytest.raises(ExtenderError, match=r'^Post "http://127.0.0.1:\d+/filter": '):
        Raw([reply], [reply]).ask(1)


class Certificates:
    """An authority of our own, and what it signed for server and client."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._make("authority")
        self._make("server", "-addext", "subjectAltName=DNS:extender.test")
        self._make("client")

    def _make(self, name: str, *more: str) -> None:
        command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
        command += [
            "-keyout",
            self.file(f"{name}.key"),
            "-out",
            self.file(f"{name}.crt"),
            "-subj",
            f"/CN={name}",
            *more,
        ]
        if name != "authority":
            command += ["-CA", self.file("authority.crt"), "-CAkey", self.file("authority.key")]
        subprocess.run(command, check=True, capture_output=True)

    def file(self, name: str) -> str:
        return str(self._folder / name)

    def data(self, name: str) -> str:
        return base64.b64encode((self._folder / name).read_bytes()).decode()

    def of_server(self, *, wants_client: bool = False) -> ssl.SSLContext:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(self.file("server.crt"), self.file("server.key"))
        if wants_client:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(self.file("authority.crt"))
        return context


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


def tls(certificates: Certificates, **fields: Any) -> dict[str, Any]:
    """Write TLS settings; what is named `*File` or `*Data` after its file."""
    made = {"File": certificates.file, "Data": certificates.data}
    return {
        key: made[key[-4:]](str(value)) if key[-4:] in made and value in FILES else value
        for key, value in fields.items()
    }


FILES = {"authority.crt", "server.crt", "client.crt", "client.key", "server.key"}
NAME = {"serverName": "extender.test"}
CLIENT = {"certData": "client.crt", "keyFile": "client.key"}


@pytest.mark.tool("openssl")
@pytest.mark.parametrize(
    ("fields", "config"),
    [
        ({"enableHTTPS": True}, None),
        ({}, {"insecure": True}),
        ({}, {"caFile": "authority.crt", **NAME}),
        ({"enableHTTPS": True}, {"caData": "authority.crt", **NAME}),
        ({"enableHTTPS": True}, {"caData": "authority.crt", "caFile": "server.key", **NAME}),
    ],
)
def test_tls_accepts_trusted_servers(
    certificates: Certificates, fields: dict[str, Any], config: dict[str, Any] | None
) -> None:
    if config is not None:
        fields = {**fields, "tlsConfig": tls(certificates, **config)}
    with ExtenderServer({"filter": echo}, tls=certificates.of_server()) as server:
        assert ask(server.url, **fields) == {"echo": None}


@pytest.mark.tool("openssl")
@pytest.mark.parametrize(
    "config",
    [None, {}, {"caFile": "authority.crt"}, {"caFile": "authority.crt", "serverName": "other.test"}, NAME, CLIENT],
)
def test_tls_refuses_untrusted_servers(certificates: Certificates, config: dict[str, Any] | None) -> None:
    fields: dict[str, Any] = {"tlsConfig": tls(certificates, **config)} if config is not None else {}
    with (
        ExtenderServer({"filter": echo}, tls=certificates.of_server()) as server,
        pytest.raises(ExtenderError, match="certificate verify failed"),
    ):
        ask(server.url, **fields)


@pytest.mark.tool("openssl")
@pytest.mark.parametrize(
    ("config", "let_in"),
    [
        ({"certFile": "client.crt", "keyFile": "client.key"}, True),
        ({"certData": "client.crt", "keyData": "client.key"}, True),
        ({"certData": "client.crt", "certFile": "server.key", "keyFile": "client.key"}, True),
        ({"certFile": "client.crt"}, False),
        ({}, False),
    ],
)
def test_client_shows_its_certificate(certificates: Certificates, config: dict[str, Any], let_in: bool) -> None:
    fields: dict[str, Any] = {"enableHTTPS": True, "tlsConfig": tls(certificates, **config)}
    with ExtenderServer({"filter": echo}, tls=certificates.of_server(wants_client=True)) as server:
        if let_in:
            assert ask(server.url, **fields) == {"echo": None}
        else:
            with pytest.raises(ExtenderError, match=r'^Post "https://'):
                ask(server.url, **fields)


@pytest.mark.tool("openssl")
@pytest.mark.parametrize(
    ("config", "reason"),
    [
        (
            {"insecure": True, "caFile": "authority.crt"},
            "specifying a root certificates file with the insecure flag is not allowed",
        ),
        ({"caFile": "/none/such.pem"}, "/none/such.pem: No such file or directory"),
        ({"keyFile": "/none/such.pem"}, "/none/such.pem: No such file or directory"),
        ({"caData": "eA=="}, "no start line"),
        ({"certFile": "client.crt", "keyFile": "server.key"}, "key values mismatch"),
    ],
)
def test_tls_settings_that_cannot_be_used(certificates: Certificates, config: dict[str, Any], reason: str) -> None:
    with pytest.raises(ConfigError) as raised:
        HttpExtenderTransport(settings(urlPrefix="https://x", tlsConfig=tls(certificates, **config)))
    assert str(raised.value).startswith("extenders: couldn't build extenders: tlsConfig of https://x: ")
    assert reason in str(raised.value)
