"""Test cases as files: written into a folder and read again."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent, indent

from kframework.testing.scheduler_perf.definitions import Definition, read

__all__ = ["NODE", "POD", "case", "definition", "write"]

NODE = """\
apiVersion: v1
kind: Node
metadata:
  generateName: node-
status:
  capacity: {pods: "10", cpu: "4", memory: 32Gi}
"""

POD = """\
apiVersion: v1
kind: Pod
metadata:
  generateName: pod-
spec:
  containers:
  - name: pause
    resources:
      requests: {cpu: "1"}
"""


def write(folder: Path, text: str, **templates: str) -> Path:
    """Write a file of test cases, and templates beside it, `name` as name.yaml."""
    for name, template in templates.items():
        (folder / f"{name}.yaml").write_text(template)
    file = folder / "performance-config.yaml"
    file.write_text(text)
    return file


def case(steps: str, workload: str = "{name: one}", rest: str = "") -> str:
    """Write a test case `Case` of these steps with one workload."""
    template = indent(dedent(steps), "  ")
    return f"- name: Case\n{indent(dedent(rest), '  ')}  workloadTemplate:\n{template}\n  workloads:\n  - {workload}\n"


def definition(folder: Path, steps: str, workload: str = "{name: one}", rest: str = "", **templates: str) -> Definition:
    """Define a workload."""
    (one,) = read([str(write(folder, case(steps, workload, rest), **templates))])
    return one
