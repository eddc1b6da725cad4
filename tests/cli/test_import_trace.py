"""`kframework import`: the files of each trace become a cluster file that `kframework simulate` reads."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from tests.cli.conftest import Command
from tests.simulation.cluster_traces.test_alibaba import INSTANCES, JOBS, MACHINES, OPENB_NODES, OPENB_PODS, TASKS

TABLES = {
    "nodes": "name,cpu,memory,gpu,down\na,8,16Gi,1,100-200\n",
    "pods": "name,arrival,duration,cpu,gpu,priority\none,0,50,4,1,\ntwo,10,30,4,0.5,7\n",
}
OPENB = {"nodes": OPENB_NODES, "pods": OPENB_PODS}
PAI = {"machines": MACHINES, "jobs": JOBS, "tasks": TASKS, "instances": INSTANCES}
BORG = {
    "machine-events": "time,machine_id,type,cpus,memory\n0,1,1,0.5,0.5\n",
    "instance-events": "time,type,collection_id,instance_index,priority,alloc_collection_id,cpus,memory\n"
    "700000000,0,5,0,200,0,0.1,0.1\n710000000,3,5,0,200,0,0.1,0.1\n720000000,6,5,0,200,0,0.1,0.1\n",
}
TRACES = {"csv": TABLES, "alibaba-2020": PAI, "alibaba-2023": OPENB, "borg-2019": BORG}


def options(folder: Path, tables: dict[str, str]) -> list[str]:
    """Write the tables compressed; return the options that name them."""
    for name, text in tables.items():
        (folder / name).write_bytes(gzip.compress(text.encode()))
    return [part for name in tables for part in (f"--{name}", str(folder / name))]


@pytest.mark.parametrize(
    ("trace", "size", "bound"),
    [
        ("csv", "1 node, 2 pods", 2),
        ("alibaba-2020", "2 nodes, 6 pods", 6),
        ("alibaba-2023", "2 nodes, 3 pods", 2),
        ("borg-2019", "1 node, 1 pod", 1),
    ],
)
def test_imported_trace_can_be_simulated(run: Command, tmp_path: Path, trace: str, size: str, bound: int) -> None:
    imported = run("import", trace, *options(tmp_path, TRACES[trace]))
    assert (imported.code, imported.errors) == (0, [f"notice: {size}"])
    simulated = run("simulate", "--strict", "-f", "-", "-o", "json", stdin=imported.out)
    assert (simulated.code, "error" in simulated.err, "warning" in simulated.err) == (0, False, False)
    assert sum(outcome["node"] is not None for outcome in json.loads(simulated.out)["items"]) == bound


def test_period_is_cut_out_of_the_trace(run: Command, tmp_path: Path) -> None:
    found = run("import", "csv", *options(tmp_path, TABLES), "--start", "20s", "--duration", "1m40s")
    annotations = {
        each["metadata"]["name"]: each["metadata"].get("annotations") for each in json.loads(found.out)["items"]
    }
    assert annotations == {
        "a": {"kframework.dev/down-seconds": "80-180"},
        "one": {"kframework.dev/arrives-seconds": "0", "kframework.dev/run-seconds": "30"},
        "two": {"kframework.dev/arrives-seconds": "0", "kframework.dev/run-seconds": "20"},
        "priority-7": None,
    }


def test_list_without_objects_is_valid_json(run: Command, tmp_path: Path) -> None:
    found = run("import", "csv", *options(tmp_path, {"nodes": "name,cpu,memory\n", "pods": "name\n"}))
    assert (json.loads(found.out)["items"], found.errors) == ([], ["notice: 0 nodes, 0 pods"])


def test_bad_row_is_one_line(run: Command, tmp_path: Path) -> None:
    tables = TABLES | {"pods": "name,gpu\none,1\ntwo,half\n"}
    found = run("import", "csv", *options(tmp_path, tables))
    assert (found.code, found.errors) == (1, [f"error: {tmp_path}/pods:3: gpu is 'half', not a number from 0 on"])


@pytest.mark.parametrize("option", [("--start", "soon"), ("--duration", "0s")])
def test_period_must_be_given_in_times(run: Command, tmp_path: Path, option: tuple[str, str]) -> None:
    assert run("import", "csv", *options(tmp_path, TABLES), *option).code == 2
