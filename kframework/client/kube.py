"""Find a real cluster and the credentials for it.

The only module that imports kubernetes-asyncio, and only for users who log in by an auth provider: the import takes as
long as all others together, and 60 MB.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Protocol

import msgspec

from kframework.client.exec_plugin import configure_credential, run_plugin
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


class Loader(Protocol):
    """kubernetes-asyncio's reader of kubeconfigs."""

    async def load_and_set(self, client_configuration: ClientConfiguration) -> None:
        """Fill in the current server and credentials."""


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
        if not settings.server.startswith(("http://", "https://")):
            message = f"the API server's address {settings.server!r} is not a URL; write it as https://host:6443"
            raise ConfigError(message)
        file = load_kubeconfig(files, settings.context) if files else KubeConfig()
        return _KubeconfigSource(file.with_server(settings.server))
    if not files and environ.get("KUBERNETES_SERVICE_HOST") and not settings.context:
        return _ServiceAccountSource()
    return _KubeconfigSource(load_kubeconfig(files or DEFAULT_FILE, settings.context))


class _ServiceAccountSource(CredentialSource):
    name = str(SERVICE_ACCOUNT)
    identity = "service account of this pod"

    async def load(self, configuration: ClientConfiguration, folder: FolderFactory) -> float:
        await asyncio.to_thread(configure_service_account, configuration, os.environ)
        return TOKEN_REREAD_INTERVAL


class _KubeconfigSource(CredentialSource):
    def __init__(self, file: KubeConfig) -> None:
        self.name = file.paths
        self.identity = file.identity
        self._file = file
        self._loader: Loader | None = None

    async def load(self, configuration: ClientConfiguration, folder: FolderFactory) -> float:
        cluster, user = self._file.cluster, self._file.user
        await asyncio.to_thread(configure_user, configuration, cluster, user, folder)
        if "exec" in user.values:
            credential = await run_plugin(user, cluster)
            await asyncio.to_thread(configure_credential, configuration, credential, folder)
            expiry = credential.expiration_timestamp
            if expiry is None:
                return math.inf
            return max((expiry - datetime.now(UTC)).total_seconds() - EXPIRY_MARGIN, MIN_LOGIN_INTERVAL)
        if "auth-provider" in user.values:
            configuration.api_key |= await asyncio.to_thread(lambda: asyncio.run(self._log_in_by_library()))
            return TOKEN_REREAD_INTERVAL
        return TOKEN_REREAD_INTERVAL if "tokenFile" in user.values else math.inf

    async def _log_in_by_library(self) -> dict[str, str]:
        from kubernetes_asyncio.config import ConfigException, load_kube_config

        # The library also logs what it raises, and quotes the file with its secrets.
        logging.getLogger("kubernetes_asyncio.config.kube_config").disabled = True
        scratch = ClientConfiguration()
        try:
            if self._loader is None:
                self._loader = await load_kube_config(
                    self._file.paths, self._file.context, client_configuration=scratch, persist_config=False
                )
            else:
                await self._loader.load_and_set(scratch)
        except ConfigException as error:
            raise OSError(str(error)) from error
        return scratch.api_key

    def server_error(self, why: str) -> ConfigError:
        return self._file.server.error(Problem((), why))
