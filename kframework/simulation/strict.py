"""Problems of cluster files that only `--strict` refuses: a scheduler can do without what is wrong."""

from __future__ import annotations

from collections.abc import Iterator

from kframework.errors import ClusterError, InputError, nearest_name
from kframework.in_memory.store import check_name
from kframework.objects import ApiObject, Pod
from kframework.objects.kinds import reference
from kframework.objects.manifest import Manifest, ObjectLocation, find_duplicate_keys
from kframework.objects.openapi.definitions import definition_of, kinds_of_group
from kframework.objects.pod import PodSpec
from kframework.objects.problem import FieldPath, Problem, duplicate, format_path, invalid, required
from kframework.objects.syntax import dns_label
from kframework.objects.validation import find_pod_spec


def find_strict_errors(manifest: Manifest) -> Iterator[InputError]:
    """Yield duplicate keys, unknown kinds of Kubernetes' groups, invalid names, and pods without containers."""
    firsts = (skipped.first for skipped in manifest.skipped if skipped.first is not None)
    for source in dict.fromkeys(location.source for location in (*manifest.locations, *firsts)):
        for line, key in find_duplicate_keys(source.text):
            yield InputError(f'duplicate key "{key}"', file=source.name, line=line)
    for skipped in manifest.skipped:
        known = kinds_of_group(skipped.api_version.rpartition("/")[0])
        if known and skipped.first is not None and definition_of(skipped.api_version, skipped.kind) is None:
            yield InputError(
                f"{skipped.api_version} has no kind {skipped.kind}",
                file=skipped.first.source.name,
                line=skipped.first.line(("kind",)),
                nearest=nearest_name(skipped.kind, known - {skipped.kind}),
            )
    for subject, location in zip(manifest.objects, manifest.locations, strict=False):
        yield from _object_errors(subject, location)


def _object_errors(subject: ApiObject, location: ObjectLocation) -> Iterator[InputError]:
    try:
        check_name(subject)
    except ClusterError as error:
        yield InputError(str(error), file=location.source.name, line=location.line(("metadata", "name")))
    path, spec = (("spec",), subject.spec) if isinstance(subject, Pod) else find_pod_spec(subject) or ((), None)
    for problem in _container_problems(spec) if spec is not None else ():
        whole: FieldPath = (*path, *problem.path)
        yield InputError(
            problem.message,
            file=location.source.name,
            line=location.line(whole),
            subject=reference(subject),
            path=format_path(whole),
        )


def _container_problems(spec: PodSpec) -> Iterator[Problem]:
    if not spec.containers:
        yield required(("containers",))
    names: set[str] = set()
    for field, containers in (("initContainers", spec.init_containers), ("containers", spec.containers)):
        for index, container in enumerate(containers):
            path = (field, index, "name")
            if not container.name:
                yield required(path)
            elif container.name in names:
                yield duplicate(path, container.name)
            else:
                yield from (invalid(path, container.name, each) for each in dns_label(container.name))
            names.add(container.name)
