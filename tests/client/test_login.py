"""Logins from kubeconfig files and service accounts."""

from __future__ import annotations

import ssl
from base64 import b64encode
from collections.abc import Mapping
from pathlib import Path

import pytest

from kframework.client import login
from kframework.client.kubeconfig import KubeconfigEntry
from kframework.client.login import ClientConfiguration, configure_service_account, configure_user, create_tls_context
from kframework.config.document import Json

HTTPS: dict[str, Json] = {"server": "https://s/"}


def logged_in(folder: Path, cluster: Mapping[str, Json], user: Mapping[str, Json]) -> ClientConfiguration:
    configuration = ClientConfiguration()
    configure_user(
        configuration, KubeconfigEntry({**cluster}, folder), KubeconfigEntry({**user}, folder), lambda: folder
    )
    return configuration


@pytest.mark.parametrize(
    ("user", "shown"),
    [
        ({}, None),
        ({"token": "a"}, "Bearer a"),
        ({"token": "a", "tokenFile": "none"}, "Bearer a"),
        ({"token": "", "tokenFile": "token"}, "Bearer of the file\n"),
        ({"token": "", "username": "me", "password": "pw"}, "Basic bWU6cHc="),
        ({"username": "me"}, None),
    ],
)
def test_user_is_authorized_by_token_or_password(tmp_path: Path, user: dict[str, Json], shown: str | None) -> None:
    (tmp_path / "token").write_text("of the file\n")
    assert logged_in(tmp_path, HTTPS, user).api_key.get("BearerToken") == shown


def test_cluster_fields_are_applied(tmp_path: Path) -> None:
    cluster: dict[str, Json] = {
        "insecure-skip-tls-verify": True,
        "tls-server-name": "name",
        "proxy-url": "http://proxy",
    }
    found = logged_in(tmp_path, HTTPS | cluster, {})
    assert (found.host, found.verify_ssl, found.tls_server_name, found.proxy) == (
        "https://s",
        False,
        "name",
        "http://proxy",
    )
    plain = logged_in(tmp_path, HTTPS, {})
    assert (plain.verify_ssl, plain.tls_server_name, plain.proxy) == (True, None, None)


@pytest.mark.parametrize("inline", [True, False])
def test_inline_certificates_are_written_to_files(tmp_path: Path, inline: bool) -> None:
    def part(name: str) -> dict[str, Json]:
        (tmp_path / f"{name}.pem").write_text(name)
        return {f"{name}-data": b64encode(name.encode()).decode()} if inline else {name: f"{name}.pem"}

    found = logged_in(tmp_path, HTTPS | part("certificate-authority"), part("client-certificate") | part("client-key"))
    files = found.ssl_ca_cert, found.cert_file, found.key_file
    assert [Path(file or "").read_text() for file in files] == [
        "certificate-authority",
        "client-certificate",
        "client-key",
    ]


def test_plain_http_has_no_certificates(tmp_path: Path) -> None:
    found = logged_in(tmp_path, {"server": "http://s", "certificate-authority": "none"}, {"client-key": "none"})
    assert (found.ssl_ca_cert, found.key_file, create_tls_context(found)) == (None, None, None)


@pytest.mark.parametrize("verified", [True, False])
def test_tls_context_trusts_the_configured_authority(verified: bool) -> None:
    configuration = ClientConfiguration()
    configuration.host, configuration.verify_ssl = "https://s", verified
    context = create_tls_context(configuration)
    assert context is not None
    assert context.check_hostname is verified
    assert context.verify_mode is (ssl.CERT_REQUIRED if verified else ssl.CERT_NONE)


@pytest.mark.parametrize(
    ("environ", "url"),
    [
        ({"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "6443"}, "https://10.0.0.1:6443"),
        ({"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, "https://10.0.0.1:443"),
        ({"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "6443"}, "https://[fd00::1]:6443"),
    ],
)
def test_service_account_is_read_from_the_pod(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, environ: dict[str, str], url: str
) -> None:
    monkeypatch.setattr(login, "SERVICE_ACCOUNT", tmp_path)
    (tmp_path / "token").write_text("a")
    configuration = ClientConfiguration()
    with pytest.raises(FileNotFoundError, match=r"ca\.crt"):
        configure_service_account(configuration, environ)
    (tmp_path / "ca.crt").write_text("")
    configure_service_account(configuration, environ)
    assert (configuration.host, configuration.api_key) == (url, {"BearerToken": "Bearer a"})
    assert configuration.ssl_ca_cert == str(tmp_path / "ca.crt")
