"""What users of quotas complain about, each beside the naive rule that leads there."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from kframework_capacity_scheduling import CapacityScheduling, ElasticQuota
from kframework_capacity_scheduling.accounts import Accounts, Demand
from kframework_capacity_scheduling.capacity_scheduling import CapacitySchedulingArgs
from kframework_capacity_scheduling.testing import PUBLISHED, pods, quota, running, scenario, used, victims
from msgspec.structs import replace

from kframework import CycleState, Handle, NodeTable, PendingPod, PodInfo, QueueingHint, Status, hookimpl
from kframework.objects import Pod
from kframework.testing import ScenarioResult, make_node, make_pod, patch

EIGHT = make_node("node", cpu=8)

Run = Callable[[type[CapacityScheduling]], ScenarioResult]


def both(run: Run, naive: type[CapacityScheduling]) -> list[ScenarioResult]:
    return [run(CapacityScheduling), run(naive)]


class CountsLeavingPods(CapacityScheduling):
    """Take what victims use for used until they have gone, as scheduler-plugins does."""

    def _accounts(self) -> Accounts:
        accounts = super()._accounts()
        accounts.leaving, accounts._leaving_amounts = {}, {}
        return accounts


def test_no_more_pods_are_evicted_than_were_borrowed() -> None:
    """Over-eviction: pods that were evicted already, and use their grace period, are counted as if they stayed."""

    def run(plugin: type[CapacityScheduling]) -> ScenarioResult:
        nodes = [make_node(f"n{number}", cpu=4) for number in range(2)]
        objects = [*nodes, quota("a", min=4), quota("b", min=4), quota("c", min=2)]
        return scenario(objects, (0, pods("b", 6) + pods("c", 2)), (60, pods("a", 4)), plugin=plugin).run(until=1000)

    right, naive = both(run, CountsLeavingPods)
    assert len(victims(right)) == 2
    assert len(running(right, "b")) == 4
    assert len(victims(naive)) > 2, "b is left with less than its min"


class KeepsNoNodes(CapacityScheduling):
    """Let borrowers go where a pod waits that has just taken back its room."""

    @hookimpl
    def pre_filter(self, state: CycleState, pod: PendingPod, nodes: NodeTable) -> Status | set[str] | None:
        answer = super().pre_filter(state, pod, nodes)
        return None if isinstance(answer, set) else answer


def test_reclaimed_room_is_not_borrowed_again() -> None:
    """Cyclic eviction: the borrower's next pod, more important, takes the room before the owner's pod is tried."""

    def run(plugin: type[CapacityScheduling]) -> ScenarioResult:
        nodes = [make_node("n1", cpu=4), make_node("n2", cpu=4)]
        objects = [*nodes, quota("a", min=4), quota("b", min=4), quota("c", min=8)]
        # A controller replaces what was evicted.
        again = [(61.0 + 40 * number, pods("b", 1, f"again-{number}", priority=9)) for number in range(10)]
        waves = [(0.0, pods("a", 3)), (1.0, pods("b", 5, priority=9)), (60.0, pods("a", 1, "owner")), *again]
        return scenario(objects, *waves, plugin=plugin).run(until=1000)

    right, naive = both(run, KeepsNoNodes)
    assert len(victims(right)) == 1
    assert "owner-0" in running(right, "a")
    assert len(victims(naive)) > 3


def ending_within(seconds: int, pods: list[Pod]) -> list[Pod]:
    """Give pods a grace period."""
    return [replace(pod, spec=replace(pod.spec, termination_grace_period_seconds=seconds)) for pod in pods]


class PromisesNothing(CapacityScheduling):
    """Let other namespaces have what a nominated pod is owed, if they find room on another node."""

    def _accounts(self) -> Accounts:
        accounts = super()._accounts()

        def demand(pod: PendingPod) -> Demand:
            right = Accounts.demand(accounts, pod)
            return right._replace(reserved_by_all=right.reserved)

        accounts.demand = demand  # type: ignore[method-assign]  # the naive rule
        return accounts


def test_what_is_taken_back_is_not_lent_to_a_third_namespace() -> None:
    """One victim has ended, three take their time: what the first gave back is the owner's, wherever there is room."""

    def run(plugin: type[CapacityScheduling]) -> ScenarioResult:
        nodes = [make_node("full", cpu=8), make_node("spare", cpu=4)]
        objects = [*nodes, quota("a", min=4), quota("b", min=4), quota("c")]
        here = {"kubernetes.io/hostname": "full"}
        quick = ending_within(1, pods("b", 1, "quick", node_selector=here))
        slow = ending_within(100, pods("b", 3, "slow", node_selector=here))
        borrowers = pods("b", 4, node_selector=here, priority=5) + quick + slow
        owner = pods("a", 1, "owner", cpu=4, node_selector=here)
        return scenario(objects, (0, borrowers), (60, owner), (80, pods("c", 1)), plugin=plugin).run(until=280)

    right, naive = both(run, PromisesNothing)
    assert running(right, "a") == {"owner-0"}
    assert running(naive, "c") == {"pod-0"}
    assert not running(naive, "a"), "a has less than its min"


