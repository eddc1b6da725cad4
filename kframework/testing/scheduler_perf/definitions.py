"""The content of scheduler_perf's files: test cases, the operations they consist of, and workloads with the numbers.

Fields, defaults and what is refused are those of `test/integration/scheduler_perf` in Kubernetes 1.36, with the
steps for groups of pods that 1.37 adds.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal, TypeVar

import msgspec
import yaml
from msgspec.structs import fields, replace

from kframework.config.duration import Duration
from kframework.errors import InputError
from kframework.objects import find_kind
from kframework.objects.codec import locate_decode_error
from kframework.objects.manifest import find_line
from kframework.objects.problem import format_path
from kframework.testing.scheduler_perf.templates import text_of

O = TypeVar("O", bound="WorkloadOperation")  # noqa: E741 -- an operation, next to the T and S of others

#: The value of a parameter.
Value = int | float | str | bool

#: The name of the file in each of scheduler_perf's folders.
FILE_NAME = "performance-config.yaml"

#: Matches templates of device kinds, by their API group.
_DEVICE_API = re.compile(r"^apiVersion: resource\.k8s\.io/", re.MULTILINE)
_KIND = re.compile(r"^kind: *(\w+)", re.MULTILINE)

#: The feature gates of devices that are off by default: what they would bring is not there.
_GATES_OFF = frozenset(
    {
        "DRAListTypeAttributes",
        "DRANodeAllocatableResources",
        "DRAResourcePoolStatus",
        "DRAWorkloadResourceClaims",
    }
)

#: The parameters that no operation asks for, but tests in Go.
_GO_PARAMETERS = frozenset({"numNodeDeclaredFeatures"})

_SafeLoader: type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _StrictStruct(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A mapping with these fields and no others."""


# -- operations --------------------------------------------------------------------------------------------------------


class WorkloadOperation(_StrictStruct, frozen=True, kw_only=True, tag_field="opcode"):
    """A step of a workload; a field `xParam` names the parameter that gives the value of `x`, as `$name`.

    `template_params` are further values for the actions of a template, whole numbers or the names of parameters.
    """

    def problem(self) -> str | None:
        """Return what is invalid, once the parameters are in place."""
        return None


class NodeAllocatable(_StrictStruct, frozen=True, kw_only=True):
    """The allocatable of each node: resources, and volumes per CSI driver."""

    node_allocatable: dict[str, str] = {}
    csi_node_allocatable: dict[str, dict[str, int]] = {}
    migrated_plugins: tuple[str, ...] = ()


class LabelNodes(_StrictStruct, frozen=True, kw_only=True):
    """A label of the nodes, its values in turn."""

    label_key: str
    label_values: tuple[str, ...]


class UniqueNodeLabel(_StrictStruct, frozen=True, kw_only=True):
    """A label with a value of its own for each node."""

    label_key: str


class _CountedOperation(WorkloadOperation, frozen=True, kw_only=True):
    """A step that makes a number of something."""

    count: int = 0
    count_param: str = ""

    def problem(self) -> str | None:
        return _count_problem(self.count)


class CreateNodes(_CountedOperation, frozen=True, kw_only=True, tag="createNodes"):
    """Create nodes, of a template or the default one."""

    node_template_path: str = ""
    template_params: dict[str, int | str] = {}
    node_allocatable_strategy: NodeAllocatable | None = None
    label_node_prepare_strategy: LabelNodes | None = None
    unique_node_label_strategy: UniqueNodeLabel | None = None


class CreateNamespaces(_CountedOperation, frozen=True, kw_only=True, tag="createNamespaces"):
    """Create namespaces `prefix-0`, `prefix-1`, ..."""

    prefix: str
    namespace_template_path: str = ""


