"""Alibaba's traces of GPU clusters: cluster-trace-gpu-v2023 (openb) and cluster-trace-gpu-v2020 (PAI)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

from kframework.simulation.cluster_traces.cluster import Period, TraceNode, TracePod
from kframework.simulation.cluster_traces.tables import Columns, parse_count, parse_number, read_rows

_OPENB_NODES = Columns(("sn", "cpu_milli", "memory_mib", "gpu", "model"))
_OPENB_PODS = Columns(
    ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli"),
    ("gpu_spec", "creation_time", "scheduled_time", "deletion_time"),
)


def read_openb(nodes: str, pods: str) -> Iterator[TraceNode | TracePod]:
    """Read a node list and a pod list of the trace of 2023.

    A pod that was never scheduled is taken to run as long as it waited. Pods of a list without times are there from the
    start and do not end.
    """
    yield from read_rows(nodes, _OPENB_NODES, _convert_openb_node)
    yield from read_rows(pods, _OPENB_PODS, _convert_openb_pod)


def _convert_openb_node(name: str, cpu: str, memory: str, gpus: str, model: str) -> TraceNode:
    return TraceNode(
        name,
        f"{parse_count('cpu_milli', cpu)}m",
        f"{parse_count('memory_mib', memory)}Mi",
        parse_count("gpu", gpus),
        model,
    )


def _convert_openb_pod(
    name: str, cpu: str, memory: str, gpus: str, share: str, models: str, created: str, scheduled: str, deleted: str
) -> TracePod:
    arrival = parse_number("creation_time", created or "0")
    return TracePod(
        name,
        f"{parse_count('cpu_milli', cpu)}m",
        f"{parse_count('memory_mib', memory)}Mi",
        arrival,
        parse_number("scheduled_time", scheduled) if scheduled else arrival,
        parse_number("deletion_time", deleted) if deleted else math.inf,
        parse_count("num_gpu", gpus) * parse_count("gpu_milli", share),
        list(dict.fromkeys(models.split("|"))) if models else (),
    )


class PaiFiles(NamedTuple):
    """The tables of the trace of 2020, whose files have no line with the names of the columns."""

    machines: str
    jobs: str
    tasks: str
    instances: str


_MACHINES = ("machine", "gpu_type", "cap_cpu", "cap_mem", "cap_gpu")
_JOBS = ("job_name", "inst_id", "user", "status", "start_time", "end_time")
_TASKS = (
    *("job_name", "task_name", "inst_num", "status", "start_time", "end_time"),
    *("plan_cpu", "plan_mem", "plan_gpu", "gpu_type"),
)
_INSTANCES = (
    *("job_name", "task_name", "inst_name", "worker_name", "inst_id"),
    *("status", "start_time", "end_time", "machine"),
)


class _Task(NamedTuple):
    """What each instance of a task requests, and when its job was submitted."""

    submitted: float
    cpu: str
    memory: str
    gpu_milli: int


def read_pai(files: PaiFiles, period: Period) -> Iterator[TraceNode | TracePod]:
    """Read the tables of the trace of 2020; only the tasks of jobs in the period are kept in memory.

    Each instance that ran is a pod. It arrives when its job was submitted.
    """
    machine_columns = Columns(_MACHINES, header=_MACHINES)
    yield from read_rows(files.machines, machine_columns, _convert_machine)
    job_columns = Columns(("job_name", "start_time", "end_time"), header=_JOBS)
    submitted = dict(read_rows(files.jobs, job_columns, partial(_convert_job, period)))
    task_columns = Columns(("job_name", "task_name", "plan_cpu", "plan_mem", "plan_gpu"), header=_TASKS)
    tasks = dict(read_rows(files.tasks, task_columns, partial(_convert_task, submitted)))
    instance_columns = Columns(("job_name", "task_name", "start_time", "end_time"), header=_INSTANCES)
    instances = read_rows(files.instances, instance_columns, partial(_convert_instance, tasks))
    for number, pod in enumerate(instances):
        yield pod._replace(name=f"{pod.name}-{number}")


def _convert_machine(name: str, gpu_type: str, cpu: str, memory: str, gpus: str) -> TraceNode:
    cores, gigabytes = parse_number("cap_cpu", cpu), parse_number("cap_mem", memory)
    count = parse_count("cap_gpu", gpus or "0")
    return TraceNode(name, f"{cores:g}", f"{gigabytes:g}Gi", count, gpu_type if count else "")


def _convert_job(period: Period, name: str, start: str, end: str) -> tuple[str, float] | None:
    submitted = parse_number("start_time", start or "0")
    ended = parse_number("end_time", end or "0") or math.inf
    return (name, submitted) if submitted and period.overlaps(submitted, ended) else None


def _convert_task(
    submitted: dict[str, float], job: str, name: str, cpu: str, memory: str, gpu: str
) -> tuple[tuple[str, str], _Task] | None:
    if job not in submitted:
        return None
    # Hundredths of a core and of a GPU, and gigabytes of 1024 megabytes.
    cores = f"{round(parse_number('plan_cpu', cpu or '0') * 10)}m"
    megabytes = f"{round(parse_number('plan_mem', memory or '0') * 1024)}Mi"
    gpu_milli = round(parse_number("plan_gpu", gpu or "0") * 10)
    return (job, name), _Task(submitted[job], cores, megabytes, gpu_milli)


def _convert_instance(
    tasks: dict[tuple[str, str], _Task], job: str, task_name: str, start: str, end: str
) -> TracePod | None:
    task = tasks.get((job, task_name))
    started = parse_number("start_time", start or "0") if task is not None else 0.0
    if task is None or not started:
        return None
    ended = parse_number("end_time", end or "0") or math.inf
    labels = {"job": job, "task": task_name}
    return TracePod(job, task.cpu, task.memory, task.submitted, started, ended, gpu_milli=task.gpu_milli, labels=labels)
