"""What each namespace has of its own: the service account `default`, and the certificate of the API server.

The rules are those of kube-controller-manager: what somebody deletes is made again, until the namespace goes too.
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
_DESCRIBED = {
    _DESCRIPTION: "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints"
    " such as the internal service IP or kubernetes.default.svc."
    " No other usage is guaranteed across distributions of Kubernetes clusters."
}


class _NamespaceLoop(ControlLoop):
    """Looks at a namespace when that has changed, or the object of a name that it is to have."""

    made: ClassVar[str]

    def _touched(self, change: Change) -> Iterator[Key]:
        metadata = change.subject.metadata
        if isinstance(change.subject, Namespace):
            yield "", metadata.name
        elif metadata.name == self.made:
            yield "", metadata.namespace

    def _reconcile(self, key: Key) -> None:
        namespace = self._cluster.find(Namespace, key[1])
        if namespace is not None and namespace.status.phase == "Active":
            self._complete(ObjectMeta(name=self.made, namespace=key[1]))

    @abstractmethod
    def _complete(self, wanted: ObjectMeta) -> None:
        """Make an object of this name, or amend it."""


class ServiceAccountController(_NamespaceLoop):
    """Makes the service account of pods that name none."""

    kinds: ClassVar[tuple[type[ApiObject], ...]] = (Namespace, ServiceAccount)
    made: ClassVar[str] = "default"

    def _complete(self, wanted: ObjectMeta) -> None:
        if self._cluster.find(ServiceAccount, wanted.name, wanted.namespace) is None:
            self._cluster.add(ServiceAccount(metadata=wanted))


class RootCertificatePublisher(_NamespaceLoop):
    """Writes down by which certificate the API server is known: by none, in an empty text, where it has no TLS."""

    kinds: ClassVar[tuple[type[ApiObject], ...]] = (Namespace, ConfigMap)
    made: ClassVar[str] = "kube-root-ca.crt"

    def _complete(self, wanted: ObjectMeta) -> None:
        data = {"ca.crt": self._cluster.certificate_authority}
        found = self._cluster.find(ConfigMap, wanted.name, wanted.namespace)
        if found is None:
            self._cluster.add(ConfigMap(metadata=replace(wanted, annotations=_DESCRIBED), data=data))
        elif found.data != data or not found.metadata.annotations.get(_DESCRIPTION):
            metadata = replace(found.metadata, annotations=found.metadata.annotations | _DESCRIBED)
            self._cluster.replace(replace(found, metadata=metadata, data=data))
