"""Over HTTP a scheduler says whether it is well, and by which configuration it works, in kube-scheduler's words."""

from __future__ import annotations

import asyncio
import json
import ssl
import subprocess
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from kframework.config.configuration import Configuration
from kframework.config.load import parse
from kframework.config.show import effective, effective_options
from kframework.core.runtime.registry import load_in_tree_args
from kframework.errors import ConfigError
from kframework.process.http import endpoints
from kframework.process.http.endpoints import (
    Certificate,
    Listener,
    configz_route,
    health_routes,
    scheduler_routes,
    serve,
)
from kframework.process.http.health import Check

FREE_PORT = Listener(port=0)


class Answer(NamedTuple):
    status: int
    text: str
    content_type: str
    sniffing: str | None


@asynccontextmanager
async def asking() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


async def get(routes: Sequence[web.RouteDef], *paths: str) -> list[Answer]:
    async with serve(routes, FREE_PORT) as url, asking() as session:
        return [await fetched(session, url + path) for path in paths]


async def fetched(session: aiohttp.ClientSession, url: str, **options: Any) -> Answer:
    async with session.get(url, **options) as response:
        headers = response.headers
        return Answer(
            response.status, await response.text(), headers["Content-Type"], headers.get("X-Content-Type-Options")
        )


def checks(**problems: str | None) -> list[Check]:
    return [Check(name.replace("_", "-"), lambda problem=problem: problem) for name, problem in problems.items()]  # type: ignore[misc]  # a default binds the loop's


WELL = checks(ping=None, shutdown=None)
ILL = checks(ping=None, sched_handler_sync="handlers are not fully synchronized", log=None)


async def test_healthy_server_answers_ok() -> None:
    query = "?verbose&exclude=ping&exclude=b%22"
    together, alone = await get(health_routes("readyz", WELL), f"/readyz{query}", "/readyz/ping")
    text = """\
[+]ping excluded: ok
[+]shutdown ok
warn: some health checks cannot be excluded: no matches for "b\\""
readyz check passed
"""
    assert together == (200, text, "text/plain; charset=utf-8", "nosniff")
    assert alone == (200, "ok", "text/plain; charset=utf-8", "nosniff")


async def test_unhealthy_server_names_the_failed_check() -> None:
    told: list[tuple[str, str, str | None]] = []
    routes = health_routes("readyz", ILL, lambda *check: told.append(check))
    together, alone = await get(routes, "/readyz?exclude=log", "/readyz/sched-handler-sync")
    text = "[+]ping ok\n[-]sched-handler-sync failed: reason withheld\n[+]log excluded: ok\nreadyz check failed\n"
    assert together == (500, text, "text/plain; charset=utf-8", "nosniff")
    why = "internal server error: handlers are not fully synchronized\n"
    assert alone == (500, why, "text/plain; charset=utf-8", "nosniff")
    assert told == [("readyz", "ping", None), ("readyz", "sched-handler-sync", "handlers are not fully synchronized")]


async def test_unknown_path_is_not_found() -> None:
    answers = await get(health_routes("readyz", WELL), "/", "/readyz/", "/readyz/unheard-of", "/healthz")
    assert [answer.status for answer in answers] == [404] * 4


class _Scheduler:
    """What the endpoints ask of a scheduler."""

    def __init__(self) -> None:
        self.is_synced = True
        self.is_stopping = False
        self.lease_problem: str | None = None
        self.plugin: str | None = None
        self.right: str | None = None

    def routes(self, *, elects: bool) -> list[web.RouteDef]:
        return scheduler_routes(
            parse("kind: KubeSchedulerConfiguration\napiVersion: kubescheduler.config.k8s.io/v1\n"),
            synced=lambda: self.is_synced,
            starting=lambda: self.plugin,
            stopping=lambda: self.is_stopping,
            election=(lambda: self.lease_problem) if elects else None,
            authorization=lambda: self.right,
        )


