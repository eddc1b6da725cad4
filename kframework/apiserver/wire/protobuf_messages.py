"""The messages of Kubernetes' protobuf that clients send, with the field numbers of its `generated.proto` files."""

from __future__ import annotations

from collections.abc import Iterator

#: A line a message: number, name and type of each field, a string if no type stands there. A star marks a field that is
#: repeated, a question mark one that counts even where its value is zero or empty; `map` is one from string to string.
_WRITTEN = """
Unknown: 1 typeMeta TypeMeta, 2 raw bytes, 3 contentEncoding
TypeMeta: 1 apiVersion, 2 kind
ObjectMeta: 1 name, 2 generateName, 3 namespace, 5 uid, 6 resourceVersion, 7 generation int, 8 creationTimestamp Time,
    11 labels map, 12 annotations map, 13 ownerReferences *OwnerReference, 14 finalizers *string
OwnerReference: 1 kind, 3 name, 4 uid, 5 apiVersion, 6 controller bool?, 7 blockOwnerDeletion bool?
ObjectReference: 1 kind, 2 namespace, 3 name, 4 uid, 5 apiVersion, 6 resourceVersion, 7 fieldPath
LabelSelector: 1 matchLabels map, 2 matchExpressions *LabelSelectorRequirement
LabelSelectorRequirement: 1 key, 2 operator, 3 values *string
DeleteOptions: 1 gracePeriodSeconds int?, 2 preconditions Preconditions, 4 propagationPolicy, 5 dryRun *string
Preconditions: 1 uid, 2 resourceVersion
Eviction: 1 metadata ObjectMeta, 2 deleteOptions DeleteOptions
Binding: 1 metadata ObjectMeta, 2 target ObjectReference
Namespace: 1 metadata ObjectMeta, 2 spec NamespaceSpec
NamespaceSpec: 1 finalizers *string
Service: 1 metadata ObjectMeta, 2 spec ServiceSpec
ServiceSpec: 1 ports *ServicePort, 2 selector map, 3 clusterIP, 4 type, 5 externalIPs *string, 7 sessionAffinity,
    10 externalName, 11 externalTrafficPolicy, 18 clusterIPs *string
ServicePort: 1 name, 2 protocol, 3 port int, 4 targetPort IntOrString, 5 nodePort int, 6 appProtocol
PodDisruptionBudget: 1 metadata ObjectMeta, 2 spec PodDisruptionBudgetSpec
PodDisruptionBudgetSpec: 1 minAvailable IntOrString?, 2 selector LabelSelector?, 3 maxUnavailable IntOrString?,
    4 unhealthyPodEvictionPolicy
PriorityClass: 1 metadata ObjectMeta, 2 value int?, 3 globalDefault bool, 4 description, 5 preemptionPolicy
Lease: 1 metadata ObjectMeta, 2 spec LeaseSpec
LeaseSpec: 1 holderIdentity string?, 2 leaseDurationSeconds int?, 3 acquireTime MicroTime, 4 renewTime MicroTime,
    5 leaseTransitions int?, 6 strategy, 7 preferredHolder
Event: 1 metadata ObjectMeta, 2 eventTime MicroTime, 3 series EventSeries, 4 reportingController, 5 reportingInstance,
    6 action, 7 reason, 8 regarding ObjectReference, 9 related ObjectReference, 10 note, 11 type,
    12 deprecatedSource EventSource, 13 deprecatedFirstTimestamp Time, 14 deprecatedLastTimestamp Time,
    15 deprecatedCount int
CoreEvent: 1 metadata ObjectMeta, 2 involvedObject ObjectReference, 3 reason, 4 message, 5 source EventSource,
    6 firstTimestamp Time, 7 lastTimestamp Time, 8 count int, 9 type, 10 eventTime MicroTime, 11 series EventSeries,
    12 action, 13 related ObjectReference, 14 reportingComponent, 15 reportingInstance
EventSeries: 1 count int, 2 lastObservedTime MicroTime
EventSource: 1 component, 2 host
SelfSubjectReview: 1 metadata ObjectMeta
SelfSubjectAccessReview: 1 metadata ObjectMeta, 2 spec SelfSubjectAccessReviewSpec
SelfSubjectAccessReviewSpec: 1 resourceAttributes ResourceAttributes, 2 nonResourceAttributes NonResourceAttributes
ResourceAttributes: 1 namespace, 2 verb, 3 group, 4 version, 5 resource, 6 subresource, 7 name
NonResourceAttributes: 1 path, 2 verb
IntOrString: 1 type int?, 2 intVal int?, 3 strVal string?
Time: 1 seconds int?, 2 nanos int?
MicroTime: 1 seconds int?, 2 nanos int?
map: 1 key string?, 2 value string?
"""


def _read(fields: str) -> Iterator[tuple[int, tuple[str, str]]]:
    for field in fields.split(","):
        number, name, kind = [*field.split(), "string"][:3]
        yield int(number), (name, kind)


#: Message -> field number -> name and type.
MESSAGES: dict[str, dict[int, tuple[str, str]]] = {
    message: dict(_read(fields))
    for message, fields in (line.split(":") for line in _WRITTEN.replace(",\n", ",").strip().splitlines())
}
