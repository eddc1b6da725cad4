"""The store of a cluster in memory: objects and their versions, as in an API server, but synchronous.

It is for the cluster's own side: loading, kubelets, controllers, a simulation's script.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cache, lru_cache
from itertools import zip_longest

from msgspec import structs

from kframework.client import api_errors, transitions
from kframework.client.event_record import EventRecord
from kframework.clock import Clock, rfc3339
from kframework.errors import ClusterError
from kframework.in_memory import admission, device_admission
from kframework.in_memory.kind_store import Change, ChangeHandler, Draft, KindStore
from kframework.in_memory.pod_admission import NO_POLICIES, Policies, check_change
from kframework.objects import (
    ApiObject,
    CompositePodGroup,
    DeviceTaintRule,
    Event,
    LimitRange,
    Namespace,
    Node,
    ObjectMeta,
    PersistentVolumeClaim,
    Pod,
    PodGroup,
    PodStatus,
    PriorityClass,
    RuntimeClass,
    kind_of,
)
from kframework.objects.kinds import T
from kframework.objects.syntax import Messages, dns_label, dns_subdomain
from kframework.values.feature_gates import DEFAULT_GATES, FeatureGates

#: Kinds whose names become parts of host names. Those of RBAC may have any path segment as name.
_DNS_LABEL_KINDS = frozenset({("v1", "Namespace"), ("v1", "Service"), ("apps/v1", "StatefulSet")})
_RBAC_GROUP = "rbac.authorization.k8s.io/"


def check_name(subject: T) -> T:
    """Return the object; ClusterError 422 if its name is invalid for its kind."""
    name = subject.metadata.name
    messages = [f'Invalid value: "{name:.253}": {why}' for why in _name_syntax(type(subject))(name)]
    if not messages:
        return subject
    raise api_errors.invalid(type(subject), name, "metadata.name", *messages)


@cache
def _name_syntax(struct: type[ApiObject]) -> Callable[[str], Messages]:
    kind = kind_of(struct)
    if not kind.api_version.startswith(_RBAC_GROUP):
        return dns_label if (kind.api_version, kind.name) in _DNS_LABEL_KINDS else dns_subdomain

    def path_segment(name: str) -> Messages:
        if name in (".", ".."):
            return (f"may not be '{name}'",)
        return tuple(f"may not contain '{each}'" for each in "/%" if each in name)

    return path_segment


#: A JSON object as plain data.
Data = dict[str, object]

_SYSTEM_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
_IMMORTAL_NAMESPACES = ("default", "kube-public", "kube-system")
#: Kinds that other objects need at their own creation.
_LOADED_FIRST = (Namespace, PriorityClass, RuntimeClass, LimitRange)


class MemoryStore:
    """The objects of a cluster that lives in this process.

    `objects` are stored as they are, except for an API server's defaults: uid, status and node of a running pod
    stay. Output of `kubectl get pods` rarely contains its namespaces, so those that objects name are created.
    Resource versions continue after `version`; `feature_gates` decide which kinds and fields it serves.
    """

    def __init__(
        self,
        clock: Clock,
        objects: Iterable[ApiObject] = (),
        documents: Iterable[Data] = (),
        version: int = 0,
        feature_gates: FeatureGates = DEFAULT_GATES,
    ) -> None:
        self.feature_gates: FeatureGates = feature_gates
        #: The certificate (PEM) by which clients know its API server; empty where that serves without TLS.
        self.certificate_authority: str = ""
        #: Checks a binding of a pod to a node beyond what API servers check; it raises the ClusterError.
        self.admit_binding: Callable[[Pod, str], None] | None = None
        self._clock = clock
        #: The resource version of the last write.
        self.version: int = version
        self._kind_stores: dict[type[ApiObject], KindStore[ApiObject]] = {}
        self._all_kinds_handler: ChangeHandler | None = None
        self._ignored_finalizers = transitions.IGNORED_FINALIZERS
        self._terminating_namespaces: set[str] = set()  # namespaces that were deleted, and still hold something
        #: Events of pods that no client has read yet, with the version before and the time: in a simulation they are
        #: never read, and to create and store an Event took 20 us of a pod's 270.
        self._buffered_events: list[tuple[Sequence[EventRecord], int, str]] = []
        #: One dict for all pods of the cluster with these labels: what is computed from labels is cached by identity.
        #: It is not the module's, because a faulty plugin may write to it.
        self._labels_of_pods = lru_cache(maxsize=4096)(dict[str, str])
        self._load_initial(objects, documents)
        #: The versions that the initial objects have.
        self.initial_versions: range = range(version + 1, self.version + 1)

    def _load_initial(self, objects: Iterable[ApiObject], documents: Iterable[Data]) -> None:
        self.load(objects, documents)
        for name in _SYSTEM_NAMESPACES:
            self._ensure_namespace(name)

    def timestamp(self) -> str:
        return _format_second(int(self._clock.now()))

    def load(self, objects: Iterable[ApiObject], documents: Iterable[Data] = ()) -> None:
        """Add objects, in an order in which none lacks another; raises as `add` does.

        `documents` are the whole documents of the first of them, in the same order.
        """
        loaded = zip_longest(objects, documents)
        for subject, data in sorted(loaded, key=lambda each: not isinstance(each[0], _LOADED_FIRST)):
            self.add(subject, document=data)

    def replace_all(self, objects: Iterable[ApiObject], documents: Iterable[Data] = ()) -> None:
        self._store_events()
        for kind_store in self._kind_stores.values():
            for key in list(kind_store.objects):
                self.version += 1
                kind_store.write(key, None, self.version)
        self._load_initial(objects, documents)

    def find(self, kind: type[T], name: str, namespace: str = "") -> T | None:
        """Return an object, or None; no namespace means `default`."""
        # Called ten times for a pod with a claim, so the usual case needs no other call.
        kind_store = self._kind_stores.get(kind) if kind is not Event else None
        if kind_store is None:
            kind_store = self._kind_store(kind)
        key = ((namespace or "default") if kind_store.namespaced else "", name)
        return kind_store.objects.get(key)  # type: ignore[return-value]  # as in _kind_store

    def read(self, kind: type[T], name: str, namespace: str = "", *, uid: str = "") -> T:
        """Return an object; ClusterError 404 if there is none, 409 if it is not the one of this uid."""
        subject = self.find(kind, name, namespace)
        if subject is None:
            raise api_errors.not_found(kind, name)
        if uid not in ("", subject.metadata.uid):
            raise api_errors.uid_conflict(kind, name, uid, subject.metadata.uid)
        return subject

    def objects(self, kind: type[T], namespace: str = "") -> list[T]:
        objects = self._kind_store(kind).objects.values()
        return [each for each in objects if each.metadata.namespace == namespace] if namespace else [*objects]

    def add(self, subject: T, *, document: Data | None = None) -> T:
        """Create an object, and its namespace too if there is none; ClusterError 403, 409 or 422 as an API server.

        `document` is the whole document of the object, from a writer that has more fields than the struct.
        """
        admitted = self.admit(subject)
        if admitted.metadata.namespace:
            self._ensure_namespace(admitted.metadata.namespace)
        return self.write(admitted, _draft(subject, document))

    def admit(self, subject: T) -> T:
        """Return the object as `add` would store it; raises as it does."""
        kind, kind_store = type(subject), self._kind_store(type(subject))
        if not subject.metadata.name:
            if not subject.metadata.generate_name:
                raise api_errors.name_required(kind)
            subject = structs.replace(subject, metadata=self._generate_name(kind_store, subject.metadata))
        if isinstance(subject, Pod):
            labels = self._labels_of_pods(tuple(subject.metadata.labels.items()))
            subject = structs.replace(subject, metadata=structs.replace(subject.metadata, labels=labels))
        policies = self._policies_for(subject)
        subject = admission.admit_create(subject, self.version + 1, self.timestamp(), policies)
        key = kind_store.key(subject.metadata)
        if key in kind_store.objects:
            raise api_errors.already_exists(kind, key[1])
        return subject

    def admit_request(self, subject: T) -> T:
        """Return the object as a client's create request would store it; ClusterError as an API server."""
        namespace, _ = self._kind_store(type(subject)).key(subject.metadata)
        if namespace:
            home = self.read(Namespace, namespace).metadata
            if home.deletion_timestamp is not None:
                raise api_errors.namespace_terminating(type(subject), subject.metadata.name, namespace)
            device_admission.check_admin_access(subject, home.labels)
        subject = admission.prepare_for_create(subject)
        return self.admit(check_name(subject)) if subject.metadata.name else check_name(self.admit(subject))

    def replace(self, subject: T, *, document: Data | None = None) -> T:
        """Replace a stored object; uid and resource version, where set, are preconditions.

        An unchanged object is not written, unless there is a whole document as in `add`. ClusterError 404, 409 or 422.
        """
        metadata = subject.metadata
        return self.replace_stored(self.read(type(subject), metadata.name, metadata.namespace), subject, document)

    def replace_stored(self, old: T, subject: T, document: Data | None = None) -> T:
        """As `replace`, for a stored object that was just read."""
        new = self.admit_update(subject, old)
        if new == old and document is None:
            return old
        return self.write(new, _draft(subject, document))

    def merge(self, kind: type[T], name: str, patch: Mapping[str, object], namespace: str = "") -> T:
        """Merge changes into an object, its status too; ClusterError 400 if they do not fit, else as `replace`."""
        return self.replace(admission.apply_patch(self.read(kind, name, namespace), patch))

    def admit_update(self, subject: T, old: T) -> T:
        """Return the object as `replace` would store it in place of `old`, which need not be stored; raises alike."""
        kind, name, uid = type(subject), subject.metadata.name, subject.metadata.uid
        if uid not in ("", old.metadata.uid):
            raise api_errors.uid_conflict(kind, name, uid, old.metadata.uid)
        if subject.metadata.resource_version not in ("", old.metadata.resource_version):
            raise api_errors.version_conflict(kind, name)
        if isinstance(old, DeviceTaintRule):
            subject = device_admission.with_taint_time(old, subject, self.timestamp())
        new = admission.admit_update(old, subject)
        check_change(old, new, self._policies_for(new))
        return new

    def _policies_for(self, subject: ApiObject) -> Policies:
        if not isinstance(subject, Pod | PersistentVolumeClaim | PriorityClass | PodGroup | CompositePodGroup):
            return NO_POLICIES
        ranges = self._kind_store(LimitRange).objects.values()
        namespace = subject.metadata.namespace or "default"
        return Policies(
            self._kind_store(PriorityClass).objects.values(),
            self._kind_store(RuntimeClass).objects.values(),
            [each for each in ranges if each.metadata.namespace == namespace] if ranges else (),
        )

    def write(self, subject: T, draft: Draft | None = None) -> T:
        """Store an admitted object under a new version, with its whole document if there is a draft."""
        kind_store = self._kind_store(type(subject))
        self.version += 1
        is_ending = subject.metadata.deletion_timestamp is not None
        is_ending = is_ending and kind_store.key(subject.metadata) in kind_store.objects  # else it is loaded as it was
        stored = _store_version(kind_store, subject, self.version, draft)
        if is_ending and transitions.is_over(stored, self._ignored_finalizers):
            self._delete(kind_store, stored)
        return stored

    def take_drafts(self, kind: type[ApiObject]) -> dict[tuple[str, str], Draft]:
        """Return the drafts of a kind passed until now; from now on only changes carry them."""
        return self._kind_store(kind).take_drafts()

    def put(self, subject: T) -> T:
        kind_store = self._kind_store(type(subject))
        if kind_store.key(subject.metadata) not in kind_store.objects:
            return self.add(subject)
        metadata = structs.replace(subject.metadata, uid="", resource_version="")
        return self.replace(structs.replace(subject, metadata=metadata))

    def remove(
        self,
        kind: type[ApiObject],
        name: str,
        namespace: str = "",
        *,
        uid: str = "",
        grace: int | None = None,
        policy: str | None = None,
    ) -> None:
        """Delete an object; ClusterError 403, 404, or 409 if it is not the one of this uid.

        A pod on a node gets `grace` seconds, None meaning those of its spec, until a kubelet deletes it with 0.
        An object with finalizers is gone when they are removed; `policy` (Foreground, Orphan, Background) sets those of
        the garbage collector. A namespace is deleted with all its objects, pods without grace.
        """
        kind_store = self._kind_store(kind)
        old = self.read(kind, name, namespace)
        if uid not in ("", old.metadata.uid):
            raise api_errors.deletion_conflict(kind, name, uid, old.metadata.uid)
        if isinstance(old, Namespace):
            self._delete_namespace(old)
            return
        propagating = transitions.with_propagation_policy(old, policy)
        rest = transitions.start_deletion(propagating, grace, self._clock.now(), self._ignored_finalizers)
        if rest is None:
            self._delete(kind_store, old)
        elif rest is not old:
            self.write(rest)

    def remove_object(self, subject: ApiObject, *, grace: int | None = None, policy: str | None = None) -> None:
        metadata = subject.metadata
        self.remove(type(subject), metadata.name, metadata.namespace, uid=metadata.uid, grace=grace, policy=policy)

    def honor_finalizer(self, finalizer: str) -> None:
        """Let deletions wait for a finalizer that is otherwise ignored, because no controller removes it."""
        self._ignored_finalizers -= {finalizer}

    def _delete_namespace(self, old: Namespace) -> None:
        """Delete a namespace with its contents; ClusterError 403 for a system namespace."""
        name = old.metadata.name
        if name in _IMMORTAL_NAMESPACES:
            raise api_errors.forbidden(Namespace, name, "this namespace may not be deleted")
        if old.metadata.deletion_timestamp is None:
            self.write(transitions.terminate_namespace(old, self._clock.now()))
        self._store_events()  # buffered events are deleted too, and do not outlive the namespace
        for kind in [kind for kind, kind_store in self._kind_stores.items() if kind_store.kind.namespaced]:
            for each in self.objects(kind, name):
                self.remove_object(each, grace=0)
        self._terminating_namespaces.add(name)
        self._finalize_namespace(name)

    def _finalize_namespace(self, name: str) -> None:
        namespaced = (each for each in self._kind_stores.values() if each.kind.namespaced)
        if not any(namespace == name for kind_store in namespaced for namespace, _ in kind_store.objects):
            self._terminating_namespaces.remove(name)
            self.write(transitions.remove_namespace_finalizer(self.read(Namespace, name)))

    def assign(self, namespace: str, name: str, uid: str, node_name: str) -> Pod:
        """Bind a pod to a node; ClusterError 404, or 409 if it is another, bound, gated or being deleted."""
        pod = self.read(Pod, name, namespace, uid=uid)
        if self.admit_binding is not None:
            self.admit_binding(pod, node_name)
        bound = transitions.bind_pod(
            pod, node_name, self.find(Node, node_name), self.timestamp(), str(self.version + 1)
        )
        self.version += 1
        self._kind_store(Pod).write_all([Change(self.version, pod, bound, binds=True)])
        return bound

    def assign_pods(self, assigned: Iterable[tuple[str, str, str, str]]) -> dict[int, ClusterError]:
        """Bind pods, given by namespace, name, uid and node; return the errors of `assign` by position."""
        kind_store, now = self._kind_store(Pod), self.timestamp()
        pods, nodes = kind_store.objects, self._kind_store(Node).objects
        changes, errors = list[Change](), dict[int, ClusterError]()
        for position, (namespace, name, uid, node_name) in enumerate(assigned):
            try:
                old = pods.get((namespace, name))
                if old is None or old.metadata.uid != uid:
                    old = self.read(Pod, name, namespace, uid=uid)
                version = str(self.version + 1)
                new = transitions.bind_pod(old, node_name, nodes.get(("", node_name)), now, version)
            except ClusterError as error:
                errors[position] = error
                continue
            self.version += 1
            changes.append(Change(self.version, old, new, binds=True))
        kind_store.write_all(changes)
        return errors

    def set_status(self, pod: Pod, status: PodStatus) -> Pod:
        """Set a pod's status; `pod` is the stored one, and an unchanged status is not written."""
        if status == pod.status:
            return pod
        if pod.metadata.deletion_timestamp is not None:
            return self.write(structs.replace(pod, status=status))
        (written,) = self.set_statuses([(pod, status)])
        return written

    def set_statuses(self, changed: Iterable[tuple[Pod, PodStatus]]) -> list[Pod]:
        """Set the statuses of stored pods that are not being deleted, each pod once; return the new versions."""
        changes, written = list[Change](), list[Pod]()
        for old, status in changed:
            self.version += 1
            metadata = structs.replace(old.metadata, resource_version=str(self.version))
            new = structs.replace(old, metadata=metadata, status=status)
            written.append(new)
            changes.append(Change(self.version, old, new, is_of_status=True))
        self._kind_store(Pod).write_all(changes)
        return written

    def buffer_event(self, record: EventRecord) -> None:
        """Store a scheduler's event about a pod; ClusterError 404 if its namespace does not exist."""
        self.read(Namespace, record.series_key.pod.namespace)
        self.buffer_events((structs.replace(record),))  # the client counts on in its own

    def buffer_events(self, records: Sequence[EventRecord]) -> None:
        self._buffered_events.append((records, self.version, self.timestamp()))
        self.version += len(records)
        if Event in self._kind_stores and self._kind_stores[Event].subscribers:
            self._store_events()

    def subscribe(self, kinds: Collection[type[ApiObject]], receive: ChangeHandler) -> Callable[[], None]:
        """Call back with every change during its write, until the returned function is called."""
        kind_stores = [self._kind_store(kind) for kind in kinds]
        for kind_store in kind_stores:
            kind_store.subscribe(receive)

        def stop() -> None:
            for kind_store in kind_stores:
                kind_store.unsubscribe(receive)

        return stop

    def subscribe_all(self, receive: ChangeHandler) -> Callable[[], None]:
        """Call back with every object and change of all kinds except Event, until the returned function is called."""
        self._all_kinds_handler = receive
        for kind_store in [each for each in self._kind_stores.values() if each.kind.struct is not Event]:
            for each in [*kind_store.objects.values()]:
                receive(Change(0, None, each))
            kind_store.subscribe(receive)

        def stop() -> None:
            self._all_kinds_handler = None
            for kind_store in self._kind_stores.values():
                kind_store.unsubscribe(receive)

        return stop

    # --- storing ------------------------------------------------------------------------------------------------------

    def _kind_store(self, kind: type[T]) -> KindStore[T]:
        if kind is Event and self._buffered_events:
            self._store_events()
        if kind not in self._kind_stores:
            try:
                self._kind_stores[kind] = KindStore(kind_of(kind))
            except KeyError:
                raise api_errors.unknown_kind() from None
            if self._all_kinds_handler is not None and kind is not Event:
                self._kind_stores[kind].subscribe(self._all_kinds_handler)
        return self._kind_stores[kind]  # type: ignore[return-value]  # a dict cannot express that key and value agree

    def _delete(self, kind_store: KindStore[T], deleted: T) -> None:
        """Remove a deleted object, and its namespace if that waits for it."""
        self.version += 1
        kind_store.write(kind_store.key(deleted.metadata), None, self.version)
        if isinstance(deleted, Namespace):  # it may have been finalized with something in it
            self._terminating_namespaces.discard(deleted.metadata.name)
        if deleted.metadata.namespace in self._terminating_namespaces:
            self._finalize_namespace(deleted.metadata.namespace)

    def _store_events(self) -> None:
        """Create the Events from their buffered records, each as it would have been stored at its time."""
        buffered, self._buffered_events = self._buffered_events, []
        kind_store = self._kind_store(Event)
        for records, before, now in buffered:
            for version, record in enumerate(records, before + 1):
                event = record.event()
                old = kind_store.objects.get(kind_store.key(event.metadata))
                if old is None:
                    _store_version(kind_store, admission.admit_create(event, version, now, NO_POLICIES), version)
                elif event.series is not None:
                    _store_version(kind_store, structs.replace(old, series=event.series), version)

    def _generate_name(self, kind_store: KindStore[T], metadata: ObjectMeta) -> ObjectMeta:
        number = self.version
        while True:
            number += 1
            named = structs.replace(metadata, name=admission.generate_name(metadata.generate_name, number))
            if kind_store.key(named) not in kind_store.objects:
                return named

    def _ensure_namespace(self, name: str) -> None:
        if self.find(Namespace, name) is None:
            self.add(Namespace(metadata=ObjectMeta(name=name)))


def _draft(subject: ApiObject, data: Data | None) -> Draft | None:
    return Draft(subject, data) if data is not None else None


def _store_version(kind_store: KindStore[T], subject: T, version: int, draft: Draft | None = None) -> T:
    metadata = structs.replace(subject.metadata, resource_version=str(version))
    stored = structs.replace(subject, metadata=metadata)
    kind_store.write((metadata.namespace, metadata.name), stored, version, draft)
    return stored


@lru_cache(maxsize=16)  # many writes fall into one second, and formatting costs as much as the write
def _format_second(second: int) -> str:
    return rfc3339(second)
