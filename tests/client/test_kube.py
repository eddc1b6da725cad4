"""Which cluster, and who we are to it: kubeconfigs, service accounts, and credentials that change."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from ssl import SSLContext
from time import monotonic
from typing import Any

import pytest
import yaml
from aiohttp import web

from kframework.client import login
from kframework.client.kube import ConnectionSettings, connect
from kframework.client.kube_transport import KubeTransport
from kframework.client.loopback import PLAIN_HTTP
from kframework.client.transport import Request
from kframework.errors import ClusterError, ConfigError
from tests.scheduler.test_extender_http import Certificates

GET = Request(method="GET", path="/version", timeout=10)


@pytest.fixture(autouse=True)
def _nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run as if there were no cluster and no kubeconfig on this machine."""
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT", "HTTPS_PROXY", "HTTP_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


def write(
    path: Path,
    user: Mapping[str, Any] | None = None,
    server: str = "https://s",
    cluster: Mapping[str, Any] | None = None,
) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    document = {
        "current-context": "x",
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "me"}}],
        "clusters": [{"name": "c", "cluster": {"server": server, **(cluster or {})}}],
        "users": [{"name": "me", "user": dict(user or {"token": "s3cret"})}],
    }
    path.write_text(yaml.safe_dump(document))
    return str(path)


def hosts(settings: ConnectionSettings) -> str:
    """Connect and tell where to."""

    async def main() -> str:
        transport = await connect(settings)
        await transport.close()
        return transport._host

    return asyncio.run(main())


def problem(settings: ConnectionSettings) -> str:
    with pytest.raises(ConfigError) as caught:
        hosts(settings)
    text = str(caught.value)
    assert "s3cret" not in text
    assert "\n" not in text
    return text


@pytest.mark.tool("openssl")
def test_first_place_that_names_a_cluster_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    in_pod(tmp_path, monkeypatch, "10.0.0.1", "443", Certificates(tmp_path).file("authority.crt"))
    write(tmp_path / "home/.kube/config", server="https://default")
    monkeypatch.setenv("KUBECONFIG", write(tmp_path / "env", server="https://env"))
    flag = write(tmp_path / "flag", server="https://flag/")
    assert hosts(ConnectionSettings(kubeconfig=flag)) == "https://flag"
    assert hosts(ConnectionSettings()) == "https://env"
    monkeypatch.setenv("KUBECONFIG", "")
    assert hosts(ConnectionSettings()) == "https://10.0.0.1:443"
    assert hosts(ConnectionSettings(context="x")) == "https://default"
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST")
    assert hosts(ConnectionSettings()) == "https://default"


def test_server_goes_before_the_one_in_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert hosts(ConnectionSettings(server="https://other")) == "https://other"
    assert hosts(ConnectionSettings(server="https://other", kubeconfig=write(tmp_path / "flag"))) == "https://other"
    monkeypatch.setenv("KUBECONFIG", write(tmp_path / "env"))
    assert hosts(ConnectionSettings(server="https://other/")) == "https://other"
    assert problem(ConnectionSettings(server="other")) == (
        "the API server's address 'other' is not a URL; write it as https://host:6443"
    )


def in_pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host: str, port: str, authority: str) -> Path:
    """Pretend to run in a pod; return the file of its token."""
    account = tmp_path / "account"
    account.mkdir(exist_ok=True)
    token = account / "token"
    token.write_text("s3cret\n")
    (account / "ca.crt").write_text(Path(authority).read_text() if authority else "")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", host)
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", port)
    monkeypatch.setattr(login, "SERVICE_ACCOUNT", account)
    return token


def test_missing_cluster_is_a_config_error() -> None:
    assert "/home/.kube/config: no such file; name a kubeconfig with --kubeconfig" in problem(ConnectionSettings())


def test_pod_without_a_token_is_a_config_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    in_pod(tmp_path, monkeypatch, "10.0.0.1", "443", "").unlink()
    account = "/var/run/secrets/kubernetes.io/serviceaccount"
    assert problem(ConnectionSettings()) == f"{account}: cannot log in: there is no {tmp_path}/account/token"


def test_environments_proxy_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://proxy:1")
    monkeypatch.setenv("no_proxy", "near")
    assert [login._environment_proxy(f"http://{host}/x") for host in ("far", "near")] == ["http://proxy:1", None]
    assert (
        login._environment_proxy("http://127.0.0.1:1/x") is None
    )  # what this machine says to itself, no proxy is told
    monkeypatch.delenv("http_proxy")
    assert login._environment_proxy("http://far") is None