class WaitsForQuota(CapacityScheduling):
    """Try a pod again only when quotas have room for it."""

    def after_pod_change(self, pod: PendingPod, old: PodInfo | None, new: PodInfo | None) -> QueueingHint:
        return self.after_change(pod, old, new)


def test_pod_whose_quota_shrinks_gives_up_its_room_when_its_victims_have_left() -> None:
    """It preempts, then its quota forbids it: until it is tried again its nomination keeps others off the node."""

    def run(plugin: type[CapacityScheduling]) -> ScenarioResult:
        lent, owner = quota("a", min=4), pods("a", 1, "owner", cpu=4)
        borrowers = pods("b", 4, priority=5) + ending_within(100, pods("b", 4, "slow"))
        waves = [(0.0, borrowers), (60.0, owner), (80.0, pods("plain", 1, cpu=4))]
        prepared = scenario([EIGHT, lent, quota("b", min=4)], *waves, plugin=plugin)
        return prepared.at(70, patch(lent, {"spec": {"min": {"cpu": 2}}})).run(until=280)

    right, naive = both(run, WaitsForQuota)
    assert running(right, "plain")
    assert not running(naive, "plain")


class SharesEveryResource(CapacityScheduling):
    """Take what no `min` names for a guarantee of nothing, as scheduler-plugins does."""

    def _accounts(self) -> Accounts:
        accounts = super()._accounts()
        accounts._guaranteed = {"memory": 0, **accounts._guaranteed}
        return accounts


def test_quota_of_gpus_lets_pods_have_memory() -> None:
    def run(plugin: type[CapacityScheduling]) -> ScenarioResult:
        gpu = {"nvidia.com/gpu": 1}
        node = make_node("node", allocatable=gpu)
        return scenario(
            [node, quota("a", gpu, gpu)], (0, pods("a", 1, requests=gpu, memory="1Gi")), plugin=plugin
        ).run()

    right, naive = both(run, SharesEveryResource)
    assert running(right, "a")
    assert "total ElasticQuota used is more than min (memory)" in naive.message_of("a/pod-0")


class WakesForStatus(CapacityScheduling):
    """Take every update of a quota for one that may help."""

    def after_quota_change(self, pod: PendingPod, old: ElasticQuota | None, new: ElasticQuota | None) -> QueueingHint:
        return QueueingHint.QUEUE


def test_writing_the_status_wakes_no_pod() -> None:
    def run(plugin: type[CapacityScheduling]) -> ScenarioResult:
        waves = [(60.0 * number, pods("b", 1, f"late-{number}")) for number in range(1, 4)]
        objects = [EIGHT, quota("a", min=1, max=1), quota("b", min=7)]
        return scenario(objects, (0, pods("a", 2)), *waves, plugin=plugin).run(until=280)

    right, naive = both(run, WakesForStatus)
    assert len(right.decisions_on("a/pod-1")) == 1
    assert len(naive.decisions_on("a/pod-1")) > 3


