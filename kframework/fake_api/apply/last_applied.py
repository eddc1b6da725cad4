"""The annotation in which kubectl keeps what it last applied as a client: of kubectl alone it counts."""

from __future__ import annotations

import msgspec

from kframework.fake_api.wire.documents import Data
from kframework.fake_api.wire.plain_data import mapping

KUBECTL = "kubectl"

_ANNOTATION = "kubectl.kubernetes.io/last-applied-configuration"


def last_applied(data: Data) -> Data | None:
    """Return what was last applied to an object by the client; None if nothing was, or nobody can read it."""
    text = mapping(data, "metadata.annotations").get(_ANNOTATION)
    try:
        found = msgspec.json.decode(text) if isinstance(text, str) and text else None
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def with_last_applied(data: Data, config: Data) -> Data:
    """Bring the annotation up to what the server has applied; an object without one gets none."""
    if last_applied(data) is None:
        return data
    said = {name: value for name, value in mapping(config, "metadata.annotations").items() if name != _ANNOTATION}
    text = msgspec.json.encode(_annotated(config, said), order="sorted").decode() + "\n"
    return _annotated(data, mapping(data, "metadata.annotations") | {_ANNOTATION: text})


def _annotated(data: Data, annotations: Data) -> Data:
    metadata = {name: value for name, value in mapping(data, "metadata").items() if name != "annotations"}
    return {**data, "metadata": metadata | ({"annotations": annotations} if annotations else {})}
