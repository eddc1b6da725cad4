"""Where each of Kubernetes' tests of groups is retold, by its file."""

from __future__ import annotations

from tests.architecture.sources import ROOT

_INTEGRATION = "test/integration/scheduler/podgroup"
_CYCLE, _STORIES = "core/groups/test", "conformance/groups/test"

#: Files of Kubernetes, and the tests here. Texts and conditions of CompositePodGroups in them are those of 1.38.
RETOLD = {
    f"{_INTEGRATION}/podgroup_test.go": [f"{_STORIES}_pod_group.py"],
    f"{_INTEGRATION}/podgroup_affinity_test.go": [f"{_STORIES}_affinity_and_claims.py"],
    f"{_INTEGRATION}/podgroup_pvc_test.go": [f"{_STORIES}_affinity_and_claims.py"],
    f"{_INTEGRATION}/cpg_test.go": [f"{_STORIES}_trees.py", "objects/test_pod_group_rules.py"],
    f"{_INTEGRATION}/hierarchy_validation_test.go": [f"{_STORIES}_trees.py", f"{_CYCLE}_walk.py"],
    f"{_INTEGRATION}/queueing/queueing_test.go": [f"{_STORIES}_queueing.py"],
    f"{_INTEGRATION}/queueing/interleaving_test.go": [f"{_STORIES}_interleaving.py"],
    f"{_INTEGRATION}/batch/podgroup_batch_test.go": [f"{_STORIES}_pod_group.py", f"{_STORIES}_trees.py"],
    f"{_INTEGRATION}/topology_aware_scheduling/tas_test.go": [f"{_STORIES}_topology.py"],
    f"{_INTEGRATION}/topology_aware_scheduling/tas_multi_placement_test.go": [f"{_STORIES}_topology.py"],
    f"{_INTEGRATION}/topology_aware_scheduling/cpg_tas_test.go": [f"{_STORIES}_tree_topology.py"],
    f"{_INTEGRATION}/admission/admission_test.go": ["in_memory/test_group_admission.py", "fake_api/test_pod_groups.py"],
    "test/integration/scheduler/preemption/podgrouppreemption_test.go": [f"{_STORIES}_preemption.py"],
    "test/integration/dra/pod_group.go": ["plugins/dynamic_resources/test_group_claims.py"],
    "test/integration/dra/workload_resource_claims.go": ["plugins/dynamic_resources/test_group_claims.py"],
    "test/integration/job": ["in_memory/workloads/test_job_group.py"],
    "test/e2e/scheduling/workload.go": ["fake_api/test_pod_groups.py"],
    "pkg/scheduler/schedule_one_podgroup_test.go": [
        *(f"{_CYCLE}_cycle.py", f"{_CYCLE}_outcomes.py", f"{_CYCLE}_walk.py", "core/groups/test_placements.py"),
        "core/test_group_conditions.py",
    ],
    "pkg/scheduler/backend/queue": ["core/queue/test_group_queue.py", "core/queue/test_group_queue_rows.py"],
    "pkg/scheduler/backend/cache/podgroupstate_test.go": ["state/test_pod_groups.py"],
    "pkg/scheduler/framework/plugins/gangscheduling": ["plugins/test_gang_scheduling.py"],
    "pkg/scheduler/framework/plugins/topologyaware": ["plugins/test_topology_placement_generator.py"],
    "pkg/scheduler/framework/plugins/podgrouppodscount": ["plugins/test_pod_group_pods_count.py"],
    "pkg/scheduler/framework/preemption/podgrouppreemption_test.go": ["core/preemption/test_groups.py"],
}


#: Cases of these files that are not retold, and why.
NOT_RETOLD = {
    f"{_INTEGRATION}/admission/admission_test.go": (
        "Three cases: a Workload or template that does not exist, or is about to be deleted, is refused. 1.37 has no"
        " such admission plugin any more, and accepts them (`fake_api/test_pod_groups.py`)."
    ),
    f"{_INTEGRATION}/hierarchy_validation_test.go": (
        "Five cases of 1.38, whose scheduler refuses trees that are too deep, of several Workloads, with a basic group"
        " below a gang, or with `single` below `all`. 1.37 schedules them."
    ),
    f"{_INTEGRATION}/cpg_test.go": (
        "Conditions of CompositePodGroups, and the text `no pods were schedulable`, which 1.38 has first; what becomes"
        " of the pods is retold."
    ),
}


def test_tests_of_kubernetes_are_retold() -> None:
    here = {path for paths in RETOLD.values() for path in paths}
    assert NOT_RETOLD.keys() <= RETOLD.keys()
    assert [path for path in sorted(here) if not (ROOT / "tests" / path).exists()] == []