class CountsOwnPodsOnly(CapacityScheduling):
    """Count the pods that this scheduler reserved, and none that were there before."""

    def __init__(self, args: CapacitySchedulingArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._usage._count = lambda pod, sign: (  # type: ignore[method-assign]  # the naive rule
            type(self._usage)._count(self._usage, pod, sign) if isinstance(pod, PendingPod) else None
        )


def test_restarted_scheduler_knows_what_is_used() -> None:
    def run(plugin: type[CapacityScheduling]) -> ScenarioResult:
        before = pods("a", 3, "before", node_name="node")
        other = pods("a", 1, "of-another-scheduler", node_name="node", scheduler_name="other")
        return scenario([EIGHT, quota("a", min=4, max=4), *before, *other], (0, pods("a", 2)), plugin=plugin).run()

    right, naive = both(run, CountsOwnPodsOnly)
    assert len(running(right, "a")) == 4
    assert used(right, "a") == {"cpu": "4"}
    assert len(running(naive, "a")) > 4


class SleepsOn(CapacityScheduling):
    """Wait for events at which a node gets room."""

    def __init__(self, args: CapacitySchedulingArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._usage.on_bound.clear()


def test_owner_takes_back_its_room_as_soon_as_another_borrows() -> None:
    """The pod of the owner does not fit on its node, and nothing ends; then the other namespace begins to borrow."""

    def run(plugin: type[CapacityScheduling]) -> ScenarioResult:
        nodes = [make_node("n1", cpu=4), make_node("n2", cpu=4)]
        here, there = [{"kubernetes.io/hostname": node.metadata.name} for node in nodes]
        objects = [*nodes, quota("a", min=2), quota("b", min=3)]
        owner = pods("a", 1, "owner", cpu=2, node_selector=here)
        late = pods("b", 1, "late", node_selector=there)
        waves = [(0.0, pods("b", 3, node_selector=here)), (10.0, owner), (60.0, late)]
        return scenario(objects, *waves, plugin=plugin).run(until=250)

    right, naive = both(run, SleepsOn)
    assert "owner-0" in running(right, "a")
    assert "owner-0" not in running(naive, "a")


def test_two_profiles_of_one_scheduler_share_the_quotas() -> None:
    """An instance for each profile must not count the pods of its own profile only."""
    second = PUBLISHED.partition("profiles:\n")[2].replace("default-scheduler", "second")
    first, others = pods("a", 3), pods("a", 3, "other", scheduler_name="second")
    result = scenario([EIGHT, quota("a", min=4, max=4)], (0, first + others), config=PUBLISHED + second).run()
    assert len(running(result, "a")) == 4


@pytest.mark.parametrize("disables", [True, False])
def test_default_preemption_must_be_disabled_beside(disables: bool) -> None:
    """It knows no quotas: it evicts less important pods of a namespace that uses no more than its `min`."""
    config = PUBLISHED if disables else PUBLISHED.replace('      disabled:\n      - name: "*"\n', "")
    objects = [EIGHT, quota("a", min=4), quota("b", min=4)]
    late = pods("a", 1, "late", priority=9)
    result = scenario(objects, (0, pods("a", 4) + pods("b", 4)), (60, late), config=config).run(until=1000)
    assert {victim.partition("/")[0] for victim in victims(result)} <= ({"a"} if disables else {"a", "b"})
    assert len(running(result, "b")) == 4 or not disables


def test_pod_within_max_that_fits_nowhere_says_so() -> None:
    """Quota says yes, placement says no: the message names the node's reason, not the quota."""
    result = scenario([EIGHT, quota("a", min=16)], (0, [make_pod("large", namespace="a", cpu=9)])).run()
    assert "Insufficient cpu" in result.message_of("a/large")
    assert "ElasticQuota" not in result.message_of("a/large")
