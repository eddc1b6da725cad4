"""Where the cluster is, be it real or in memory; one Protocol, two siblings behind it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from kframework.client.event_record import EventRecord
    from kframework.objects import ApiObject, PodCondition
    from kframework.state.inbox import Message

T = TypeVar("T", bound="ApiObject")


class Cluster(Protocol):
    """The API of a cluster, as far as a scheduler needs it; every call may raise ClusterError.

    `kind` is the struct of a registered kind of `kframework.objects`; objects carry their resource version, and where a
    caller passes one it is a precondition (status 409 when it has moved on).
    """

    async def watch(
        self, kinds: Collection[type[ApiObject]], offer: Callable[[Message], None], *, ended_pods: bool = False
    ) -> None:
        """List these kinds, then follow them for ever.

        Every object arrives as Changed, every one that went as Gone, in the order in which the API did it per kind;
        Synced follows the first complete listing of all kinds. Pods that have ended (Succeeded, Failed) count as gone;
        with `ended_pods` they are Changed like others, until they are deleted. Of a pod that went unseen, Gone may
        tell no more than name and uid.
        """
        ...

    async def follow(self, kind: type[T], name: str, namespace: str, tell: Callable[[T | None], None]) -> None:
        """Tell of one object as it is now, then of each change, None when it goes, until the server ends that."""
        ...

    def bind(self, namespace: str, name: str, uid: str, node_name: str) -> Awaitable[None]:
        """Bind a pod to a node; the uid is a precondition, and status 409 says it is bound, gated or being deleted.

        DONE where that is done already. The call raises nothing: who awaits it hears what went wrong.
        """
        ...

    def patch_pod_status(
        self,
        namespace: str,
        name: str,
        uid: str,
        *,
        condition: PodCondition | None = None,
        nominated_node_name: str | None = None,
    ) -> Awaitable[None]:
        """Set a condition of a pod, its nominated node, or both, in one write; None leaves as it is.

        The uid is a precondition (status 409). What the pod says already is not written. DONE as in `bind`.
        """
        ...

    def record_event(self, record: EventRecord) -> Awaitable[None]:
        """Write an Event of what was told, or the growth of its series; one that has been written already is no error.

        DONE as in `bind`.
        """
        ...

    async def get(self, kind: type[T], name: str, namespace: str = "") -> T:
        """Read one object; status 404 if there is none."""
        ...

    async def list(self, kind: type[T], namespace: str = "") -> list[T]:
        """Read all objects of a kind, in a namespace or in all."""
        ...

    async def create(self, obj: T) -> T:
        """Create the object and return it as stored; status 409 if it exists, 404 if its namespace does not.

        403 and 422 say what is wrong with it. Its status is left out, unless it is a node.
        """
        ...

    async def update(self, obj: T) -> T:
        """Replace the object, all but its status, and return it as stored.

        Its resource version, if set, is a precondition; some kinds, among them leases, must have one (status 422).
        """
        ...

    async def patch(self, kind: type[T], name: str, patch: Mapping[str, object], namespace: str = "") -> T:
        """Merge-patch the object, all but its status, and return it as stored."""
        ...

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
        """Merge-patch the status of the object, as `{"phase": "Running"}`, and return the object as stored.

        A uid and a resource version are preconditions (status 409). Status 404 says that there is no such object, or
        that its kind has no status. What changes nothing is not written.
        """
        ...

    async def delete(self, kind: type[ApiObject], name: str, namespace: str = "", *, uid: str = "") -> None:
        """Delete the object, a pod on a node after its grace period; a uid is a precondition."""
        ...
