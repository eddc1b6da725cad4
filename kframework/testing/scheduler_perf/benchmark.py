"""Workloads run one after the other, each in a process of its own, and what came of them."""

from __future__ import annotations

from collections.abc import Iterator
from multiprocessing import get_context
from multiprocessing.connection import Connection

import msgspec

from kframework.config.configuration import Configuration
from kframework.config.load import default_configuration, load_configuration, with_overrides
from kframework.errors import KFrameworkError
from kframework.testing.scheduler_perf.definitions import Definition
from kframework.testing.scheduler_perf.measurement import Measurement
from kframework.testing.scheduler_perf.workload_run import ProgressCallback, WorkloadRun
from kframework.values.feature_gates import EFFECTIVE_GATES


class WorkloadResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a workload, or why it was `skipped` or `failed`; `floor` is in pods a second, 0 for none."""

    name: str
    measurements: tuple[Measurement, ...] = ()
    floor: float = 0.0
    skipped: str = ""
    failed: str = ""

    @property
    def is_below_floor(self) -> bool:
        """Whether its throughput stayed below the floor."""
        return any(_rate(each) < self.floor for each in self.measurements)


def _rate(measurement: Measurement) -> float:
    """Return what a floor is compared with: the average throughput, or all pods in all the time if it was short."""
    return measurement.throughput.average if measurement.throughput is not None else measurement.pods_per_second


def benchmark(definition: Definition, config: str | None, report_progress: ProgressCallback) -> WorkloadResult:
    """Run a workload in a fresh process; `config` names a configuration file that replaces the workload's own."""
    if reason := definition.unsupported_reason():
        return WorkloadResult(name=definition.name, skipped=reason)
    context = get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_run_in_process, args=(definition, config, theirs), daemon=True)
    process.start()
    theirs.close()
    try:
        for message in _receive(ours):
            if isinstance(message, WorkloadResult):
                return message
            report_progress(*message)
        process.join()
        return WorkloadResult(name=definition.name, failed=f"its process ended with code {process.exitcode}")
    finally:
        process.terminate()
        process.join()


def _receive(connection: Connection) -> Iterator[WorkloadResult | tuple[int, int]]:
    while True:
        try:
            yield connection.recv()
        except EOFError:
            return


def _run_in_process(definition: Definition, config: str | None, connection: Connection) -> None:
    connection.send(run(definition, config, lambda done, total: connection.send((done, total))))


def run(definition: Definition, config: str | None, report_progress: ProgressCallback) -> WorkloadResult:
    """Run a workload in this process."""
    stage = None
    try:
        stage = WorkloadRun(definition, configuration_of(definition, config), report_progress)
        stage.run()
        failed = ""
    except* KFrameworkError as group:
        failed = "; ".join(_error_messages(group))
    measured = tuple(stage.measurements) if stage is not None else ()
    return WorkloadResult(name=definition.name, measurements=measured, floor=_floor(definition), failed=failed)


def _error_messages(error: BaseException) -> Iterator[str]:
    if isinstance(error, BaseExceptionGroup):
        for member in error.exceptions:
            yield from _error_messages(member)
    else:
        yield str(error)


def configuration_of(definition: Definition, config: str | None = None) -> Configuration:
    """Load the configuration of a workload, or the file `config` instead, with the feature gates that matter here."""
    path = definition.case.scheduler_config_path
    if config is not None:
        configuration = load_configuration(config)
    else:
        configuration = load_configuration(definition.file.parent / path) if path else default_configuration()
    gates = {name: is_on for name, is_on in definition.feature_gates.items() if name in EFFECTIVE_GATES}
    options = {"feature_gates": {**configuration.options.feature_gates, **gates}}
    return with_overrides(configuration, leader_election={}, client_connection={}, options=options)


def _floor(definition: Definition) -> float:
    """Return the threshold, if it is one of the throughput, as all are that scheduler_perf has."""
    selector = definition.workload.threshold_metric_selector or definition.case.default_threshold_metric_selector
    of_throughput = selector is None or (selector.name, selector.data_bucket) == ("SchedulingThroughput", "Average")
    return definition.workload.floor(definition.topic) if of_throughput else 0.0