class CreatePods(_CountedOperation, frozen=True, kw_only=True, tag="createPods"):
    """Create pods at once, and wait until they are scheduled; or keep that number coming for `duration`."""

    count_multiplier: int = 1
    count_multiplier_param: str = ""
    steady_state: bool = False
    steady_state_param: str = ""
    duration: str = "0s"
    duration_param: str = ""
    collect_metrics: bool = False
    namespace: str = ""
    pod_template_path: str = ""
    template_params: dict[str, int | str] = {}
    skip_wait_to_completion: bool = False
    persistent_volume_template_path: str = ""
    persistent_volume_claim_template_path: str = ""

    def problem(self) -> str | None:
        if self.skip_wait_to_completion and (self.collect_metrics or self.steady_state):
            other = "collectMetrics" if self.collect_metrics else "steadyState"
            return f"{other} and skipWaitToCompletion cannot be true at the same time"
        if self.steady_state and Duration.parse(self.duration) <= 0:
            return "a steady state needs a duration above zero"
        return _count_problem(self.pods)

    @property
    def pods(self) -> int:
        """How many pods there are."""
        return self.count * self.count_multiplier


class CreatePodSets(_CountedOperation, frozen=True, kw_only=True, tag="createPodSets"):
    """Create pods in each of the namespaces `prefix-0`, `prefix-1`, ..."""

    namespace_prefix: str
    create_pods_op: CreatePods


class DeletePods(WorkloadOperation, frozen=True, kw_only=True, tag="deletePods"):
    """Delete the pods of a namespace, at once or at a rate per second."""

    namespace: str
    label_selector: dict[str, str] = {}
    skip_wait_to_completion: bool = False
    delete_pods_per_second: int = 0


class Churn(WorkloadOperation, frozen=True, kw_only=True, tag="churn"):
    """Create objects for as long as the workload runs; `recreate` deletes them again in turn."""

    mode: Literal["create", "recreate"]
    number: int = 0
    interval_milliseconds: int = 500
    namespace: str = ""
    template_paths: tuple[str, ...]

    def problem(self) -> str | None:
        if not self.template_paths:
            return "at least one template is needed"
        return "number cannot be 0 when mode is recreate" if self.mode == "recreate" and not self.number else None


class Barrier(WorkloadOperation, frozen=True, kw_only=True, tag="barrier"):
    """Wait until pods that were not waited for are scheduled, or have been tried."""

    namespaces: tuple[str, ...] = ()
    label_selector: dict[str, str] = {}
    stage_requirement: Literal["", "Scheduled", "Attempted"] = "Scheduled"


class Sleep(WorkloadOperation, frozen=True, kw_only=True, tag="sleep"):
    """Wait so long."""

    duration: str = "0s"
    duration_param: str = ""


class CreateAny(WorkloadOperation, frozen=True, kw_only=True, tag="createAny"):
    """Create objects of any kind."""

    namespace: str = ""
    template_path: str
    template_params: dict[str, int | str] = {}
    count: int = 1
    count_param: str = ""


class CreatePodGroups(CreateAny, frozen=True, kw_only=True, tag="createPodGroups"):
    """Create PodGroups, and wait until the scheduler knows them."""


class WaitForPodGroups(_CountedOperation, frozen=True, kw_only=True, tag="waitForPodGroups"):
    """Wait until the scheduler knows this number of PodGroups of a namespace."""

    namespace: str


class UpdateAny(WorkloadOperation, frozen=True, kw_only=True, tag="updateAny"):
    """Replace objects of any kind, at once or at a rate per second, and their status if the template has one."""

    namespace: str = ""
    template_path: str
    count: int = 1
    count_param: str = ""
    update_per_second: int = 0
    subresources: tuple[str, ...] = ()


class StartCollectingMetrics(WorkloadOperation, frozen=True, kw_only=True, tag="startCollectingMetrics"):
    """Measure from now on, and count the scheduled pods of these namespaces."""

    name: str = ""
    namespaces: tuple[str, ...]
    label_selector: dict[str, str] = {}


class StopCollectingMetrics(WorkloadOperation, frozen=True, kw_only=True, tag="stopCollectingMetrics"):
    """Measure no longer."""


class CreateResourceClaims(_CountedOperation, frozen=True, kw_only=True, tag="createResourceClaims"):
    """Create claims to devices, all of one template."""

    namespace: str
    template_path: str


