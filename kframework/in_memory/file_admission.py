"""Admission of the objects of files before they are loaded, so that errors name the line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kframework.in_memory.admission import admit_create
from kframework.in_memory.pod_admission import AdmissionError, Policies, was_admitted
from kframework.objects import (
    ApiObject,
    CompositePodGroup,
    LimitRange,
    ObjectMeta,
    PersistentVolumeClaim,
    Pod,
    PodGroup,
    PodSpec,
    PriorityClass,
    RuntimeClass,
)
from kframework.objects.problem import FieldPath
from kframework.objects.validation import find_pod_spec


def find_rejections(objects: Sequence[ApiObject]) -> Iterator[tuple[int, FieldPath, AdmissionError]]:
    """Yield the objects that policies of the same files reject: position, path of the field, and error.

    The pods of workloads are admitted as their controllers will create them.
    """
    runtime_classes = [each for each in objects if isinstance(each, RuntimeClass)]
    priority_classes: list[PriorityClass] = []
    limit_ranges: dict[str, list[LimitRange]] = {}
    for each in objects:
        if isinstance(each, LimitRange):
            limit_ranges.setdefault(each.metadata.namespace or "default", []).append(each)
    for index, each in enumerate(objects):
        if isinstance(each, PriorityClass):
            yield from _rejection(index, each, Policies(priority_classes), ())
            priority_classes.append(each)
    for index, each in enumerate(objects):
        ranges = limit_ranges.get(each.metadata.namespace or "default", ())
        policies = Policies(priority_classes, runtime_classes, ranges)
        if isinstance(each, Pod):
            if ranges or _names_class(each.spec):
                yield from _rejection(index, each, policies, ())
        elif isinstance(each, PersistentVolumeClaim):
            if ranges:
                yield from _rejection(index, each, policies, ())
        elif isinstance(each, PodGroup | CompositePodGroup):
            if each.spec.priority_class_name:
                yield from _rejection(index, each, policies, ())
        elif (found := find_pod_spec(each)) is not None and (ranges or _names_class(found[1])):
            metadata = ObjectMeta(name=f"{each.metadata.name}-", namespace=each.metadata.namespace)
            yield from _rejection(index, Pod(metadata=metadata, spec=found[1]), policies, found[0][:-1])


def _names_class(spec: PodSpec) -> bool:
    return spec.priority_class_name != "" or spec.runtime_class_name is not None


def _rejection(
    index: int, subject: ApiObject, policies: Policies, path: FieldPath
) -> Iterator[tuple[int, FieldPath, AdmissionError]]:
    if not was_admitted(subject):
        try:
            admit_create(subject, 1, "", policies)
        except AdmissionError as error:
            yield index, (*path, *error.path), error
