"""Whether the metadata of an object is spelt as it must be."""

from __future__ import annotations

from collections.abc import Iterator

from kframework.fake_api.schema.causes import Cause, invalid, too_long
from kframework.fake_api.wire.documents import Data
from kframework.fake_api.wire.plain_data import mapping, text
from kframework.objects.syntax import dns_label, label_value, qualified_name

#: So many bytes may all annotations of an object have.
_LARGEST = 256 * 1024
#: Kinds whose names stand in those of domains.
_LABELS = ("Namespace", "Service")


def metadata_causes(metadata: Data, kind: str) -> Iterator[Cause]:
    """Yield what is wrong with the metadata of an object of this kind."""
    name = text(metadata, "name")
    if kind in _LABELS and name:
        yield from (invalid("metadata.name", name, each) for each in dns_label(name))
    yield from labels_causes(metadata, "")


def labels_causes(metadata: Data, path: str) -> Iterator[Cause]:
    """Yield what is wrong with labels and annotations; `path` is what stands before `metadata`."""
    for key, value in mapping(metadata, "labels").items():
        yield from (invalid(f"{path}metadata.labels", key, each) for each in qualified_name(key))
        yield from (invalid(f"{path}metadata.labels", value, each) for each in label_value(str(value)))
    annotations = mapping(metadata, "annotations")
    for key in annotations:
        yield from (invalid(f"{path}metadata.annotations", key, each) for each in qualified_name(key.lower()))
    if sum(len(key) + len(str(value)) for key, value in annotations.items()) > _LARGEST:
        yield too_long(f"{path}metadata.annotations", _LARGEST)