class CreateResourceDriver(WorkloadOperation, frozen=True, kw_only=True, tag="createResourceDriver"):
    """Publish a number of devices of a driver on each node whose name fits a glob."""

    driver_name: str
    nodes: str
    max_claims_per_node: int = 0
    max_claims_per_node_param: str = ""

    def problem(self) -> str | None:
        return _count_problem(self.max_claims_per_node)


class AllocResourceClaims(WorkloadOperation, frozen=True, kw_only=True, tag="allocResourceClaims"):
    """Allocate devices to the claims of a namespace, or of all, on nodes picked at random, without any pod."""

    namespace: str = ""


AnyOperation = (
    CreateNodes
    | CreateNamespaces
    | CreatePods
    | CreatePodSets
    | DeletePods
    | Churn
    | Barrier
    | Sleep
    | CreateAny
    | CreatePodGroups
    | WaitForPodGroups
    | UpdateAny
    | StartCollectingMetrics
    | StopCollectingMetrics
    | CreateResourceClaims
    | CreateResourceDriver
    | AllocResourceClaims
)


def _count_problem(count: int) -> str | None:
    return f"invalid count {count}" if count < 0 else None


# -- test cases and workloads ------------------------------------------------------------------------------------------


class MetricSelector(_StrictStruct, frozen=True, kw_only=True):
    """The metric that a threshold is compared with."""

    name: str
    labels: dict[str, str] = {}
    data_bucket: str
    expect_lower: bool = False


class Workload(_StrictStruct, frozen=True, kw_only=True):
    """The numbers of a test case; `threshold` is in pods a second, one for all topics or one for each."""

    name: str
    params: dict[str, Value] = {}
    labels: tuple[str, ...] = ()
    threshold: float | dict[str, float] = 0.0
    threshold_metric_selector: MetricSelector | None = None
    feature_gates: dict[str, bool] = {}

    def floor(self, topic: str) -> float:
        """Return the threshold under a topic; 0 if there is none."""
        return self.threshold.get(topic, 0.0) if isinstance(self.threshold, Mapping) else self.threshold


class TestCase(_StrictStruct, frozen=True, kw_only=True):
    """Steps, and the workloads that give them their numbers."""

    __test__ = False  # pytest takes what is called so for tests

    name: str
    feature_gates: dict[str, bool] = {}
    metrics_collector_config: dict[str, object] = {}
    workload_template: tuple[AnyOperation, ...]
    workloads: tuple[Workload, ...]
    scheduler_config_path: str = ""
    default_pod_template_path: str = ""
    labels: tuple[str, ...] = ()
    default_threshold_metric_selector: MetricSelector | None = None


class Definition(msgspec.Struct, frozen=True):
    """A workload, its test case, and the file from whose folder on all paths count."""

    file: Path
    case: TestCase
    workload: Workload

    @property
    def name(self) -> str:
        """Name it as scheduler_perf does: `SchedulingBasic/5000Nodes`."""
        return f"{self.case.name}/{self.workload.name}"

    @property
    def labels(self) -> frozenset[str]:
        """The labels of the case and of the workload."""
        return frozenset((*self.case.labels, *self.workload.labels))

    @property
    def topic(self) -> str:
        """The name of its threshold: that of the folder."""
        return self.file.parent.name

    @property
    def feature_gates(self) -> dict[str, bool]:
        """The gates that it sets."""
        return {**self.case.feature_gates, **self.workload.feature_gates}

    def unsupported_reason(self) -> str:
        """Return what it needs that is missing here, such as the Go code beside its file; "" if nothing."""
        missing = sorted(gate for gate in _GATES_OFF if self.feature_gates.get(gate))
        missing += sorted({kind for each in self.case.workload_template if (kind := self._unsupported_kind(each))})
        if missing:
            return f"there is no {', '.join(missing)} here"
        of_go = sorted(_GO_PARAMETERS & self.workload.params.keys())
        return f"{', '.join(of_go)} is for Go code that goes with its file" if of_go else ""

    def _unsupported_kind(self, operation: AnyOperation) -> str:
        """Return the kind of devices that an operation would create and no scheduler here reads; "" if it is none."""
        text = text_of(self.file.parent / operation.template_path) if isinstance(operation, CreateAny) else ""
        kind = _KIND.search(text) if _DEVICE_API.search(text) else None
        return "" if kind is None or find_kind("resource.k8s.io/v1", kind[1]) is not None else kind[1]

    def operations(self) -> list[AnyOperation]:
        """Return the steps with their parameters in place; raises InputError for one that is not given, or not used."""
        values = _Parameters(self)
        known = [values.resolve(each) for each in self.case.workload_template]
        if unused := self.workload.params.keys() - values.used:
            raise self.error(f"nothing asks for the parameters {', '.join(sorted(unused))}")
        return known

    def error(self, message: str) -> InputError:
        """Return an error about this workload."""
        return InputError(message, file=str(self.file), subject=self.name)