class Door:
    """A server that lets in who shows the right key, and notes what all others showed."""

    def __init__(self, key: str, tls: SSLContext | None = None) -> None:
        self.key = key
        self.shown: list[str | None] = []
        self.agents: set[str] = set()
        self.url = ""
        self._tls = tls

    async def handle(self, request: web.Request) -> web.Response:
        self.shown.append(request.headers.get("Authorization"))
        self.agents.add(request.headers["User-Agent"])
        return web.Response(status=200 if self.shown[-1] == self.key else 401)

    def visited(
        self, settings: Callable[[str], ConnectionSettings], visit: Callable[[KubeTransport], Awaitable[None]]
    ) -> None:
        """Open the door, connect and visit."""

        async def main() -> None:
            application = web.Application()
            application.router.add_route("*", "/{path:.*}", self.handle)
            runner = web.AppRunner(application, shutdown_timeout=0)
            await runner.setup()
            await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=self._tls).start()
            scheme = "https" if self._tls else "http"
            transport = await connect(settings(f"{scheme}://127.0.0.1:{runner.addresses[0][1]}"))
            try:
                await visit(transport)
            finally:
                await transport.close()
                await runner.cleanup()

        asyncio.run(main())


async def once(transport: KubeTransport) -> None:
    assert (await transport.send(GET)).status == 200


@pytest.mark.parametrize(
    ("user", "key"),
    [
        ({"token": "a b"}, "Bearer a b"),
        ({"username": "me", "password": "pw"}, "Basic bWU6cHc="),
        ({"token": "t\n"}, "Bearer t"),
    ],
)
def test_kubeconfig_user_is_authenticated(tmp_path: Path, user: dict[str, str], key: str) -> None:
    door = Door(key)
    door.visited(lambda url: ConnectionSettings(kubeconfig=write(tmp_path / "config", user, url)), once)
    assert door.shown == [key]
    (agent,) = door.agents
    assert agent.startswith("kframework/")


def test_requests_carry_the_user_agent(tmp_path: Path) -> None:
    door = Door("Bearer s3cret")
    door.visited(
        lambda url: ConnectionSettings(kubeconfig=write(tmp_path / "c", server=url), user_agent="me/leader"), once
    )
    assert door.agents == {"me/leader"}


def test_server_is_shown_the_credentials_of_the_file(tmp_path: Path) -> None:
    door = Door("Bearer s3cret")
    kubeconfig = write(tmp_path / "config", server="https://elsewhere")
    door.visited(lambda url: ConnectionSettings(kubeconfig=kubeconfig, server=url), once)
    assert door.shown == ["Bearer s3cret"]


def test_token_file_is_read_again(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("old\n")
    door = Door("Bearer new")

    async def visit(transport: KubeTransport) -> None:
        assert (await transport.send(GET)).status == 401
        token.write_text("new\n")
        await once(transport)
        await once(transport)

    door.visited(
        lambda url: ConnectionSettings(kubeconfig=write(tmp_path / "config", {"tokenFile": "token"}, url)), visit
    )
    assert door.shown == ["Bearer old", "Bearer old", "Bearer new", "Bearer new"]


def plugin(tmp_path: Path, *answers: object, status: int = 0) -> dict[str, object]:
    """Describe an exec plugin that gives these answers in turn; the last one repeats."""
    for number, answer in enumerate(answers):
        (tmp_path / f"answer{number}").write_text(json.dumps(answer) if not isinstance(answer, str) else answer)
    script = f"""
        cd {tmp_path}
        echo x >> runs
        number=$(($(wc -l < runs) - 1))
        [ -e answer$number ] || number={len(answers) - 1}
        cat answer$number
        [ {status} = 0 ] || echo "please log in" >&2
        exit {status}
    """
    return {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "sh", "args": ["-c", script]}}


def credential(token: str, seconds: float | None = None) -> dict[str, object]:
    status = {"token": token}
    if seconds is not None:
        status["expirationTimestamp"] = (datetime.now(UTC) + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}