@pytest.mark.parametrize(
    ("elects", "healthy", "ready"),
    [
        (
            True,
            ["leaderElection"],
            ["leaderElection", "authorization", "shutdown", "plugins-started", "sched-handler-sync"],
        ),
        (False, ["ping"], ["authorization", "shutdown", "plugins-started", "sched-handler-sync"]),
    ],
)
async def test_checks_are_those_of_kube_scheduler(elects: bool, healthy: list[str], ready: list[str]) -> None:
    paths = [f"/{name}?verbose" for name in ("healthz", "livez", "readyz")]
    texts = [answer.text for answer in await get(_Scheduler().routes(elects=elects), *paths)]
    assert texts == [
        "".join(f"[+]{check} ok\n" for check in checks) + f"{name} check passed\n"
        for name, checks in (("healthz", healthy), ("livez", ["ping"]), ("readyz", ready))
    ]


async def test_readyz_names_missing_rights_and_plugins_that_have_not_started() -> None:
    scheduler = _Scheduler()
    scheduler.right = "no right to list nodes"
    scheduler.plugin, scheduler.is_synced = "plugin Quota has been starting for 12 s", False
    (answer,) = await get(scheduler.routes(elects=False), "/readyz")
    assert (answer.status, answer.text) == (
        500,
        """\
[-]authorization failed: no right to list nodes
[+]shutdown ok
[-]plugins-started failed: plugin Quota has been starting for 12 s
[-]sched-handler-sync failed: reason withheld
readyz check failed
""",
    )


@pytest.mark.parametrize(
    ("state", "failing"),
    [
        ({"is_synced": False}, {"/readyz": "sched-handler-sync"}),
        ({"is_stopping": True}, {"/readyz": "shutdown"}),
        ({"right": "no right to list nodes"}, {"/readyz": "authorization"}),
        ({"lease_problem": "stale"}, {"/readyz": "leaderElection", "/healthz": "leaderElection"}),
    ],
)
async def test_failure_shows_on_the_endpoints_it_concerns(state: dict[str, Any], failing: dict[str, str]) -> None:
    scheduler = _Scheduler()
    vars(scheduler).update(state)
    paths = ["/healthz", "/livez", "/readyz"]
    answers = dict(zip(paths, await get(scheduler.routes(elects=True), *paths), strict=True))
    assert {path for path in paths if answers[path].status == 500} == set(failing)
    for path, check in failing.items():
        assert f"[-]{check} failed" in answers[path].text


def configuration(text: str) -> Configuration:
    return parse(f"apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n{text}")


async def test_configz_shows_the_effective_configuration() -> None:
    shown = configuration("parallelism: 3\n")
    (answer,) = await get([configz_route(shown)], "/configz")
    assert answer.status == 200
    assert (answer.content_type, answer.sniffing) == ("application/json; charset=utf-8", "nosniff")
    assert json.loads(answer.text) == {
        "componentconfig": effective(shown, load_in_tree_args(shown)),
        "kframework": effective_options(shown),
    }


async def test_configz_shows_our_own_options() -> None:
    options = "---\napiVersion: kframework.dev/v1\nkind: KFrameworkConfiguration\nseed: 7\n"
    (answer,) = await get([configz_route(configuration(options))], "/configz")
    assert json.loads(answer.text)["kframework"]["seed"] == 7


async def test_configz_keeps_private_keys() -> None:
    tls = "{certData: Y2VydA==, keyData: c2VjcmV0}"
    text = f"extenders: [{{urlPrefix: 'https://me:c2VjcmV0@x', filterVerb: f, tlsConfig: {tls}}}]\n"
    (answer,) = await get([configz_route(configuration(text))], "/configz")
    (extender,) = json.loads(answer.text)["componentconfig"]["extenders"]
    assert extender["tlsConfig"] == {"certData": "Y2VydA==", "keyData": "--- REDACTED ---"}
    assert "c2VjcmV0" not in answer.text


async def test_more_routes_may_be_given() -> None:
    async def metrics(request: web.Request) -> web.Response:
        return web.Response(text="scheduler_pending_pods 3\n")

    answers = await get([*health_routes("livez", WELL), web.get("/metrics", metrics)], "/metrics", "/livez")
    assert [answer.text for answer in answers] == ["scheduler_pending_pods 3\n", "ok"]


async def test_large_body_is_refused() -> None:
    async def read(request: web.Request) -> web.Response:
        return web.Response(text=str(len(await request.read())))

    async with serve([web.post("/", read)], FREE_PORT) as url, asking() as session:
        sizes = (endpoints.MAX_BODY_BYTES, endpoints.MAX_BODY_BYTES + 1)
        answers = [await (await session.post(url, data=b"x" * size)).text() for size in sizes]
    assert answers[0] == str(endpoints.MAX_BODY_BYTES)
    assert "exceeded" in answers[1]


