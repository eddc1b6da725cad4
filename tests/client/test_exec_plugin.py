"""Exec plugins are run as client-go runs them."""

from __future__ import annotations

import asyncio
import json
import os
from base64 import b64encode
from collections.abc import Mapping
from pathlib import Path

import pytest

from kframework.client.exec_plugin import ExecCredential, configure_credential, run_plugin
from kframework.client.kubeconfig import KubeconfigEntry
from kframework.client.login import ClientConfiguration, LoginError
from kframework.config.document import Json

V1 = "client.authentication.k8s.io/v1"


def answer(**status: object) -> str:
    return json.dumps({"apiVersion": V1, "kind": "ExecCredential", "status": status})


def run(
    folder: Path, command: str, *args: Json, cluster: Mapping[str, Json] | None = None, **fields: Json
) -> ExecCredential:
    user: dict[str, Json] = {"exec": {"apiVersion": V1, "command": command, "args": [*args], **fields}}
    return asyncio.run(run_plugin(KubeconfigEntry(user, folder), KubeconfigEntry(cluster or {}, folder)))


def exec_info(folder: Path, cluster: dict[str, Json], *, asks: bool) -> Json:
    """Return what a plugin receives in KUBERNETES_EXEC_INFO."""
    script = f"echo \"$KUBERNETES_EXEC_INFO\" > {folder}/info; echo '{answer(token='a')}'"
    run(folder, "sh", "-c", script, cluster=cluster, provideClusterInfo=asks)
    info: Json = json.loads((folder / "info").read_text())
    return info


def problem(folder: Path, command: str, *args: Json, **fields: Json) -> str:
    with pytest.raises(LoginError) as caught:
        run(folder, command, *args, cluster={}, **fields)
    return str(caught.value)


CLUSTER: dict[str, Json] = {
    "server": "https://s:6443",
    "tls-server-name": "name",
    "insecure-skip-tls-verify": True,
    "proxy-url": "http://proxy",
    "extensions": [
        {"name": "other", "extension": 1},
        {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "here"}},
    ],
}


@pytest.mark.parametrize(
    ("authority", "data"),
    [({"certificate-authority-data": "QQ=="}, "QQ=="), ({"certificate-authority": "ca.crt"}, "Qg==")],
)
def test_plugin_receives_the_cluster_on_request(tmp_path: Path, authority: dict[str, Json], data: str) -> None:
    (tmp_path / "ca.crt").write_text("B")
    assert b64encode(b"B") == b"Qg=="
    assert exec_info(tmp_path, CLUSTER | authority, asks=True) == {
        "apiVersion": V1,
        "kind": "ExecCredential",
        "spec": {
            "interactive": False,
            "cluster": {
                "server": "https://s:6443",
                "tls-server-name": "name",
                "insecure-skip-tls-verify": True,
                "proxy-url": "http://proxy",
                "certificate-authority-data": data,
                "config": {"audience": "here"},
            },
        },
    }


def test_plugin_receives_no_cluster_without_a_request(tmp_path: Path) -> None:
    info = exec_info(tmp_path, CLUSTER, asks=False)
    assert info == {"apiVersion": V1, "kind": "ExecCredential", "spec": {"interactive": False}}


def test_relative_command_starts_from_the_kubeconfigs_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "token.sh"
    script.write_text(f"#!/bin/sh\necho '{answer(token='a')}'\n")
    script.chmod(0o700)
    monkeypatch.chdir("/")
    assert run(tmp_path, "./token.sh").token == "a"
    monkeypatch.chdir(tmp_path.parent)
    assert run(Path(tmp_path.name), "./token.sh").token == "a"


def test_environment_of_the_kubeconfig_is_set(tmp_path: Path) -> None:
    echo = answer(token="$MINE").replace('"', '\\"')
    assert run(tmp_path, "sh", "-c", f'echo "{echo}"', env=[{"name": "MINE", "value": "b"}]).token == "b"


def test_install_hint_is_shown_if_the_command_is_missing(tmp_path: Path) -> None:
    hint = "Install it with:\n\n  apt install no-such-plugin"
    assert problem(tmp_path, "no-such-plugin", installHint=hint) == (
        "exec: there is no no-such-plugin; Install it with: apt install no-such-plugin"
    )
    assert problem(tmp_path, "./missing", installHint="\x1b[31mred") == (
        f"exec: there is no {tmp_path}/missing; \\x1b[31mred"
    )


def test_command_without_the_permission_is_reported(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("")
    assert problem(tmp_path, "./data").startswith(f"exec: cannot run {tmp_path}/data; ")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("no json", "the plugin's output is not JSON; it must print an ExecCredential"),
        ("[]", "malformed response: expected a mapping, got a list"),
        (answer(), "malformed response: it has neither a token nor a certificate"),
        (answer(clientKeyData="k"), "malformed response: clientCertificateData and clientKeyData must come together"),
        (answer(token="a").replace("/v1", "/v2"), f"the plugin answers in {V1[:-1]}2, but apiVersion is {V1}"),
    ],
)
def test_unusable_answer_is_reported_without_its_secrets(tmp_path: Path, text: str, why: str) -> None:
    assert problem(tmp_path, "echo", text) == f"exec: {why}"


def test_interactive_plugin_without_a_terminal_is_refused(tmp_path: Path) -> None:
    assert "there is no terminal" in problem(tmp_path, "echo", answer(token="a"), interactiveMode="Always")


def test_certificate_of_a_plugin_is_used(tmp_path: Path) -> None:
    credential = run(tmp_path, "echo", answer(clientCertificateData="cert", clientKeyData="key"))
    configuration = ClientConfiguration()
    folders = iter([tmp_path / "one", tmp_path / "two"])

    def folder() -> Path:
        created = next(folders)
        created.mkdir()
        return created

    configure_credential(configuration, credential, folder)
    files = configuration.cert_file, configuration.key_file
    assert [Path(file or "").read_text() for file in files] == ["cert", "key"]
    assert not configuration.api_key


async def test_cancelled_plugin_is_killed(tmp_path: Path) -> None:
    started = tmp_path / "started"
    os.mkfifo(started)
    command: Json = ["-c", f"echo $$ > {started}; exec sleep 30"]
    user = KubeconfigEntry({"exec": {"apiVersion": V1, "command": "sh", "args": command}}, tmp_path)
    task = asyncio.create_task(run_plugin(user, KubeconfigEntry()))
    pid = int(await asyncio.to_thread(started.read_text))
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