@pytest.mark.parametrize("seconds", [None, 3600])
def test_plugin_runs_again_when_its_token_is_rejected(tmp_path: Path, seconds: float | None) -> None:
    door = Door("Bearer new")
    user = plugin(tmp_path, credential("old", seconds), credential("new", seconds))

    async def visit(transport: KubeTransport) -> None:
        await once(transport)
        await once(transport)

    door.visited(lambda url: ConnectionSettings(kubeconfig=write(tmp_path / "config", user, url)), visit)
    assert door.shown == ["Bearer old", "Bearer new", "Bearer new"]
    assert (tmp_path / "runs").read_text() == "x\n" * 2


@pytest.mark.parametrize(
    ("user", "period"),
    [
        ({"token": "a"}, float("inf")),
        ({"tokenFile": "token"}, 60),
        (None, float("inf")),
        (3600, 3300),
        (30, 10),
    ],
)
def test_credentials_are_renewed_before_they_expire(
    tmp_path: Path, user: dict[str, Any] | float | None, period: float
) -> None:
    """A number or None is a plugin whose token is valid for that time in seconds, or does not say."""
    (tmp_path / "token").write_text("a")
    began = monotonic()
    if not isinstance(user, dict):
        user = plugin(tmp_path, credential("a", user))

    async def main() -> float:
        transport = await connect(ConnectionSettings(kubeconfig=write(tmp_path / "config", user)))
        await transport.close()
        return transport._credentials.due - asyncio.get_running_loop().time()

    # Plugins tell the time in whole seconds, and to ask one takes a while on a busy machine.
    assert asyncio.run(main()) == pytest.approx(period, abs=2 + monotonic() - began)


def exec_(*command: str) -> dict[str, object]:
    return {"exec": {"apiVersion": "v1", "command": command[0], "args": [*command[1:]]}}


def oidc(config: dict[str, str]) -> dict[str, object]:
    return {"auth-provider": {"name": "oidc", "config": config}}


@pytest.mark.parametrize(
    ("user", "text"),
    [
        (exec_("no-such-plugin"), "exec: there is no no-such-plugin; install this plugin, or put it on the PATH"),
        (exec_("echo", "s3cret"), "exec: the plugin's output is not JSON; it must print an ExecCredential"),
        ({"exec": {"apiVersion": "v1", "token": "s3cret"}}, "exec: Object missing required field `command`"),
        (
            {"exec": {"apiVersion": "v1", "command": None}, "token": "s3cret"},
            "exec: Object missing required field `command`",
        ),
        ({"exec": "s3cret"}, "exec: expected a mapping, got a string"),
        (
            {"exec": {"apiVersion": "v1", "command": "a", "args": [1]}},
            "exec: args[0]: expected a string, got an integer",
        ),
        ({"tokenFile": "/none/such"}, "there is no /none/such"),
        (oidc({"id-token": "s3cret"}), "unexpected format"),
        (oidc({"refresh-token": "s3cret"}), "Invalid kube-config file. Expected key client-id in "),
    ],
)
def test_failed_login_is_a_config_error(
    tmp_path: Path, user: dict[str, Any], text: str, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    file = write(tmp_path / "config", user)
    assert problem(ConnectionSettings(kubeconfig=file)).startswith(f"{file}: cannot log in: {text}")
    assert not caplog.records
    assert capfd.readouterr() == ("", "")


def test_failing_plugin_is_a_config_error(tmp_path: Path) -> None:
    file = write(tmp_path / "config", plugin(tmp_path, "{}", status=3))
    assert (
        problem(ConnectionSettings(kubeconfig=file))
        == f"{file}: cannot log in: exec: the plugin returned 3: please log in"
    )


def test_plugin_is_killed_after_the_login_timeout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(login, "LOGIN_TIMEOUT", 0.5)
    pid = tmp_path / "pid"
    file = write(tmp_path / "config", exec_("sh", "-c", f"echo $$ > {pid}; exec sleep 30"))
    assert problem(ConnectionSettings(kubeconfig=file)) == f"{file}: cannot log in: logging in took longer than 0.5 s"
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)


