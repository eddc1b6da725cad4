"""Whether metadata, and what makes pods, makes sense: labels, selectors, templates, numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kframework.fake_api.schema.causes import Cause, forbidden, invalid, required, too_long, unsupported
from kframework.fake_api.schema.validation.pods import spec_causes
from kframework.fake_api.wire.documents import Data
from kframework.fake_api.wire.plain_data import entries, mapping, text, value
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
    for key, label in mapping(metadata, "labels").items():
        yield from (invalid(f"{path}metadata.labels", key, each) for each in qualified_name(key))
        yield from (invalid(f"{path}metadata.labels", label, each) for each in label_value(str(label)))
    annotations = mapping(metadata, "annotations")
    for key in annotations:
        yield from (invalid(f"{path}metadata.annotations", key, each) for each in qualified_name(key.lower()))
    if sum(len(key) + len(str(value)) for key, value in annotations.items()) > _LARGEST:
        yield too_long(f"{path}metadata.annotations", _LARGEST)


_MISMATCH = "`selector` does not match template `labels`"
_NUMBERS = (
    *("replicas", "minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"),
    *("parallelism", "completions", "backoffLimit", "ttlSecondsAfterFinished"),
)


def kept_running(data: Data, kind: str) -> Iterator[Cause]:
    """Yield what is wrong with what keeps pods running: Deployment, ReplicaSet, StatefulSet, DaemonSet."""
    spec = mapping(data, "spec")
    yield from negative_numbers(spec, _NUMBERS)
    template = mapping(spec, "template")
    selector = spec.get("selector")
    if not isinstance(selector, dict):
        yield required("spec.selector")
    elif not selector.get("matchLabels") and not selector.get("matchExpressions"):
        yield invalid("spec.selector", selector, f"empty selector is invalid for {kind.lower()}")
    elif not _selects(selector, mapping(template, "metadata.labels")):
        yield invalid("spec.template.metadata.labels", mapping(template, "metadata.labels"), _MISMATCH)
    yield from _template(template, "spec.template")
    if (policy := value(template, "spec.restartPolicy")) not in (None, "Always"):
        yield unsupported("spec.template.spec.restartPolicy", policy, ("Always",))
    if value(template, "spec.activeDeadlineSeconds") is not None:
        name = "ReplicaSet" if kind == "Deployment" else kind
        yield forbidden("spec.template.spec.activeDeadlineSeconds", f"activeDeadlineSeconds in {name} is not Supported")


def job(data: Data, path: str = "spec") -> Iterator[Cause]:
    """Yield what is wrong with a Job."""
    spec = mapping(data, "spec")
    yield from negative_numbers(spec, _NUMBERS, path)
    template = mapping(spec, "template")
    yield from _template(template, f"{path}.template")
    policy = value(template, "spec.restartPolicy")
    if policy == "Always":
        yield required(f"{path}.template.spec.restartPolicy", 'valid values: "OnFailure", "Never"')
    if spec.get("completionMode") == "Indexed" and spec.get("completions") is None:
        yield required(f"{path}.completions", "when completion mode is Indexed")


def negative_numbers(spec: Data, fields: Iterable[str], path: str = "spec") -> Iterator[Cause]:
    """Yield which of these fields are below zero."""
    for field in fields:
        if isinstance(found := spec.get(field), int) and found < 0:
            yield invalid(f"{path}.{field}", found, "must be greater than or equal to 0")


def _template(template: Data, path: str) -> Iterator[Cause]:
    yield from labels_causes(mapping(template, "metadata"), f"{path}.")
    yield from spec_causes(mapping(template, "spec"), f"{path}.spec")


def _selects(selector: Data, labels: Data) -> bool:
    wanted = mapping(selector, "matchLabels").items() <= labels.items()
    return wanted and all(_holds(each, labels) for each in entries(selector, "matchExpressions"))


def _holds(expression: Data, labels: Data) -> bool:
    found, values = labels.get(str(expression.get("key"))), expression.get("values")
    among = isinstance(values, list) and found in values
    match expression.get("operator"):
        case "In":
            return among
        case "NotIn":
            return not among
        case "Exists":
            return found is not None
        case "DoesNotExist":
            return found is None
    return True
