"""The API of a cluster as a Protocol, implemented by the Kubernetes client and by the cluster in memory."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol, TypeVar, runtime_checkable

if TYPE_CHECKING:
    from kframework.client.event_record import EventRecord, RunEvents
    from kframework.core.cycle.run import Run
    from kframework.errors import ClusterError
    from kframework.objects import ApiObject, PodCondition
    from kframework.state.inbox import Message

T = TypeVar("T", bound="ApiObject")

#: Selects every object.
NO_LABELS: Mapping[str, str] = MappingProxyType({})


@runtime_checkable
class RunBinder(Protocol):
    """A cluster that can bind the pods of a run at once, as one in memory can."""

    @property
    def can_bind_runs(self) -> bool:
        """Whether it can now."""

    def bind_run(self, run: Run) -> dict[int, ClusterError]:
        """Bind the pods, and return the errors of those that could not be bound, by their index."""

    def record_run(self, events: RunEvents) -> bool:
        """Record that the pods are bound; False where that must be recorded of each by itself."""


class Cluster(Protocol):
    """The part of the Kubernetes API that a scheduler uses; every call may raise ClusterError.

    `kind` is the struct of a kind registered in `kframework.objects`. Objects carry their resource version; one that a
    caller passes is a precondition (status 409 if it is outdated).
    """

    async def watch(
        self, kinds: Collection[type[ApiObject]], offer: Callable[[Message], None], *, ended_pods: bool = False
    ) -> None:
        """List these kinds, then watch them forever.

        Every object arrives as Changed, every deletion as Gone, in the API's order per kind; Synced follows the first
        complete list of all kinds. Pods that have ended (Succeeded, Failed) arrive as Gone; with `ended_pods` they are
        Changed like others until they are deleted. Gone holds only name and uid if the pod's deletion was not watched.
        """

    async def follow(self, kind: type[T], name: str, namespace: str, on_change: Callable[[T | None], None]) -> None:
        """Watch one object until the server ends the watch: report its state, each change, and None on deletion."""

    def bind(self, namespace: str, name: str, uid: str, node_name: str) -> Awaitable[None]:
        """Bind a pod to a node; the uid is a precondition (409, also if it is bound, gated or being deleted).

        Returns COMPLETED if that is complete already. The call itself raises nothing; the awaitable does.
        """

    def patch_pod_status(
        self,
        namespace: str,
        name: str,
        uid: str,
        *,
        condition: PodCondition | None = None,
        nominated_node_name: str | None = None,
    ) -> Awaitable[None]:
        """Set a condition of a pod, its nominated node, or both, in one write; None leaves a field unchanged.

        The uid is a precondition (status 409). An unchanged status is not written. Returns COMPLETED as `bind` does.
        """

    def record_event(self, record: EventRecord) -> Awaitable[None]:
        """Write an Event, or update its series; an Event that exists already is no error.

        Returns COMPLETED as `bind` does.
        """

    async def get(self, kind: type[T], name: str, namespace: str = "") -> T:
        """Read one object; status 404 if it does not exist."""

    async def list(self, kind: type[T], namespace: str = "", *, labels: Mapping[str, str] = NO_LABELS) -> list[T]:
        """Read all objects of a kind that have these labels, in one namespace or in all."""

    async def create(self, obj: T) -> T:
        """Create the object and return it as stored; status 409 if it exists, 404 if its namespace does not.

        403 and 422 describe the error. Its status is ignored, except for nodes.
        """

    async def update(self, obj: T) -> T:
        """Replace the object except for its status, and return it as stored.

        Its resource version, if set, is a precondition; some kinds, such as leases, require one (status 422).
        """

    async def patch(self, kind: type[T], name: str, patch: Mapping[str, object], namespace: str = "") -> T:
        """Merge-patch the object except for its status, and return it as stored."""

    async def patch_status(
        self,
        kind: type[T],
        name: str,
        patch: Mapping[str, object],
        namespace: str = "",
        *,
        uid: str = "",
        resource_version: str = "",
    ) -> T:
        """Merge-patch the status of the object, such as `{"phase": "Running"}`, and return the object as stored.

        A uid and a resource version are preconditions (status 409). Status 404: the object does not exist, or its kind
        has no status. A patch that changes nothing is not written.
        """

    async def delete(self, kind: type[ApiObject], name: str, namespace: str = "", *, uid: str = "") -> None:
        """Delete the object, a pod on a node after its grace period; the uid is a precondition."""
