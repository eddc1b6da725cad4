"""The way to a real cluster: which one, and where the credentials for it come from.

The only module that knows kubernetes-asyncio, whose import takes as long as all else together, and 60 MB: it happens
only for users who log in by a plugin or a provider.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Protocol

import msgspec

from kframework.client.kubeconfig import DEFAULT_FILE, KubeConfig, read_kubeconfig
from kframework.client.login import (
    SERVICE_ACCOUNT,
    SHORTEST_PERIOD,
    Configuration,
    Login,
    MakeFolder,
    Source,
    of_service_account,
    of_user,
)
from kframework.errors import ConfigError
from kframework.objects.problem import Problem

if TYPE_CHECKING:
    from kframework.client.kube_transport import KubeTransport

#: Files with tokens are read again after so many seconds, as in client-go.
TOKEN_PERIOD = 60.0

#: How long before its end a plugin's token is renewed, as in kubernetes-asyncio, in seconds.
MARGIN = 300.0


class Connection(msgspec.Struct, frozen=True, kw_only=True):
    """Which cluster: a kubeconfig file, else KUBECONFIG, else the cluster around this pod, else ~/.kube/config.

    `context` None means the current one; a context that is named is looked for in files only. `server` is a URL that
    goes before the one found there, or stands for itself where there is no file: nobody logs in then.
    """

    kubeconfig: str | None = None
    context: str | None = None
    server: str | None = None
    user_agent: str | None = None


async def connect(settings: Connection) -> KubeTransport:
    """Find the cluster and log in, without asking it anything yet; raises ConfigError."""
    from kframework._version import __version__
    from kframework.client.kube_transport import KubeTransport

    login = Login(_source(settings, os.environ))
    await login.renew()
    return KubeTransport(login, settings.user_agent or f"kframework/{__version__}")


def _source(settings: Connection, environ: Mapping[str, str]) -> Source:
    files = settings.kubeconfig or environ.get("KUBECONFIG")
    if settings.server is not None:
        credentials = _Files(read_kubeconfig(files, settings.context)) if files else None
        if not settings.server.startswith(("http://", "https://")):
            message = f"the API server's address {settings.server!r} is no URL; write it as https://host:6443"
            raise ConfigError(message)
        return _Address(settings.server, credentials)
    if not files and environ.get("KUBERNETES_SERVICE_HOST") and not settings.context:
        return _ServiceAccount()
    return _Files(read_kubeconfig(files or DEFAULT_FILE, settings.context))


class Loader(Protocol):
    """kubernetes-asyncio's reader of kubeconfigs."""

    async def load_and_set(self, client_configuration: Configuration) -> None:
        """Fill in the configuration with what holds now."""
        ...


class _ServiceAccount(Source):
    """The account of the pod that this process runs in."""

    name = str(SERVICE_ACCOUNT)

    async def load(self, configuration: Configuration, folder: MakeFolder) -> float:
        of_service_account(configuration, os.environ)
        return TOKEN_PERIOD


class _Address(Source):
    """A server by its URL, with somebody's credentials or with none."""

    def __init__(self, server: str, credentials: Source | None) -> None:
        self.name = server if credentials is None else credentials.name
        self._server = server
        self._credentials = credentials

    async def load(self, configuration: Configuration, folder: MakeFolder) -> float:
        valid = float("inf") if self._credentials is None else await self._credentials.load(configuration, folder)
        configuration.host = self._server
        return valid

    def wrong_server(self, why: str) -> ConfigError:
        return ConfigError(why, path="--master")


class _Files(Source):
    """A user of a kubeconfig."""

    def __init__(self, file: KubeConfig) -> None:
        self.name = file.paths
        self._file = file
        self._loader: Loader | None = None

    async def load(self, configuration: Configuration, folder: MakeFolder) -> float:
        if {"exec", "auth-provider"} & self._file.user.values.keys():
            return await self._logged_in(configuration)
        of_user(configuration, self._file.cluster, self._file.user, folder)
        return TOKEN_PERIOD if "tokenFile" in self._file.user.values else float("inf")

    async def _logged_in(self, configuration: Configuration) -> float:
        """Ask a plugin or a provider who we are."""
        from kubernetes_asyncio.config import ConfigException, load_kube_config

        # It logs what it raises as well, quoting the file with its secrets.
        logging.getLogger("kubernetes_asyncio.config.kube_config").disabled = True
        try:
            if self._loader is None:
                self._loader = await load_kube_config(
                    self._file.paths, self._file.context, client_configuration=configuration, persist_config=False
                )
            else:
                # What a plugin said last time is not asked for again before it expires, not even when it was refused.
                vars(self._loader).pop("exec_plugin_expiry", None)
                await self._loader.load_and_set(configuration)
        except ConfigException as error:
            raise OSError(str(error)) from error
        if "exec" not in self._file.user.values:
            return TOKEN_PERIOD
        expiry: datetime | None = getattr(self._loader, "exec_plugin_expiry", None)
        if expiry is None:
            return float("inf")
        return max((expiry - datetime.now(UTC)).total_seconds() - MARGIN, SHORTEST_PERIOD)

    def wrong_server(self, why: str) -> ConfigError:
        return self._file.server.error(Problem((), why))
