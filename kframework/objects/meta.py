"""The common parts of objects: metadata, owners and label selectors (apimachinery's meta/v1)."""

from __future__ import annotations

from typing import ClassVar

import msgspec

#: A quantity as written in the object; `kframework.objects.quantity` converts it to integers.
RawQuantity = str | int | float

#: Resource name (`cpu`, `memory`, `nvidia.com/gpu`, ...) -> quantity.
ResourceList = dict[str, RawQuantity]


class ApiStruct(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    rename="camel",
    omit_defaults=True,
    gc=False,  # values decoded from JSON cannot form cycles, so the collector need not walk a million of them
):
    """The root of everything the API writes as a JSON object.

    A field that is absent has Go's zero value, or None where the API distinguishes absent from zero. Unknown fields are
    ignored. Times stay RFC 3339 text.
    """

    #: Whether an object may have other fields than its struct in a declared kind, as the plugin reads a part of it.
    preserve_unknown_fields: ClassVar[bool] = False


class OwnerReference(ApiStruct, frozen=True, kw_only=True):
    """The object that owns this one; `controller` marks the managing one."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False
    block_owner_deletion: bool = False


class ObjectMeta(ApiStruct, frozen=True, kw_only=True):
    """The `metadata` of an object."""

    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    annotations: dict[str, str] = msgspec.field(default_factory=dict)
    owner_references: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()

    @property
    def controlling_owner(self) -> OwnerReference | None:
        """The owner that manages the object; None without one."""
        for each in self.owner_references:
            if each.controller:
                return each
        return None


class ApiObject(ApiStruct, frozen=True, kw_only=True):
    """The root of the kinds: an object with a name and its own version in the API."""

    metadata: ObjectMeta = ObjectMeta()


class Condition(ApiStruct, frozen=True, kw_only=True):
    """One observation of an object; `status` is True, False or Unknown."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None


class LabelSelectorRequirement(ApiStruct, frozen=True, kw_only=True):
    """One `matchExpressions` entry; operators are In, NotIn, Exists and DoesNotExist."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class LabelSelector(ApiStruct, frozen=True, kw_only=True):
    """Label requirements that must all hold; an empty selector matches everything, an absent one nothing."""

    match_labels: dict[str, str] = msgspec.field(default_factory=dict)
    match_expressions: tuple[LabelSelectorRequirement, ...] = ()