class _Parameters:
    """Puts the parameters of a workload in place, and notes which were asked for."""

    def __init__(self, definition: Definition) -> None:
        self._definition = definition
        self.used: set[str] = set()

    def resolve(self, operation: O) -> O:
        values: dict[str, object] = {}
        for field in fields(operation):
            value = getattr(operation, field.name)
            if isinstance(value, WorkloadOperation):
                values[field.name] = self.resolve(value)
            elif field.name.endswith("_param") and value:
                target = field.name.removesuffix("_param")
                values[target] = self._resolve_value(value.removeprefix("$"), type(getattr(operation, target)))
            elif field.name == "template_params":
                values[field.name] = {key: self._resolve_number(each) for key, each in value.items()}
        operation = replace(operation, **values)
        try:
            problem = operation.problem()
        except ValueError as error:  # of a duration
            problem = str(error)
        if problem is not None:
            raise self._definition.error(f"{operation.__struct_config__.tag}: {problem}")
        return operation

    def _resolve_number(self, value: int | str) -> Value:
        return self._resolve_value(value.removeprefix("$"), int) if isinstance(value, str) else value

    def _resolve_value(self, name: str, wanted: type) -> Value:
        self.used.add(name)
        value = self._definition.workload.params.get(name)
        if value is None:
            raise self._definition.error(f"the parameter {name} is not given")
        if not isinstance(value, wanted):
            raise self._definition.error(f"the parameter {name} is {value!r}, and no {wanted.__name__}")
        return value


# -- files -------------------------------------------------------------------------------------------------------------


def read(paths: Iterable[str]) -> Iterator[Definition]:
    """Read the workloads of files, and of all files called performance-config.yaml below folders; InputError."""
    for path in map(Path, paths):
        files = sorted(path.rglob(FILE_NAME)) if path.is_dir() else [path]
        if not files:
            raise InputError(f"no {FILE_NAME} in this folder", file=str(path))
        for file in files:
            yield from _definitions(file)


def select_definitions(
    definitions: Iterable[Definition], globs: Sequence[str], labels: Sequence[str]
) -> list[Definition]:
    """Select as scheduler_perf's label filter: by globs of names, if any, and labels; `-x` excludes a label."""
    wanted = [label for each in labels for label in each.split(",") if label]
    return [
        each
        for each in definitions
        if all((label.lstrip("+-") in each.labels) != label.startswith("-") for label in wanted)
        and (not globs or any(fnmatchcase(name, glob) for glob in globs for name in (each.name, each.case.name)))
    ]


def _definitions(file: Path) -> Iterator[Definition]:
    text = text_of(file)
    if not text.strip():
        raise InputError("is empty", file=str(file))
    try:
        data = yaml.load(text, _SafeLoader)
        cases = msgspec.convert(data, list[TestCase])
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else None
        raise InputError(", ".join(filter(None, (error.context, error.problem))), file=str(file), line=line) from error
    except msgspec.ValidationError as error:
        problem = locate_decode_error(error, data)
        line, path = find_line(text, 0, problem.path), format_path(problem.path)
        raise InputError(problem.message, file=str(file), line=line, path=path) from error
    for case in cases:
        names = [workload.name for workload in case.workloads]
        for workload in case.workloads:
            if names.count(workload.name) > 1:
                raise InputError("this name is given twice", file=str(file), subject=f"{case.name}/{workload.name}")
            yield Definition(file, case, workload)
