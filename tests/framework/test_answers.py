"""What hooks answer beside a Status: diagnoses."""

from __future__ import annotations

import numpy as np

from kframework import Code, Diagnosis, unresolvable, unschedulable
from kframework.state.cluster import ClusterState
from kframework.testing import make_node


def test_diagnosis_lists_rows_by_code_in_node_order() -> None:
    cluster = ClusterState()
    for name in ("a", "b", "c"):
        cluster.put_node(make_node(name))
    cluster.remove_node("a")
    cluster.put_node(make_node("d"))
    said = {7: unschedulable("x"), 8: unresolvable("y"), 9: unschedulable("z")}
    diagnosis = Diagnosis(cluster.nodes, np.array([9, 8, 7]), said.__getitem__, ("P",))
    assert [diagnosis.nodes[row].name for row in diagnosis.rows(Code.UNSCHEDULABLE)] == ["c", "d"]
    assert [diagnosis.nodes[row].name for row in diagnosis.rows(Code.UNSCHEDULABLE_AND_UNRESOLVABLE)] == ["b"]
    assert diagnosis.rows(Code.PENDING).tolist() == []
    assert [diagnosis[row].reasons for row in range(3)] == [("z",), ("y",), ("x",)]
