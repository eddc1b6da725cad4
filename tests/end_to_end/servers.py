"""API servers as processes of their own: kframework's fake one, and a real one with its etcd."""

from __future__ import annotations

import json
import os
import secrets
import socket
import subprocess
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple, Protocol

import pytest
import yaml

from tests.end_to_end.api import Api, Json, Tapped, tapped
from tests.end_to_end.processes import kframework, until

#: Parameters of a fixture that starts one of these servers.
SERVERS = ["fake", pytest.param("real", marks=pytest.mark.real)]

#: Which requests the real server notes: whatever writes pods.
_AUDITED = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {
            "level": "Metadata",
            "verbs": ["create", "patch", "update", "delete"],
            "resources": [{"group": "", "resources": ["pods", "pods/binding", "pods/status"]}],
        },
        {"level": "None"},
    ],
}


class Client(Protocol):
    """A way to a server on which writes to pods are noted."""

    def writes(self) -> list[str]:
        """List the requests so far that bind or change pods, as method and path."""
        ...


class Server(Protocol):
    """An API server of one test; no user's name gives an administrator's kubeconfig."""

    kubeconfig: Path

    def client(self, kubeconfig: Path) -> AbstractContextManager[Client]:
        """Write a kubeconfig for one more client that may do anything, and return what it does."""
        ...


@contextmanager
def started(kind: str, folder: Path) -> Iterator[Server]:
    """Run a server, "fake" or "real", that keeps its files in a folder."""
    with FakeServer.started(folder) if kind == "fake" else RealServer.started(folder) as server:
        yield server


class FakeServer(Server):
    """`kframework fake-api`, with kubelets and controllers of its own."""

    def __init__(self, kubeconfig: Path) -> None:
        self.kubeconfig = kubeconfig

    @classmethod
    @contextmanager
    def started(cls, folder: Path) -> Iterator[FakeServer]:
        """Run it; in the end it ends in good order."""
        kubeconfig = folder / "kubeconfig"
        with kframework("fake-api", "--port", "0", "--write-kubeconfig", str(kubeconfig)) as program:
            program.says(f"export KUBECONFIG={kubeconfig}")
            yield cls(kubeconfig)
            assert program.stop() == 0

    def client(self, kubeconfig: Path) -> AbstractContextManager[Tapped]:
        return tapped(self.kubeconfig, kubeconfig)


class RealServer(Server):
    """kube-apiserver and etcd, out of the folder that KUBE_ASSETS names, on free ports of this machine.

    There are no kubelets and no controllers. Both keep their logs in the folder: etcd.log and kube-apiserver.log.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.kubeconfig = folder / "kubeconfig"
        clients, peers, self._port = _free_ports(3)
        self._token = secrets.token_hex()
        self.etcd = Program("etcd", folder, *_etcd_options(folder, clients, peers))
        self.api = Program("kube-apiserver", folder, *_api_options(folder, clients, self._port))

    @classmethod
    @contextmanager
    def started(cls, folder: Path) -> Iterator[RealServer]:
        """Run both, and return when the server is ready."""
        server = cls(folder)
        (folder / "tokens.csv").write_text(f"{server._token},admin,admin,system:masters\n")
        (folder / "audit-policy.json").write_text(json.dumps(_AUDITED))
        try:
            server.etcd.start()
            server.api.start()
            server.wait()
            yield server
        finally:
            server.api.kill()
            server.etcd.kill()

    def wait(self) -> None:
        """Wait until the server is ready, as it is not while etcd is gone."""
        certificate = self.folder / "certificates" / "apiserver.crt"
        until(lambda: self.api.runs() and certificate.exists() and "END" in certificate.read_text())
        self.write_kubeconfig(self.kubeconfig, self._token)
        api = Api(self.kubeconfig)
        until(lambda: self.api.runs() and api.is_ready())

    @contextmanager
    def client(self, kubeconfig: Path) -> Iterator[Audited]:
        name = kubeconfig.stem
        api = Api(self.kubeconfig)
        api.create("/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": name}})
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
        subject = {"kind": "ServiceAccount", "namespace": "default", "name": name}
        binding = {"metadata": {"name": name}, "roleRef": role, "subjects": [subject]}
        api.create("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding)
        yield self.account("default", name, kubeconfig)

    def account(self, namespace: str, name: str, kubeconfig: Path) -> Audited:
        """Write a kubeconfig with a token of a ServiceAccount, which may do what its roles allow."""
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
        self.write_kubeconfig(kubeconfig, Api(self.kubeconfig).ask("POST", path, request)["status"]["token"])
        return Audited(self.folder / "audit.log", f"system:serviceaccount:{namespace}:{name}")

    def write_kubeconfig(self, kubeconfig: Path, token: str) -> None:
        """Write a kubeconfig for the user with this token."""
        cluster = {
            "server": f"https://127.0.0.1:{self._port}",
            "certificate-authority": str(self.folder / "certificates" / "apiserver.crt"),
        }
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "real", "cluster": cluster}],
            "users": [{"name": "user", "user": {"token": token}}],
            "contexts": [{"name": "real", "context": {"cluster": "real", "user": "user"}}],
            "current-context": "real",
        }
        kubeconfig.write_text(yaml.safe_dump(config))


class Binding(NamedTuple):
    """A request to bind a pod, and how the server answered."""

    pod: str
    status: int


class Audited(Client):
    """A user of a real server, whose writes to pods stand in the server's audit log."""

    def __init__(self, log: Path, user: str) -> None:
        self._log = log
        self._user = user

    def writes(self) -> list[str]:
        return [f"{each['verb']} {each['requestURI']}" for each in self._events()]

    def bindings(self) -> list[Binding]:
        """List the requests so far that bind pods."""
        return [
            Binding(each["objectRef"]["name"], each["responseStatus"]["code"])
            for each in self._events()
            if each["objectRef"].get("subresource") == "binding"
        ]

    def _events(self) -> list[Json]:
        # A server that was killed may have left half a line.
        lines = [line for line in self._log.read_text().splitlines() if line.startswith("{") and line.endswith("}")]
        return [event for event in map(json.loads, lines) if event["user"]["username"] == self._user]


