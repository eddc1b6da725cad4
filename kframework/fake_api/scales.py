"""The subresource `scale`: how many replicas a workload has and is to have, as one and the same kind for all."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from kframework.client import api_errors
from kframework.fake_api.wire.documents import Data
from kframework.fake_api.wire.plain_data import mapping, number, text, value
from kframework.objects import LabelSelector
from kframework.objects.label_selectors import label_selector

SCALE = "autoscaling/v1"

#: What of the metadata a Scale has.
_METADATA = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


class ScalePaths(NamedTuple):
    """Where a kind says how many replicas it is to have, and has, and which selector chooses them, if it says so."""

    spec: str = "spec.replicas"
    status: str = "status.replicas"
    selector: str = "spec.selector"


def scale_of(paths: ScalePaths, data: Data) -> Data:
    """Show an object as its Scale."""
    metadata = {name: said for name, said in mapping(data, "metadata").items() if name in _METADATA}
    status: Data = {"replicas": number(data, paths.status)}
    if selector := _selector(value(data, paths.selector)):
        status["selector"] = selector
    spec = {"replicas": number(data, paths.spec)} if number(data, paths.spec) else {}
    return {"kind": "Scale", "apiVersion": SCALE, "metadata": metadata, "spec": spec, "status": status}


def _selector(said: object) -> str:
    """Write a selector in one line; one of a ReplicationController is a mapping, one of a custom resource that line."""
    if isinstance(said, str):
        return said
    if not isinstance(said, dict):
        return ""
    if not said.keys() <= {"matchLabels", "matchExpressions"}:
        return ",".join(f"{key}={said[key]}" for key in sorted(said))
    try:
        return str(label_selector(msgspec.convert(said, LabelSelector)))
    except ValueError:
        return ""


def scaled(paths: ScalePaths, data: Data, scale: Data) -> Data:
    """Return an object with the replicas that a Scale asks for; ClusterError 400 or 422 for what is none."""
    wanted = value(scale, "spec.replicas") or 0
    if scale.get("kind", "Scale") != "Scale" or not isinstance(wanted, int) or isinstance(wanted, bool):
        raise api_errors.bad_request("the body of the request is no Scale of autoscaling/v1 with whole replicas")
    if wanted < 0:
        name = text(data, "metadata.name")
        raise api_errors.invalid_scale(name, wanted)
    metadata = mapping(data, "metadata")
    if version := text(scale, "metadata.resourceVersion"):
        metadata = {**metadata, "resourceVersion": version}
    return _put({**data, "metadata": metadata}, paths.spec.split("."), wanted)


def _put(data: Data, path: list[str], said: object) -> Data:
    first, *rest = path
    return {**data, first: _put(mapping(data, first), rest, said) if rest else said}
