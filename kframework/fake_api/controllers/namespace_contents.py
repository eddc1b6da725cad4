"""The objects that every namespace contains: the service account `default`, and the API server's CA certificate.

The rules are kube-controller-manager's: deleted ones are created again while the namespace is active.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import ClassVar

from msgspec.structs import replace

from kframework.in_memory.control_loop import ControlLoop, Key
from kframework.in_memory.kind_store import Change
from kframework.objects import ApiObject, ConfigMap, Namespace, ObjectMeta, ServiceAccount

_DESCRIPTION = "kubernetes.io/description"
_ANNOTATIONS = {
    _DESCRIPTION: "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints"
    " such as the internal service IP or kubernetes.default.svc."
    " No other usage is guaranteed across distributions of Kubernetes clusters."
}


class _NamespaceLoop(ControlLoop):
    object_name: ClassVar[str]

    def _affected_keys(self, change: Change) -> Iterator[Key]:
        metadata = change.subject.metadata
        if isinstance(change.subject, Namespace):
            yield "", metadata.name
        elif metadata.name == self.object_name:
            yield "", metadata.namespace

    def _reconcile(self, key: Key) -> None:
        namespace = self._cluster.find(Namespace, key[1])
        if namespace is not None and namespace.status.phase == "Active":
            self._ensure(ObjectMeta(name=self.object_name, namespace=key[1]))

    @abstractmethod
    def _ensure(self, wanted: ObjectMeta) -> None:
        """Create the object, or update it."""


class ServiceAccountController(_NamespaceLoop):
    """Creates the default service account."""

    kinds: ClassVar[tuple[type[ApiObject], ...]] = (Namespace, ServiceAccount)
    object_name: ClassVar[str] = "default"

    def _ensure(self, wanted: ObjectMeta) -> None:
        if self._cluster.find(ServiceAccount, wanted.name, wanted.namespace) is None:
            self._cluster.add(ServiceAccount(metadata=wanted))


class RootCertificatePublisher(_NamespaceLoop):
    """Publishes the CA certificate of the API server; an empty text without TLS."""

    kinds: ClassVar[tuple[type[ApiObject], ...]] = (Namespace, ConfigMap)
    object_name: ClassVar[str] = "kube-root-ca.crt"

    def _ensure(self, wanted: ObjectMeta) -> None:
        data = {"ca.crt": self._cluster.certificate_authority}
        current = self._cluster.find(ConfigMap, wanted.name, wanted.namespace)
        if current is None:
            self._cluster.add(ConfigMap(metadata=replace(wanted, annotations=_ANNOTATIONS), data=data))
        elif current.data != data or not current.metadata.annotations.get(_DESCRIPTION):
            metadata = replace(current.metadata, annotations=current.metadata.annotations | _ANNOTATIONS)
            self._cluster.replace(replace(current, metadata=metadata, data=data))
