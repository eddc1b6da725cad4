"""With `gangBindingTimeout` a gang whose pods the API refuses to bind is completed in time, or given back."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from itertools import count
from random import Random

import anyio
import pytest
from msgspec.structs import replace

from kframework import ClusterError, Simulation
from kframework.client.kube_cluster import KubeCluster
from kframework.client.transport import Request, Response
from kframework.clock import LoopClock, run_virtual
from kframework.config.configuration import Configuration
from kframework.config.load import parse
from kframework.core.runtime.registry import Registry
from kframework.fake_api.embedded_server import InProcessTransport
from kframework.fake_api.server import ApiServer
from kframework.in_memory.cluster import Fault, MemoryCluster
from kframework.objects import ApiObject, Event, Node, Pod, PodGroup, PodSchedulingGroup
from kframework.objects.pod_groups import BINDING, PodGroupCondition
from kframework.scheduler.scheduler import Scheduler
from kframework.scheduler.succession import Succession
from kframework.testing import make_pod
from tests.faults.interrupted_binding import InterruptingTransport
from tests.support.groups import basic, below, gang, members, nodes, tree


def limited(seconds: int) -> Configuration:
    return parse(f"""
apiVersion: kframework.dev/v1
kind: KFrameworkConfiguration
gangBindingTimeout: {seconds}s
featureGates: {{GenericWorkload: true, TopologyAwareWorkloadScheduling: true, CompositePodGroup: true}}
""")


LIMITED = limited(20)
GANG = [gang("g", 3), *members("g", 3, cpu="3")]


class Refusing:
    """A simulation whose API refuses to bind some pods until some second, and to delete them if that is said."""

    def __init__(
        self,
        *objects: ApiObject,
        refused: Iterable[str] = ("g-2",),
        until: float = 1e9,
        undeletable_until: float = 0.0,
        config: Configuration = LIMITED,
    ) -> None:
        self._refused, self._until, self._undeletable_until = set(refused), until, undeletable_until
        self.simulation = Simulation([*nodes(3), *objects], config=config)
        self.simulation.cluster.faults.append(self._fault)

    def _fault(self, method: str, kind: type[ApiObject], namespace: str, name: str) -> Fault | None:
        seconds = self.simulation.seconds
        refused = method == "bind" and name in self._refused and seconds < self._until
        refused = refused or (method == "delete" and kind is Pod and seconds < self._undeletable_until)
        return Fault(error=ClusterError("refused", status=403)) if refused else None

    def run(self, seconds: float) -> list[str]:
        """Run for some seconds; return the pods that are bound and stay."""
        self.simulation.run(seconds)
        pods = self.simulation.objects(Pod)
        return sorted(
            pod.metadata.name for pod in pods if pod.spec.node_name and pod.metadata.deletion_timestamp is None
        )

    def binding(self, group: str = "g") -> str:
        """Return what the condition of a PodGroup says about its binding."""
        found = (each for each in self.simulation.objects(PodGroup) if each.metadata.name == group)
        conditions = (each for leaf in found for each in leaf.status.conditions if each.type == BINDING)
        return next((f"{each.status} {each.reason}" for each in conditions), "")

    def events(self) -> list[str]:
        return [each.note for each in self.simulation.objects(Event) if each.reason == "IncompleteGang"]


def test_gang_is_completed_if_the_api_binds_the_refused_pod_in_time() -> None:
    world = Refusing(*GANG, until=10)
    assert world.run(1) == ["g-0", "g-1"]
    assert world.binding() == "True BindingBegan"
    assert world.run(60) == ["g-0", "g-1", "g-2"]
    assert world.binding() == "False Bound"
    assert not world.events()


def test_gang_is_given_back_if_the_refused_pod_is_not_bound_in_time() -> None:
    world = Refusing(*GANG)
    assert world.run(19) == ["g-0", "g-1"]
    assert world.run(2) == []
    terminating = [pod for pod in world.simulation.objects(Pod) if pod.metadata.deletion_timestamp is not None]
    conditions = [each for pod in terminating for each in pod.status.conditions if each.type == "DisruptionTarget"]
    assert [each.reason for each in conditions] == ["IncompleteGang"] * 2
    note = "pod group default/g was bound in part for 20s: minCount (3) cannot be satisfied: 2 scheduled, 0 remaining"
    assert [each.message for each in conditions] == world.events() == [note] * 2
    assert world.run(100) == []
    assert world.binding() == "False NotBound"


def test_gang_is_given_back_if_its_last_pod_was_deleted() -> None:
    world = Refusing(*GANG)
    world.run(1)
    world.simulation.delete(Pod, "g-2")
    assert world.run(18) == ["g-0", "g-1"]
    assert world.run(2) == []


def test_gang_is_completed_by_a_pod_that_replaces_a_deleted_one() -> None:
    world = Refusing(*GANG)
    world.run(1)
    world.simulation.delete(Pod, "g-2")
    world.simulation.create(members("g", 4, cpu="3")[3])
    assert world.run(60) == ["g-0", "g-1", "g-3"]
    assert world.binding() == "False Bound"


def test_gang_is_given_back_if_its_last_pod_fits_nowhere_any_more() -> None:
    world = Refusing(*GANG)
    world.run(0.5)
    bound = {pod.spec.node_name for pod in world.simulation.objects(Pod)}
    (left,) = {node.metadata.name for node in world.simulation.objects(Node)} - bound
    world.simulation.delete(Node, left)
    assert world.run(60) == []


def test_pods_that_were_not_bound_keep_no_room_of_a_gang_that_was_given_back() -> None:
    world = Refusing(*GANG)
    world.run(60)
    for number in range(3):
        world.simulation.create(make_pod(f"other-{number}", cpu="3"))
    assert world.run(5) == ["other-0", "other-1", "other-2"]


def test_pods_that_cannot_be_evicted_are_evicted_when_the_time_is_over_again() -> None:
    world = Refusing(*GANG, undeletable_until=30)
    assert world.run(35) == ["g-0", "g-1"]
    assert world.run(10) == []


def test_gang_stays_bound_in_part_without_a_time_limit() -> None:
    world = Refusing(*GANG, config=limited(0))
    assert world.run(300) == ["g-0", "g-1"]
    assert world.binding() == ""


def test_gang_that_loses_pods_after_it_was_complete_is_not_given_back() -> None:
    world = Refusing(*GANG, refused=())
    world.run(1)
    world.simulation.delete(Pod, "g-0")
    assert world.run(100) == ["g-1", "g-2"]
    assert world.binding() == "False Bound"


def test_gang_that_was_complete_is_not_given_back_if_its_minimum_grows() -> None:
    world = Refusing(*GANG, refused=("g-4",))
    world.run(1)
    world.simulation.patch(PodGroup, "g", {"spec": {"schedulingPolicy": {"gang": {"minCount": 5}}}})
    for pod in members("g", 5)[3:]:
        world.simulation.create(pod)
    assert world.run(100) == ["g-0", "g-1", "g-2", "g-3"]
    assert world.binding() == "False Bound"


def test_late_pod_of_a_complete_gang_that_is_refused_has_no_consequences() -> None:
    world = Refusing(*GANG, refused=("g-3",))
    world.run(1)
    world.simulation.create(members("g", 4)[3])
    assert world.run(100) == ["g-0", "g-1", "g-2"]
    assert world.binding() == "False Bound"


def test_group_without_a_minimum_has_no_time_limit() -> None:
    world = Refusing(basic("g"), *members("g", 3))
    assert world.run(60) == ["g-0", "g-1"]
    assert world.binding() == ""


def test_tree_is_given_back_if_one_of_its_gangs_is_not_bound_in_time() -> None:
    leaves = [below("root", gang(name, 2)) for name in "ab"]
    pods = [*members("a", 2), *members("b", 2)]
    world = Refusing(tree("root", 2), *leaves, *pods, refused=("b-1",))
    assert world.run(19) == ["a-0", "a-1", "b-0"]
    assert world.run(30) == []
    assert [world.binding(name) for name in "ab"] == ["False NotBound"] * 2


def test_only_the_gang_that_is_short_is_given_back_where_the_tree_needs_one() -> None:
    leaves = [below("root", gang(name, 2)) for name in "ab"]
    pods = [*members("a", 2), *members("b", 2)]
    world = Refusing(tree("root", 1), *leaves, *pods, refused=("b-1",))
    assert world.run(60) == ["a-0", "a-1"]
    assert [world.binding(name) for name in "ab"] == ["False Bound", "False NotBound"]


def test_pods_of_a_gang_are_not_bound_while_its_condition_cannot_be_written() -> None:
    world = Refusing(*GANG, refused=())
    fault = Fault(error=ClusterError("refused", status=403))
    world.simulation.cluster.faults.append(
        lambda method, *_: fault if method == "patch_status" and world.simulation.seconds < 30 else None
    )
    assert world.run(29) == []
    (message,) = {each.message for pod in world.simulation.objects(Pod) for each in pod.status.conditions}
    assert message == (
        "pod group cannot be bound, its condition kframework.dev/Binding cannot be written: PodGroup default/g"
    )
    assert world.run(30) == ["g-0", "g-1", "g-2"]


# -- a configuration that sets the limit later ---------------------------------------------------------------------


def limit(world: Refusing) -> None:
    """Let the scheduler take the configuration with a limit."""
    world.simulation.run_until(Succession(world.simulation.scheduler, LIMITED, Registry.from_installed()).take())


def test_gang_that_is_in_part_when_the_limit_is_set_is_given_back() -> None:
    world = Refusing(*GANG, config=limited(0))
    world.run(60)
    limit(world)
    assert world.run(19) == ["g-0", "g-1"]
    assert world.binding() == "True BindingBegan"
    assert world.run(2) == []


def test_gang_that_was_complete_before_the_limit_was_set_is_not_given_back() -> None:
    world = Refusing(*GANG, refused=("g-3",), config=limited(0))
    world.run(1)
    world.simulation.delete(Pod, "g-0")
    world.simulation.create(members("g", 4, cpu="3")[3])
    world.run(1)
    limit(world)
    assert world.run(60) == ["g-1", "g-2"]
    assert world.binding() == ""


def test_gang_that_another_scheduler_bound_is_not_given_back_when_the_limit_is_set() -> None:
    world = Refusing(*left_in_part(), members("g", 3)[2], config=limited(0))
    world.run(1)
    limit(world)
    assert world.run(60) == ["g-0", "g-1"]


# -- what another scheduler left behind ----------------------------------------------------------------------------


def left_in_part(*conditions: PodGroupCondition, scheduler: str = "default-scheduler") -> list[ApiObject]:
    group = gang("g", 3)
    group = replace(group, status=replace(group.status, conditions=conditions))
    bound = [make_pod(f"g-{number}", node_name="n0", scheduler_name=scheduler) for number in range(2)]
    member = PodSchedulingGroup(pod_group_name="g")
    return [group, *(replace(pod, spec=replace(pod.spec, scheduling_group=member)) for pod in bound)]


BEGUN = PodGroupCondition(type=BINDING, status="True", reason="BindingBegan")


@pytest.mark.parametrize(
    ("conditions", "scheduler", "left"),
    [
        ([BEGUN], "default-scheduler", []),
        ([BEGUN], "another", ["g-0", "g-1"]),
        ([], "default-scheduler", ["g-0", "g-1"]),
        ([replace(BEGUN, status="False")], "default-scheduler", ["g-0", "g-1"]),
    ],
)
def test_next_scheduler_gives_back_a_gang_that_its_own_pods_left_in_part(
    conditions: list[PodGroupCondition], scheduler: str, left: list[str]
) -> None:
    world = Refusing(*left_in_part(*conditions, scheduler=scheduler))
    assert world.run(19) == ["g-0", "g-1"]
    assert world.run(30) == left


def test_next_scheduler_completes_a_gang_that_was_left_in_part() -> None:
    world = Refusing(*left_in_part(BEGUN), members("g", 3)[2], refused=())
    assert world.run(30) == ["g-0", "g-1", "g-2"]
    assert world.binding() == "False Bound"


class RefusingTransport(InProcessTransport):
    """A transport to an API that binds every pod but one, and takes a second to write the status of a group."""

    async def send(self, request: Request) -> Response:
        if request.path.endswith("/g-2/binding"):
            raise ClusterError("refused", status=403)
        if request.method == "PATCH" and "/podgroups/" in request.path:
            await asyncio.sleep(1)
        return await super().send(request)


class KilledScheduler:
    """A scheduler of a gang that is killed at a request, before or after that is done, and another one after it."""

    def __init__(self, at: int) -> None:
        self._at = at
        #: Whether there was such a request, whether pods were bound then, and those that are bound at the end.
        self.was_killed = self.was_in_part = False
        self.left: list[str] = []
        run_virtual(self._main)

    async def _main(self) -> None:
        clock = LoopClock(asyncio.get_running_loop())
        store = MemoryCluster(clock, [*nodes(3), *GANG], feature_gates=LIMITED.options.gates)
        transport = RefusingTransport(ApiServer(store, clock))

        def kill() -> None:
            self.was_killed, self.was_in_part = True, bool(_bound(store))
            first.cancel()
            raise ClusterError("no answer", status=0)

        points = InterruptingTransport(transport, self._at, kill)
        points.begin()
        with anyio.move_on_after(10) as first:
            await Scheduler(LIMITED, KubeCluster(points, clock, random=Random(0)), clock, slice=0.0).run()
        with anyio.move_on_after(120):
            await Scheduler(LIMITED, KubeCluster(transport, clock, random=Random(0)), clock, slice=0.0).run()
        self.left = _bound(store)


def _bound(store: MemoryCluster) -> list[str]:
    pods = (pod for pod in store.objects(Pod) if pod.spec.node_name and pod.metadata.deletion_timestamp is None)
    return [pod.metadata.name for pod in pods]


def test_gang_is_not_left_in_part_whenever_the_scheduler_dies() -> None:
    in_part = 0
    for at in count(1):
        run = KilledScheduler(at)
        in_part += run.was_in_part
        assert run.left == [], f"after it died at point {at}"
        if not run.was_killed:
            break
    assert in_part > 2
