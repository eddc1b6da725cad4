"""Which part of an object a request may change: each has a path of its own, and who writes one touches no other."""

from __future__ import annotations

from collections.abc import Mapping

from kframework.fake_api.served import Resource
from kframework.fake_api.wire.documents import Data
from kframework.fake_api.wire.plain_data import entries, mapping
from kframework.in_memory.generations import is_custom

#: What of the metadata says which object is meant, and in which version.
_WHICH = ("name", "namespace", "uid", "resourceVersion")
_CONTAINERS = ("containers", "initContainers")
#: What of a container `resize` changes.
_RESIZED = ("resources", "resizePolicy")
#: What admission fills in again where an update of a pod leaves it out, and tolerations of these keys.
_FILLED = ("priority", "preemptionPolicy")
_TOLERATED = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


def with_part(resource: Resource, part: str, old: Data, new: Data, now: str) -> Data:
    """Return the old object with what the new one says of a part; the main part is "".

    `now` is for conditions that do not say since when they hold.
    """
    match part:
        case "status":
            return _timed(resource, old, _of_status(resource, old, new), now)
        case "approval":
            conditions = mapping(new, "status").get("conditions", [])
            status = {**mapping(old, "status"), "conditions": conditions}
            return _timed(resource, old, {**old, "metadata": new.get("metadata"), "status": status}, now)
        case "finalize":
            return _with(new, "status", old)
        case "ephemeralcontainers":
            spec = _with(mapping(old, "spec"), "ephemeralContainers", mapping(new, "spec"))
            return {**old, "metadata": new.get("metadata"), "spec": spec}
        case "resize":
            spec = _resized(mapping(old, "spec"), mapping(new, "spec"))
            return {**old, "metadata": new.get("metadata"), "spec": spec}
    return _of_main(resource, old, new)


def _of_main(resource: Resource, old: Data, new: Data) -> Data:
    """Take all from the new but the status, and what only other paths change."""
    kind = resource.kind
    if resource.has_status:
        new = _with(new, "status", old)
    match kind.api_version, kind.name:
        case "v1", "Pod":
            new = {**new, "spec": _readmitted(mapping(old, "spec"), mapping(new, "spec"))}
        case "v1", "Namespace":
            new = _with(new, "spec", old)
        case "certificates.k8s.io/v1", "CertificateSigningRequest":
            new = _with(new, "spec", old)
    return new


def _readmitted(old: Data, new: Data) -> Data:
    """Return the spec of a pod with what admission filled in when it was created."""
    filled = {field: value for field, value in old.items() if field in _FILLED} | new
    told = entries(new, "tolerations")
    keys = {each.get("key") for each in told}
    lost = [
        each for each in entries(old, "tolerations") if each.get("key") in _TOLERATED and each.get("key") not in keys
    ]
    return filled | {"tolerations": [*told, *lost]} if lost else filled


def _of_status(resource: Resource, old: Data, new: Data) -> Data:
    """Take the status from the new, and the metadata, but nothing else.

    Of a custom resource not even the metadata, but for what says which object is meant, and in which version.
    """
    kept, said = old.get("metadata"), new.get("metadata")
    if is_custom(resource.kind) and isinstance(kept, Mapping) and isinstance(said, Mapping):
        rest = {field: value for field, value in kept.items() if field not in _WHICH}
        new = {**new, "metadata": rest | {field: said[field] for field in _WHICH if field in said}}
    return _with(_with(old, "status", new), "metadata", new)


def _timed(resource: Resource, old: Data, new: Data, now: str) -> Data:
    """Say of each condition of a request for a certificate since when it holds; others say it themselves."""
    if resource.kind.name != "CertificateSigningRequest":
        return new
    before = {(each.get("type"), each.get("status")): each for each in entries(old, "status.conditions")}
    conditions = [
        {
            "lastUpdateTime": now,
            "lastTransitionTime": before.get((each.get("type"), each.get("status")), {}).get("lastTransitionTime", now),
        }
        | each
        for each in entries(new, "status.conditions")
    ]
    return {**new, "status": {**mapping(new, "status"), "conditions": conditions}}


def _resized(old: Data, new: Data) -> Data:
    """Take resources and how they change from the new; where the containers are others, all, which is refused then."""
    lists = [(entries(old, field), entries(new, field)) for field in _CONTAINERS]
    if any([each.get("name") for each in was] != [each.get("name") for each in told] for was, told in lists):
        return new
    spec = _with(old, "resources", new)
    for field, (was, told) in zip(_CONTAINERS, lists, strict=True):
        if was:
            spec[field] = [_with_all(each, _RESIZED, other) for each, other in zip(was, told, strict=True)]
    return spec


def _with_all(data: Data, fields: tuple[str, ...], source: Data) -> Data:
    for field in fields:
        data = _with(data, field, source)
    return data


def _with(data: Data, field: str, source: Data) -> Data:
    rest = {name: value for name, value in data.items() if name != field}
    return rest | {field: source[field]} if field in source else rest
