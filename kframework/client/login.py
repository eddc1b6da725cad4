"""What a login comes to: which server, what we show it, whom we trust; as far as it stands in files."""

from __future__ import annotations

import ssl
from base64 import b64encode, standard_b64decode
from collections.abc import Callable, Mapping
from pathlib import Path

from kframework.client.kubeconfig import Entry

#: Where a pod finds the token of its account and the authority of its cluster.
SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")

#: Makes a folder for what may not stay.
MakeFolder = Callable[[], Path]


class Configuration:
    """What is known of a server and of us; the names are those by which kubernetes-asyncio fills it in."""

    def __init__(self) -> None:
        self.host: str | None = None
        self.api_key: dict[str, str] = {}
        self.ssl_ca_cert: str | None = None
        self.cert_file: str | None = None
        self.key_file: str | None = None
        self.verify_ssl: bool = True
        self.tls_server_name: str | None = None
        self.proxy: str | None = None


def of_user(configuration: Configuration, cluster: Entry, user: Entry, folder: MakeFolder) -> None:
    """Fill in what a kubeconfig says of a user who needs nobody else to log in; OSError for files that are not there.

    Certificates that stand in the kubeconfig itself are put into folders that are made for them alone.
    """
    configuration.host = cluster.text("server").rstrip("/")
    configuration.verify_ssl = not cluster.values.get("insecure-skip-tls-verify")
    configuration.tls_server_name = cluster.text("tls-server-name") or None
    configuration.proxy = cluster.text("proxy-url") or None
    if authorization := _authorization(user):
        configuration.api_key["BearerToken"] = authorization
    if configuration.host.startswith("https"):
        configuration.ssl_ca_cert = _file(cluster, "certificate-authority", folder)
        configuration.cert_file = _file(user, "client-certificate", folder)
        configuration.key_file = _file(user, "client-key", folder)


def of_service_account(configuration: Configuration, environ: Mapping[str, str]) -> None:
    """Fill in what a pod knows of the cluster around it; OSError for files that are not there."""
    host, port = environ["KUBERNETES_SERVICE_HOST"], environ.get("KUBERNETES_SERVICE_PORT") or "443"
    configuration.host = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
    configuration.api_key["BearerToken"] = f"Bearer {(SERVICE_ACCOUNT / 'token').read_text()}"
    configuration.ssl_ca_cert = str(_there(SERVICE_ACCOUNT / "ca.crt"))


def tls(configuration: Configuration) -> ssl.SSLContext | None:
    """Return what to show to the server and whom to trust, None for plain HTTP; OSError or ValueError if it is bad."""
    if not (configuration.host or "").startswith("https"):
        return None
    context = ssl.create_default_context(cafile=configuration.ssl_ca_cert)
    if configuration.cert_file:
        context.load_cert_chain(configuration.cert_file, configuration.key_file)
    if not configuration.verify_ssl:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _authorization(user: Entry) -> str:
    token, file = user.text("token"), user.path("tokenFile")
    if not token and file is not None:
        token = file.read_text()
    if token:
        return f"Bearer {token}"
    if "username" in user.values and "password" in user.values:
        named = f"{user.text('username')}:{user.text('password')}"
        return f"Basic {b64encode(named.encode()).decode()}"
    return ""


def _file(entry: Entry, name: str, folder: MakeFolder) -> str | None:
    """Return the file that is named, or one with the data that stand in its place."""
    if data := entry.text(f"{name}-data"):
        file = folder() / name
        file.write_bytes(standard_b64decode(data))
        return str(file)
    named = entry.path(name)
    return None if named is None else str(_there(named))


def _there(file: Path) -> Path:
    file.open("rb").close()
    return file
