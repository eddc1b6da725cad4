"""Simulations of groups whose pods share a claim."""

from __future__ import annotations

from collections.abc import Sequence

from kframework import Simulation
from kframework.config.configuration import Configuration
from kframework.in_memory.kind_store import Change
from kframework.objects import ApiObject, Pod, PodGroup, ResourceClaim
from kframework.plugins.dynamic_resources.plugin import DynamicResources
from tests.plugins.dynamic_resources.claiming import GPUS
from tests.support.devices import with_claim
from tests.support.groups import claiming, members, with_gates

#: The configurations in which groups have claims.
CLAIMS = with_gates("GenericWorkload", "DRAWorkloadResourceClaims")
CLAIMS_AND_TREES = with_gates(
    "GenericWorkload", "DRAWorkloadResourceClaims", "TopologyAwareWorkloadScheduling", "CompositePodGroup"
)
CLAIMS_AND_PLACEMENTS = with_gates("GenericWorkload", "DRAWorkloadResourceClaims", "TopologyAwareWorkloadScheduling")


def team(count: int, *, cpu: str = "1", made: bool = False) -> list[Pod]:
    """Make pods of the group `g` that share a claim."""
    used = {"template": "one-gpu"} if made else {"claim": "shared"}
    return [with_claim(pod, **used) for pod in members("g", count, cpu=cpu)]


def owning(group: PodGroup, pods: Sequence[Pod]) -> PodGroup:
    """Return the group with the claims of its pods."""
    return claiming(group, *pods[0].spec.resource_claims)


def simulation_of(*objects: ApiObject, config: Configuration = CLAIMS) -> Simulation:
    return Simulation([GPUS, *objects], config=config)


def simulate(*objects: ApiObject, config: Configuration = CLAIMS, seconds: float = 5.0) -> Simulation:
    simulation = simulation_of(*objects, config=config)
    simulation.run(seconds)
    return simulation


def history(simulation: Simulation) -> list[str]:
    """Return a list to which the devices and the users of the claim are added whenever it is written."""
    states = list[str]()

    def note(change: Change) -> None:
        if isinstance(change.new, ResourceClaim):
            allocation, used_by = change.new.status.allocation, change.new.status.reserved_for
            device = "none" if allocation is None else allocation.devices.results[0].device
            states.append(" ".join([device, *(each.name for each in used_by)]))

    simulation.cluster.subscribe([ResourceClaim], note)
    return states


def the_claim(simulation: Simulation) -> ResourceClaim:
    (found,) = simulation.objects(ResourceClaim)
    return found


def users(simulation: Simulation) -> list[tuple[str, str]]:
    return [(each.resource, each.name) for each in the_claim(simulation).status.reserved_for]


def places(simulation: Simulation) -> list[str | None]:
    return [outcome.node for outcome in simulation.outcomes]


def messages(simulation: Simulation) -> list[str]:
    return [outcome.message for outcome in simulation.outcomes]


def is_clean(simulation: Simulation) -> bool:
    """Return whether no device is pending, and only the devices of allocated claims are in use."""
    plugin = simulation.scheduler.engine.profiles["default-scheduler"].plugins["DynamicResources"]
    assert isinstance(plugin, DynamicResources)
    allocated = plugin.devices.allocated
    claims = [each for each in simulation.objects(ResourceClaim) if each.status.allocation is not None]
    return not allocated._pending and len(allocated._counts.exclusive) == len(claims)


THE_GROUP = [("podgroups", "g")]