@pytest.fixture
def crowded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoints, "MAX_REQUESTS", 1)


@pytest.mark.usefixtures("crowded")
async def test_health_is_served_under_load() -> None:
    asked, go_on = asyncio.Event(), asyncio.Event()

    async def slow(request: web.Request) -> web.Response:
        asked.set()
        await go_on.wait()
        return web.Response(text="at last")

    routes = [*health_routes("livez", WELL), *health_routes("readyz", WELL), web.get("/slow", slow)]
    async with serve(routes, FREE_PORT) as url, asking() as session:
        first = asyncio.create_task(fetched(session, f"{url}/slow"))
        await asked.wait()
        second = await fetched(session, f"{url}/slow")
        assert (second.status, second.text) == (503, "too many requests, please try again later\n")
        assert [(await fetched(session, url + path)).text for path in ("/livez", "/readyz/ping")] == ["ok", "ok"]
        go_on.set()
        assert (await first).text == "at last"
        assert (await fetched(session, f"{url}/slow")).text == "at last"


@pytest.mark.parametrize(
    ("method", "remote", "status"),
    [
        ("DELETE", "127.0.0.1", 200),
        ("DELETE", "::1", 200),
        ("DELETE", "10.0.0.7", 403),
        ("POST", "10.0.0.7", 403),
        ("GET", "10.0.0.7", 200),
        ("HEAD", "10.0.0.7", 200),
    ],
)
async def test_remote_writes_are_refused(method: str, remote: str, status: int) -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        return web.Response()

    request = make_mocked_request(method, "/metrics", headers={"Host": "scheduler"}).clone(remote=remote)
    answer = await endpoints._reject_remote_writes()(request, handler)
    assert answer.status == status


async def test_request_for_another_host_is_refused() -> None:
    async with serve(health_routes("livez", WELL), FREE_PORT) as url, asking() as session:
        answer = await fetched(session, f"{url}/livez", headers={"Host": "evil.example"})
    assert (answer.status, answer.text) == (421, "this port serves this machine only: use localhost\n")


async def test_requests_are_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("DEBUG"):
        await get(health_routes("livez", WELL), "/livez?token=secret")
    assert "secret" not in caplog.text


@pytest.mark.parametrize(("address", "prefix"), [("127.0.0.1", "http://127.0.0.1:"), ("::1", "http://[::1]:")])
async def test_url_names_the_served_address(address: str, prefix: str) -> None:
    async with serve(health_routes("livez", WELL), Listener(bind_address=address, port=0)) as url, asking() as session:
        assert url.startswith(prefix)
        assert (await fetched(session, f"{url}/livez")).text == "ok"


def test_only_this_machine_is_answered_by_default() -> None:
    assert Listener() == Listener(
        bind_address="127.0.0.1", port=10259, tls_cert_file="", tls_private_key_file="", delegation=None
    )


REMEDY = "choose another --bind-address or --secure-port, or --secure-port 0 for no endpoints"


async def refusal(listener: Listener) -> str:
    with pytest.raises(ConfigError) as error:
        async with serve([], listener):
            pass
    return str(error.value)


async def test_port_that_is_taken_is_an_error_with_its_remedy() -> None:
    async with serve([], FREE_PORT) as url:
        port = int(url.rpartition(":")[2])
        message = await refusal(Listener(port=port))
    assert message == f"cannot listen on 127.0.0.1:{port}: address already in use; {REMEDY}"


async def test_address_of_others_is_an_error_with_its_remedy() -> None:
    message = await refusal(Listener(bind_address="192.0.2.1"))
    assert message == f"cannot listen on 192.0.2.1:10259: cannot assign requested address; {REMEDY}"


async def test_pending_answer_is_finished() -> None:
    asked, go_on = asyncio.Event(), asyncio.Event()

    async def slow(request: web.Request) -> web.Response:
        asked.set()
        await go_on.wait()
        return web.Response(text="at last")

    async with asking() as session:
        async with serve([web.get("/", slow)], FREE_PORT) as url:
            answer = asyncio.create_task(fetched(session, url))
            await asked.wait()
            asyncio.get_running_loop().call_later(0.01, go_on.set)  # the server is closing by then, or not yet
        assert (await answer).text == "at last"


