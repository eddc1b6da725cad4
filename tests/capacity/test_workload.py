"""A workload is created, copied under other names, and its pods are told from those of the cluster."""

from __future__ import annotations

from kframework import Simulation
from kframework.capacity.workload import Origins, Workload
from kframework.objects import ObjectMeta, Pod, PodGroup, PriorityClass
from kframework.testing import make_node, make_pod
from tests.capacity.test_fit import deployment
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


def test_copies_share_their_parts() -> None:
    workload = Workload([make_pod("web")])
    with Simulation([make_node("a")]) as simulation:
        (second,), (third,) = (workload.create_copy(simulation, number) for number in (2, 3))
    assert isinstance(second, Pod) and isinstance(third, Pod) and second.spec is third.spec


def test_origins_are_those_of_created_pods_alone() -> None:
    with Simulation([make_node("a"), make_pod("old")]) as simulation:
        origins = Origins(simulation.cluster)
        origins.add(Workload([make_pod("new")]).create(simulation), 3)
        assert [(copy, pod.metadata.name) for copy, pod in origins.pods()] == [(3, "new")]


def test_new_pods_are_those_created_since_the_last_look() -> None:
    workload = Workload([deployment("web", 2)])
    with Simulation([make_node("a")]) as simulation:
        origins = Origins(simulation.cluster)
        for number in (2, 3):
            origins.add(workload.create_copy(simulation, number), number)
            simulation.run()
            assert [copy for copy, pod in origins.new_pods() if pod.spec.node_name] == [number] * 2
        assert [copy for copy, _ in origins.pods()] == [2, 2, 3, 3]


def test_a_pod_recreated_under_the_same_name_is_not_the_workload_s() -> None:
    with Simulation([make_node("a")]) as simulation:
        origins = Origins(simulation.cluster)
        origins.add(Workload([make_pod("new")]).create(simulation), 1)
        simulation.cluster.remove(Pod, "new", grace=0)
        simulation.create(Pod(metadata=ObjectMeta(name="new")))
        assert not [*origins.pods()]
