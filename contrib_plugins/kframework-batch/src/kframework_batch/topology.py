"""HyperNodes: what Volcano calls the nodes that are close to each other in the network, and hypernodes of these."""

from __future__ import annotations

from kframework.objects import ApiObject, ApiStruct, LabelSelector, PrinterColumn, kind


class ExactMatch(ApiStruct, frozen=True, kw_only=True):
    """The one of this name."""

    name: str = ""


class RegexMatch(ApiStruct, frozen=True, kw_only=True):
    """The nodes in whose names this is found."""

    pattern: str = ""


class MemberSelector(ApiStruct, frozen=True, kw_only=True):
    """Which nodes, or which hypernode, in one of three ways; hypernodes go by their exact name alone."""

    exact_match: ExactMatch | None = None
    regex_match: RegexMatch | None = None
    label_match: LabelSelector | None = None


class Member(ApiStruct, frozen=True, kw_only=True):
    """What belongs to a hypernode; `type` is Node or HyperNode."""

    type: str = ""
    selector: MemberSelector = MemberSelector()


class HyperNodeSpec(ApiStruct, frozen=True, kw_only=True):
    """How close the members are, and who they are: the lower the tier, the faster they reach each other."""

    tier: int = 0
    tier_name: str = ""
    members: tuple[Member, ...] = ()


class HyperNodeStatus(ApiStruct, frozen=True, kw_only=True):
    """What its controller has found; sessions do not go by it."""

    node_count: int = 0
    conditions: tuple[dict[str, object], ...] = ()


@kind(
    "topology.volcano.sh/v1alpha1",
    "hypernodes",
    namespaced=False,
    short_names=("hn",),
    columns=(
        PrinterColumn(name="Tier", json_path=".spec.tier"),
        PrinterColumn(name="TierName", json_path=".spec.tierName"),
        PrinterColumn(name="NodeCount", type="integer", json_path=".status.nodeCount"),
        PrinterColumn(name="Age", type="date", json_path=".metadata.creationTimestamp"),
    ),
)
class HyperNode(ApiObject, frozen=True, kw_only=True):
    """Nodes that are close to each other."""

    spec: HyperNodeSpec = HyperNodeSpec()
    status: HyperNodeStatus = HyperNodeStatus()