async def test_answer_that_never_comes_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoints, "SHUTDOWN_TIMEOUT", 0.05)
    asked = asyncio.Event()

    async def never(request: web.Request) -> web.Response:
        asked.set()
        await asyncio.get_running_loop().create_future()
        raise AssertionError

    async with asking() as session:
        async with serve([web.get("/", never)], FREE_PORT) as url:
            answer = asyncio.create_task(fetched(session, url))
            await asked.wait()
        with pytest.raises(aiohttp.ClientError):
            await answer


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("certificates")
    for key, password in (("key", ["-nodes"]), ("other", ["-nodes"]), ("locked", ["-passout", "pass:secret"])):
        subprocess.run(
            [
                *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", *password),
                *("-keyout", folder / f"{key}.pem", "-out", folder / f"{key}.crt"),
                *("-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"),
            ],
            check=True,
            capture_output=True,
        )
    return folder


@pytest.mark.tool("openssl")
async def test_certificate_turns_tls_on(certificates: Path) -> None:
    listener = Listener(
        port=0, tls_cert_file=str(certificates / "key.crt"), tls_private_key_file=str(certificates / "key.pem")
    )
    trusting = ssl.create_default_context(cafile=certificates / "key.crt")
    async with serve(health_routes("livez", WELL), listener) as url, asking() as session:
        assert url.startswith("https://127.0.0.1:")
        assert (await fetched(session, f"{url}/livez", ssl=trusting)).text == "ok"
        with pytest.raises(aiohttp.ClientError):
            await fetched(session, f"http{url.removeprefix('https')}/livez")


@pytest.mark.tool("openssl")
async def test_certificate_that_changes_is_shown_to_who_comes_next(
    certificates: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed, renewed = asyncio.Event(), asyncio.Event()

    async def reload_periodically(certificate: Certificate) -> None:
        await changed.wait()
        await asyncio.to_thread(certificate.renew)
        renewed.set()

    monkeypatch.setattr(Certificate, "reload_periodically", reload_periodically)
    certificate, key = tmp_path / "tls.crt", tmp_path / "tls.pem"
    certificate.write_bytes((certificates / "key.crt").read_bytes())
    key.write_bytes((certificates / "key.pem").read_bytes())
    listener = Listener(port=0, tls_cert_file=str(certificate), tls_private_key_file=str(key))
    first, second = (ssl.create_default_context(cafile=certificates / name) for name in ("key.crt", "other.crt"))
    async with serve(health_routes("livez", WELL), listener) as url, asking() as early, asking() as late:
        assert (await fetched(early, f"{url}/livez", ssl=first)).text == "ok"
        certificate.write_bytes((certificates / "other.crt").read_bytes())
        key.write_bytes((certificates / "other.pem").read_bytes())
        changed.set()
        await renewed.wait()
        assert (await fetched(late, f"{url}/livez", ssl=second)).text == "ok"
        assert (await fetched(early, f"{url}/livez", ssl=first)).text == "ok"  # over its old connection


@pytest.mark.tool("openssl")
@pytest.mark.parametrize(
    ("certificate", "key", "message"),
    [
        ("key.crt", "", "TLS needs both --tls-cert-file and --tls-private-key-file"),
        ("", "key.pem", "TLS needs both --tls-cert-file and --tls-private-key-file"),
        ("missing.crt", "key.pem", "cannot use the certificate {0}/missing.crt with the key {0}/key.pem: "),
        ("key.pem", "key.pem", "cannot use the certificate {0}/key.pem with the key {0}/key.pem: "),
        (
            "key.crt",
            "locked.pem",
            "cannot use the certificate {0}/key.crt with the key {0}/locked.pem: the key is encrypted",
        ),
    ],
)
async def test_certificate_that_is_of_no_use_is_an_error(
    certificates: Path, certificate: str, key: str, message: str
) -> None:
    listener = Listener(
        port=0,
        tls_cert_file=str(certificates / certificate) if certificate else "",
        tls_private_key_file=str(certificates / key) if key else "",
    )
    assert (await refusal(listener)).startswith(message.format(certificates))
