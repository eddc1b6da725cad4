"""Clients of a fake API, one for each of the libraries that Python programs speak to Kubernetes with.

None of the libraries comes with kframework: each is imported when its client is asked for.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import yaml

if TYPE_CHECKING:
    import kopf
    import kr8s
    import kubernetes
    import kubernetes_asyncio
    import lightkube


class Clients:
    """Makes clients that are led by a kubeconfig; each is its caller's to close."""

    def __init__(self, kubeconfig: Path) -> None:
        self._kubeconfig = kubeconfig

    def kubernetes(self) -> kubernetes.client.ApiClient:
        """Make what the APIs of `kubernetes` take: `CoreV1Api(clients.kubernetes())`."""
        from kubernetes import config

        client: kubernetes.client.ApiClient = config.new_client_from_config(str(self._kubeconfig))  # type: ignore[no-untyped-call]  # it is generated
        return client

    async def kubernetes_asyncio(self) -> kubernetes_asyncio.client.ApiClient:
        """Make what the APIs of `kubernetes_asyncio` take, in the loop that uses it."""
        from kubernetes_asyncio import config

        return await config.new_client_from_config(str(self._kubeconfig))

    def lightkube(self, field_manager: str = "kframework") -> lightkube.Client:
        """Make a client of lightkube, which writes and applies under the name of its field manager."""
        from lightkube import Client, KubeConfig

        return Client(config=KubeConfig.from_file(self._kubeconfig).get(), field_manager=field_manager)

    def kr8s(self) -> kr8s.Api:
        """Make what the objects of kr8s take: `Pod.get("web", api=clients.kr8s())`."""
        import kr8s

        return kr8s.api(kubeconfig=str(self._kubeconfig))

    def kopf(self) -> kopf.ConnectionInfo:
        """Return what an operator's `@kopf.on.login()` returns."""
        import kopf

        config = yaml.safe_load(self._kubeconfig.read_text(encoding="utf-8"))
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        authority = cluster.get("certificate-authority-data")
        return kopf.ConnectionInfo(server=cluster["server"], ca_data=authority, token=user.get("token"))