class Program:
    """A program out of KUBE_ASSETS that may be killed and started again; its log grows in a file of its name."""

    def __init__(self, name: str, folder: Path, *options: str) -> None:
        assets = os.environ["KUBE_ASSETS"]
        self._command = [str(Path(assets, name)), *options]
        self._log = folder / f"{name}.log"
        self._process: subprocess.Popen[bytes] | None = None
        if not os.access(self._command[0], os.X_OK):
            pytest.fail(f"KUBE_ASSETS={assets} holds no program {name!r}", pytrace=False)

    def start(self) -> None:
        """Start it, without waiting for what it does."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log)

    def runs(self) -> bool:
        """Return true; fails if it has ended by itself."""
        assert self._process is not None and self._process.poll() is None, self._log.read_text()[-2000:]
        return True

    def kill(self) -> None:
        """Kill it, if it was started, and wait until it is gone."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()


def _etcd_options(folder: Path, clients: int, peers: int) -> Iterator[str]:
    own, peer = f"http://127.0.0.1:{clients}", f"http://127.0.0.1:{peers}"
    yield f"--data-dir={folder / 'etcd'}"
    yield f"--listen-client-urls={own}"
    yield f"--advertise-client-urls={own}"
    yield f"--listen-peer-urls={peer}"
    yield f"--initial-advertise-peer-urls={peer}"
    yield f"--initial-cluster=default={peer}"
    yield "--unsafe-no-fsync"  # a process that is killed loses nothing by it, only a machine would


def _api_options(folder: Path, etcd: int, port: int) -> Iterator[str]:
    key = folder / "certificates" / "apiserver.key"
    yield f"--etcd-servers=http://127.0.0.1:{etcd}"
    yield f"--secure-port={port}"
    yield "--bind-address=127.0.0.1"
    yield f"--cert-dir={folder / 'certificates'}"  # where it makes its own
    yield "--authorization-mode=RBAC"
    yield f"--token-auth-file={folder / 'tokens.csv'}"
    yield "--service-account-issuer=https://kubernetes.default.svc"
    yield f"--service-account-key-file={key}"
    yield f"--service-account-signing-key-file={key}"
    yield "--service-cluster-ip-range=10.0.0.0/24"
    # There are no controllers that would make accounts, or take the taint of new nodes away.
    yield "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition"
    yield f"--audit-policy-file={folder / 'audit-policy.json'}"
    yield f"--audit-log-path={folder / 'audit.log'}"


def _free_ports(number: int) -> list[int]:
    with ExitStack() as stack:
        listeners = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(number)]
        return [listener.getsockname()[1] for listener in listeners]
