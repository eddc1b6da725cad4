"""Alibaba's tables: units, times, GPUs and the joins of jobs, tasks and instances."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from kframework import InputError
from kframework.simulation.cluster_traces.alibaba import PaiFiles, read_openb, read_pai
from kframework.simulation.cluster_traces.cluster import Period, TraceNode, TracePod

OPENB_NODES = "sn,cpu_milli,memory_mib,gpu,model\nnode-1,96000,393216,8,G2\nnode-2,32000,262144,0,\n"
OPENB_PODS = """\
name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time
share,6000,12288,1,460,,LS,Running,100,1000,130
whole,88000,327680,8,1000,V100M16|V100M32|V100M32,Burstable,Succeeded,200,900,200
never,4000,8192,0,0,,BE,Pending,300,360,
"""


def write(folder: Path, **tables: str) -> list[str]:
    for name, text in tables.items():
        (folder / name).write_text(text)
    return [str(folder / name) for name in tables]


def test_openb_nodes_and_pods_are_read(tmp_path: Path) -> None:
    assert [*read_openb(*write(tmp_path, nodes=OPENB_NODES, pods=OPENB_PODS))] == [
        TraceNode("node-1", "96000m", "393216Mi", 8, "G2"),
        TraceNode("node-2", "32000m", "262144Mi"),
        TracePod("share", "6000m", "12288Mi", 100, 130, 1000, 460),
        TracePod("whole", "88000m", "327680Mi", 200, 200, 900, 8000, ["V100M16", "V100M32"]),
        TracePod("never", "4000m", "8192Mi", 300, 300, 360),
    ]


def test_openb_list_without_times_has_pods_that_do_not_end(tmp_path: Path) -> None:
    pods = "name,cpu_milli,memory_mib,num_gpu,gpu_milli\np,12000,16384,1,1000\n"
    *_, pod = read_openb(*write(tmp_path, nodes=OPENB_NODES, pods=pods))
    assert pod == TracePod("p", "12000m", "16384Mi", 0, 0, math.inf, 1000)


def test_openb_row_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    pods = OPENB_PODS.replace("whole,88000", "whole,many")
    with pytest.raises(InputError, match=r"pods:3: cpu_milli is 'many', not a number from 0 on"):
        list(read_openb(*write(tmp_path, nodes=OPENB_NODES, pods=pods)))


MACHINES = "m1,T4,96,512,2\nm2,CPU,64,512,0\n"
JOBS = """\
early,i0,u,Terminated,10.0,90.0
train,i1,u,Terminated,100.0,400.0
infer,i2,u,Running,150.0,
waits,i3,u,Waiting,160.0,
later,i4,u,Terminated,900.0,950.0
"""
TASKS = """\
early,worker,1.0,Terminated,20.0,90.0,100.0,1.0,,
train,ps,1.0,Terminated,110.0,400.0,600.0,29.296875,,CPU
train,worker,2.0,Terminated,110.0,400.0,1250.0,0.5,50.0,T4
infer,main,1.0,Running,150.0,,,,100.0,MISC
waits,main,1.0,Waiting,,,600.0,1.0,100.0,T4
later,worker,1.0,Terminated,900.0,950.0,600.0,1.0,100.0,T4
"""
INSTANCES = """\
train,worker,a,w1,i1,Terminated,120.0,400.0,m1
early,worker,b,w0,i0,Terminated,20.0,90.0,m2
train,worker,c,w2,i1,Failed,120.0,130.0,m1
train,ps,d,w3,i1,Terminated,110.0,400.0,m2
infer,main,e,w4,i2,Running,150.0,,m1
waits,main,f,w5,i3,Waiting,,,
later,worker,g,w6,i4,Terminated,900.0,950.0,m1
"""


def test_pai_instances_that_ran_become_pods_that_arrive_with_their_job(tmp_path: Path) -> None:
    files = PaiFiles(*write(tmp_path, machines=MACHINES, jobs=JOBS, tasks=TASKS, instances=INSTANCES))
    worker, ps, main = ({"job": job, "task": task} for job, task in (
        ("train", "worker"), ("train", "ps"), ("infer", "main"),
    ))  # fmt: skip
    assert [*read_pai(files, Period(95, 800))] == [
        TraceNode("m1", "96", "512Gi", 2, "T4"),
        TraceNode("m2", "64", "512Gi"),
        TracePod("train-0", "12500m", "512Mi", 100, 120, 400, 500, labels=worker),
        TracePod("train-1", "12500m", "512Mi", 100, 120, 130, 500, labels=worker),
        TracePod("train-2", "6000m", "30000Mi", 100, 110, 400, labels=ps),
        TracePod("infer-3", "0m", "0Mi", 150, 150, math.inf, 1000, labels=main),
    ]


def test_pai_row_of_another_table_is_refused(tmp_path: Path) -> None:
    files = PaiFiles(*write(tmp_path, machines=MACHINES, jobs=JOBS, tasks=JOBS, instances=INSTANCES))
    with pytest.raises(InputError, match="tasks:1: has 6 columns, not the 10 of the header"):
        list(read_pai(files, Period()))
