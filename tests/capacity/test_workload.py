"""A workload is created, copied under other names, and its pods are told from those of the cluster."""

from __future__ import annotations

from kframework import Simulation
from kframework.capacity.workload import Origins, Workload
from kframework.objects import ObjectMeta, Pod, PodGroup, PriorityClass
from kframework.testing import make_node, make_pod
from tests.support.groups import GROUPS, gang, members


def test_classes_are_created_before_the_pods_that_name_them_and_are_not_copied() -> None:
    urgent = PriorityClass(metadata=ObjectMeta(name="urgent"), value=7)
    workload = Workload([make_pod("web"), urgent])
    with Simulation([make_node("a")]) as simulation:
        assert workload.names == ("pod/web",)
        workload.create(simulation)
        workload.create_copy(simulation, 2)
        assert [each.metadata.name for each in simulation.objects(Pod)] == ["web", "web-copy-2"]
        assert sum(each.metadata.name == "urgent" for each in simulation.objects(PriorityClass)) == 1


def test_a_copied_pod_names_the_copy_of_its_group() -> None:
    workload = Workload([*members("g", 1), gang("g", 1)])
    with Simulation([make_node("a")], GROUPS) as simulation:
        workload.create(simulation)
        workload.create_copy(simulation, 2)
        assert [each.metadata.name for each in simulation.objects(PodGroup)] == ["g", "g-copy-2"]
        groups = [pod.spec.scheduling_group for pod in simulation.objects(Pod)]
        assert [None if each is None else each.pod_group_name for each in groups] == ["g", "g-copy-2"]


def test_origins_are_those_of_created_pods_alone() -> None:
    origins = Origins()
    with Simulation([make_node("a"), make_pod("old")]) as simulation:
        origins.add(Workload([make_pod("new")]).create(simulation), 3)
        assert [(copy, pod.metadata.name) for copy, pod in origins.pods(simulation)] == [(3, "new")]
