"""A fake API over HTTP for any program, with its own thread and event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from threading import Thread
from types import MappingProxyType
from typing import TYPE_CHECKING, Self, TypeVar

import yaml

from kframework.client.transport import User
from kframework.clock import SystemClock
from kframework.fake_api.access import AlwaysAllow, RbacAuthorizer
from kframework.fake_api.http_server import ServerOptions, run_cluster
from kframework.fake_api.local_cluster import LocalCluster
from kframework.objects import ApiObject
from kframework.objects.manifest import Manifest
from kframework.simulation.inputs import ClusterSource, read_cluster
from kframework.values.feature_gates import LATEST_MINOR, FeatureGates

if TYPE_CHECKING:
    import kopf
    import kr8s
    import kubernetes
    import kubernetes_asyncio
    import lightkube


T = TypeVar("T", bound=ApiObject)
R = TypeVar("R")

#: How long its thread may take to start and to answer, in seconds.
_TIMEOUT = 30.0


class FakeApi:
    """A cluster that any process on this machine can use by `url`, or by `kubeconfig`, while it is entered.

    `cluster` is a cluster file, or objects. Bound pods run, claims are created and bound, and the `controllers` run, by
    their names in kube-controller-manager's flag. It serves this `minor` of Kubernetes with the settings in
    `feature_gates`, and runs in real time. `tls`, `tokens` and `rbac` each enable TLS, with a certificate that its
    kubeconfig trusts. A client with one of the `tokens` is that user, and with `rbac` may do what the cluster's roles
    allow; the kubeconfig's own token is an administrator's, and without `tokens` and `rbac` every client is one. Raises
    InputError for unreadable input, and the system's error for a port or file that it rejects.
    """

    url: str
    kubeconfig: Path
    #: Clients of the installed client libraries.
    clients: Clients

    def __init__(
        self,
        cluster: ClusterSource = (),
        *,
        tls: bool = False,
        tokens: Mapping[str, User] | None = None,
        rbac: bool = False,
        controllers: Sequence[str] = ("*",),
        minor: str = LATEST_MINOR,
        feature_gates: Mapping[str, bool] = MappingProxyType({}),
    ) -> None:
        self._controllers = controllers
        self._options = ServerOptions(
            tls=tls,
            tokens=tokens,
            authorize=RbacAuthorizer if rbac else AlwaysAllow,
            feature_gates=FeatureGates(minor, feature_gates),
        )
        if isinstance(cluster, str | Path):
            self._manifest = read_cluster([str(cluster)])
        else:
            self._manifest = Manifest(list(cluster))
        self._extra_kubeconfigs: list[Path] = []
        self._started: Future[tuple[Path, LocalCluster]] = Future()
        self._thread = Thread(target=self._serve, name="kframework fake API", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self.kubeconfig, self._local = self._started.result(_TIMEOUT)
        self.clients = Clients(self.kubeconfig)
        self.url = yaml.safe_load(self.kubeconfig.read_text())["clusters"][0]["cluster"]["server"]
        return self

    def __exit__(self, *problem: object) -> None:
        self._loop.call_soon_threadsafe(self._stopped.set)
        self._thread.join(_TIMEOUT)
        for file in self._extra_kubeconfigs:
            file.unlink(missing_ok=True)

    def add(self, *objects: ApiObject) -> None:
        """Create these objects; ClusterError for one that exists."""
        self._run_in_thread(lambda: [self._local.memory.add(each) for each in objects])

    def objects(self, kind: type[T]) -> list[T]:
        """Return the objects of a kind as they are now."""
        return self._run_in_thread(lambda: self._local.memory.objects(kind))

    def reset(self) -> None:
        """Reset the cluster to its first state within milliseconds; connections and watches stay open."""
        self._run_in_thread(self._local.reset)

    def clients_for(self, token: str) -> Clients:
        """Return clients that use this token."""
        config = yaml.safe_load(self.kubeconfig.read_text(encoding="utf-8"))
        config["users"][0]["user"] = {"token": token}
        file = self.kubeconfig.with_name(f"{self.kubeconfig.stem}-{len(self._extra_kubeconfigs)}.yaml")
        file.touch(mode=0o600)
        file.write_text(yaml.safe_dump(config), encoding="utf-8")
        self._extra_kubeconfigs.append(file)
        return Clients(file)

    def _run_in_thread(self, work: Callable[[], R]) -> R:
        async def call() -> R:
            return work()

        return asyncio.run_coroutine_threadsafe(call(), self._loop).result(_TIMEOUT)

    def _serve(self) -> None:
        try:
            asyncio.run(self._run())
        except BaseException as error:
            if self._started.done():
                raise
            self._started.set_exception(error)

    async def _run(self) -> None:
        self._loop, self._stopped = asyncio.get_running_loop(), asyncio.Event()
        kubeconfigs: list[Path] = []
        serving = run_cluster(self._manifest, SystemClock(), self._options, kubeconfigs.append, self._controllers)
        async with serving as local:
            self._started.set_result((kubeconfigs[0], local))
            await self._stopped.wait()


#: Serves a cluster during a `with` block.
fake_api = FakeApi


class Clients:
    """Creates clients from a kubeconfig; the caller closes them."""

    def __init__(self, kubeconfig: Path) -> None:
        self._kubeconfig = kubeconfig

    def kubernetes(self) -> kubernetes.client.ApiClient:
        """Create a client for the APIs of `kubernetes`: `CoreV1Api(clients.kubernetes())`."""
        from kubernetes import config

        client: kubernetes.client.ApiClient = config.new_client_from_config(str(self._kubeconfig))  # type: ignore[no-untyped-call]  # it is generated
        return client

    async def kubernetes_asyncio(self) -> kubernetes_asyncio.client.ApiClient:
        """Create a client for the APIs of `kubernetes_asyncio`, in the loop that uses it."""
        from kubernetes_asyncio import config

        return await config.new_client_from_config(str(self._kubeconfig))

    def lightkube(self, field_manager: str = "kframework") -> lightkube.Client:
        """Create a client of lightkube, which writes and applies with this field manager."""
        from lightkube import Client, KubeConfig

        return Client(config=KubeConfig.from_file(self._kubeconfig).get(), field_manager=field_manager)

    def kr8s(self) -> kr8s.Api:
        """Create a client for the objects of kr8s: `Pod.get("web", api=clients.kr8s())`."""
        import kr8s

        return kr8s.api(kubeconfig=str(self._kubeconfig))

    def kopf(self) -> kopf.ConnectionInfo:
        """Return what an operator's `@kopf.on.login()` returns."""
        import kopf

        config = yaml.safe_load(self._kubeconfig.read_text(encoding="utf-8"))
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        authority = cluster.get("certificate-authority-data")
        return kopf.ConnectionInfo(server=cluster["server"], ca_data=authority, token=user.get("token"))