@pytest.mark.parametrize(
    "user",
    [
        {"token": "s3cret"},
        {"tokenFile": "token"},
        {"username": "me", "password": "s3cret"},
        None,
    ],
)
def test_credentials_do_not_go_over_plain_http(tmp_path: Path, user: dict[str, Any] | None) -> None:
    """None is a plugin."""
    (tmp_path / "token").write_text("s3cret")
    file = write(tmp_path / "config", user or plugin(tmp_path, credential("s3cret")), "http://far:8080")
    line = 1 + next(number for number, text in enumerate(Path(file).read_text().splitlines()) if "server" in text)
    why = f"{PLAIN_HTTP}, or remove the user's credentials"
    assert problem(ConnectionSettings(kubeconfig=file)) == f"{file}:{line}: clusters[0].cluster.server: {why}"
    assert problem(ConnectionSettings(kubeconfig=file, server="http://far")) == f"--master: {why}"
    assert hosts(ConnectionSettings(kubeconfig=file, server="http://127.0.0.1:8080")) == "http://127.0.0.1:8080"


def test_plain_http_is_allowed_without_credentials(tmp_path: Path) -> None:
    assert hosts(ConnectionSettings(kubeconfig=write(tmp_path / "config", {"as": "me"}, "http://far"))) == "http://far"
    file = write(tmp_path / "config", {"as": "me"}, "http://me:s3cret@far")
    assert "clusters[0].cluster.server: refusing to send credentials" in problem(ConnectionSettings(kubeconfig=file))


def test_loopback_requests_bypass_the_proxy(tmp_path: Path) -> None:
    file = write(tmp_path / "config", server="http://localhost:1", cluster={"proxy-url": "http://proxy:3128"})
    assert "refusing to send credentials over plain HTTP" in problem(ConnectionSettings(kubeconfig=file))


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


TRUST = {"tls-server-name": "extender.test"}


@pytest.mark.tool("openssl")
@pytest.mark.parametrize("inline", [True, False])
def test_client_certificate_is_presented(tmp_path: Path, certificates: Certificates, inline: bool) -> None:
    def part(name: str, file: str) -> dict[str, str]:
        return {f"{name}-data": certificates.data(file)} if inline else {name: certificates.file(file)}

    user = part("client-certificate", "client.crt") | part("client-key", "client.key")
    cluster = part("certificate-authority", "authority.crt") | TRUST
    door = Door(None, certificates.of_server(wants_client=True))  # type: ignore[arg-type]  # no key is the key
    door.visited(lambda url: ConnectionSettings(kubeconfig=write(tmp_path / "config", user, url, cluster)), once)


@pytest.mark.tool("openssl")
def test_pod_uses_its_service_account(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, certificates: Certificates
) -> None:
    door = Door("Bearer new", certificates.of_server())

    def settings(url: str) -> ConnectionSettings:
        in_pod(tmp_path, monkeypatch, "127.0.0.1", url.rpartition(":")[2], certificates.file("authority.crt"))
        return ConnectionSettings()

    async def visit(transport: KubeTransport) -> None:
        transport._server_name = "extender.test"
        assert (await transport.send(GET)).status == 401
        (tmp_path / "account/token").write_text("new")
        await once(transport)

    door.visited(settings, visit)
    assert door.shown == ["Bearer s3cret"] * 2 + ["Bearer new"]


@pytest.mark.tool("openssl")
def test_untrusted_server_is_an_error(tmp_path: Path, certificates: Certificates) -> None:
    async def visit(transport: KubeTransport) -> None:
        with pytest.raises(ClusterError) as caught:
            await transport.send(GET)
        place = transport._host.removeprefix("https://")
        assert str(caught.value).startswith(f"GET /version: the certificate of {place} is not trusted (")
        assert str(caught.value).endswith("; see certificate-authority")

    door = Door("", certificates.of_server())
    door.visited(lambda url: ConnectionSettings(kubeconfig=write(tmp_path / "config", server=url)), visit)


@pytest.mark.tool("openssl")
def test_insecure_skip_tls_verify_accepts_any_certificate(tmp_path: Path, certificates: Certificates) -> None:
    door = Door("Bearer s3cret", certificates.of_server())
    insecure = {"insecure-skip-tls-verify": True}
    door.visited(lambda url: ConnectionSettings(kubeconfig=write(tmp_path / "config", None, url, insecure)), once)


def test_unusable_certificates_are_a_config_error(tmp_path: Path) -> None:
    file = write(tmp_path / "config", None, "https://s", {"certificate-authority-data": "bm9uZQ=="})
    assert problem(ConnectionSettings(kubeconfig=file)).startswith(f"{file}: cannot use its certificates: ")
    file = write(tmp_path / "config", None, "https://s", {"certificate-authority": "/none/such"})
    assert problem(ConnectionSettings(kubeconfig=file)) == f"{file}: cannot log in: there is no /none/such"
