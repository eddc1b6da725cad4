"""Find a real cluster and the credentials for it.

The only module that imports kubernetes-asyncio, and only for users who log in by an exec plugin or auth provider: the
import takes as long as all others together, and 60 MB.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Protocol

import msgspec

from kframework.client.kubeconfig import DEFAULT_FILE, KubeConfig, load_kubeconfig
from kframework.client.login import (
    MIN_LOGIN_INTERVAL,
    SERVICE_ACCOUNT,
    ClientConfiguration,
    CredentialSource,
    FolderFactory,
    Login,
    configure_service_account,
    configure_user,
)
from kframework.errors import ConfigError
from kframework.objects.problem import Problem

if TYPE_CHECKING:
    from kframework.client.kube_transport import KubeTransport

#: How often token files are read again, in seconds, as in client-go.
TOKEN_REREAD_INTERVAL = 60.0

#: How long before its expiry a plugin's token is renewed, in seconds, as in kubernetes-asyncio.
EXPIRY_MARGIN = 300.0


class ConnectionSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Which cluster to use: a kubeconfig file, else KUBECONFIG, else the pod's own cluster, else ~/.kube/config.

    `context` None means the current one; a named context is looked up in files only. `server` is a URL that overrides
    the kubeconfig's; without a kubeconfig it is used without credentials.
    """

    kubeconfig: str | None = None
    context: str | None = None
    server: str | None = None
    user_agent: str | None = None


async def connect(settings: ConnectionSettings) -> KubeTransport:
    """Find the cluster and log in, without sending a request yet; raises ConfigError."""
    from kframework._version import __version__
    from kframework.client.kube_transport import KubeTransport

    login = Login(_find_source(settings, os.environ))
    await login.renew()
    return KubeTransport(login, settings.user_agent or f"kframework/{__version__}")


def _find_source(settings: ConnectionSettings, environ: Mapping[str, str]) -> CredentialSource:
    files = settings.kubeconfig or environ.get("KUBECONFIG")
    if settings.server is not None:
        credentials = _KubeconfigSource(load_kubeconfig(files, settings.context)) if files else None
        if not settings.server.startswith(("http://", "https://")):
            message = f"the API server's address {settings.server!r} is not a URL; write it as https://host:6443"
            raise ConfigError(message)
        return _AddressSource(settings.server, credentials)
    if not files and environ.get("KUBERNETES_SERVICE_HOST") and not settings.context:
        return _ServiceAccountSource()
    return _KubeconfigSource(load_kubeconfig(files or DEFAULT_FILE, settings.context))


class Loader(Protocol):
    """kubernetes-asyncio's reader of kubeconfigs."""

    async def load_and_set(self, client_configuration: ClientConfiguration) -> None:
        """Fill in the current server and credentials."""


class _ServiceAccountSource(CredentialSource):
    name = str(SERVICE_ACCOUNT)

    async def load(self, configuration: ClientConfiguration, folder: FolderFactory) -> float:
        configure_service_account(configuration, os.environ)
        return TOKEN_REREAD_INTERVAL


class _AddressSource(CredentialSource):
    """A server given by its URL, with the credentials of another source or with none."""

    def __init__(self, server: str, credentials: CredentialSource | None) -> None:
        self.name = server if credentials is None else credentials.name
        self._server = server
        self._credentials = credentials

    async def load(self, configuration: ClientConfiguration, folder: FolderFactory) -> float:
        valid_for = float("inf") if self._credentials is None else await self._credentials.load(configuration, folder)
        configuration.host = self._server
        return valid_for

    def server_error(self, why: str) -> ConfigError:
        return ConfigError(why, path="--master")


class _KubeconfigSource(CredentialSource):
    def __init__(self, file: KubeConfig) -> None:
        self.name = file.paths
        self._file = file
        self._loader: Loader | None = None

    async def load(self, configuration: ClientConfiguration, folder: FolderFactory) -> float:
        if {"exec", "auth-provider"} & self._file.user.values.keys():
            return await self._log_in_by_plugin(configuration)
        configure_user(configuration, self._file.cluster, self._file.user, folder)
        return TOKEN_REREAD_INTERVAL if "tokenFile" in self._file.user.values else float("inf")

    async def _log_in_by_plugin(self, configuration: ClientConfiguration) -> float:
        from kubernetes_asyncio.config import ConfigException, load_kube_config

        # The library also logs what it raises, and quotes the file with its secrets.
        logging.getLogger("kubernetes_asyncio.config.kube_config").disabled = True
        try:
            if self._loader is None:
                self._loader = await load_kube_config(
                    self._file.paths, self._file.context, client_configuration=configuration, persist_config=False
                )
            else:
                # Otherwise the plugin's last token is reused until it expires, even if the server rejected it.
                vars(self._loader).pop("exec_plugin_expiry", None)
                await self._loader.load_and_set(configuration)
        except ConfigException as error:
            raise OSError(str(error)) from error
        if "exec" not in self._file.user.values:
            return TOKEN_REREAD_INTERVAL
        expiry: datetime | None = getattr(self._loader, "exec_plugin_expiry", None)
        if expiry is None:
            return float("inf")
        return max((expiry - datetime.now(UTC)).total_seconds() - EXPIRY_MARGIN, MIN_LOGIN_INTERVAL)

    def server_error(self, why: str) -> ConfigError:
        return self._file.server.error(Problem((), why))
