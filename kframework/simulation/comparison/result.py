"""The result of a comparison of two configurations: in Python, as JSON, and the source of tables and pages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from enum import StrEnum

import msgspec

from kframework.explain.causes import DifferenceCause
from kframework.observe.recording.diff import Unrepeated
from kframework.simulation.measures import DIGITS
from kframework.simulation.sweep.summary import SIGNIFICANT, Estimate, Summary
from kframework.values.answer import Answer


class PodChange(StrEnum):
    """How the outcome for a pod differs, the most important first."""

    FITS_NO_MORE = "fits no more"
    NO_PROFILE = "no profile"
    OTHER_NODE = "other node"
    FITS_NOW = "fits now"
    OTHER_VICTIMS = "other victims"
    #: It exists only in one of the simulations, because a controller created other pods.
    ONLY_BASELINE = "only in baseline"
    ONLY_NEW = "only in new"
    #: It is pending under both, for different reasons.
    OTHER_REASONS = "other reasons"

    @property
    def importance(self) -> int:
        """The rank among the changes, from 0 for the most important one."""
        return [*PodChange].index(self)


class PodDifference(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A pod for which the configurations decide differently.

    Attributes:
        pod: The pod, `namespace/name`.
        change: How the outcome differs.
        baseline: The node under the baseline; "" without one.
        new: The node under the new configuration, likewise.
        message: Why, as a sentence; "" if unknown.
        cause: The reason in parts, None if it is unknown.
        attempt: The number of the attempt in a recording; 0 in a simulation.
    """

    pod: str
    change: PodChange
    baseline: str
    new: str
    message: str = ""
    cause: DifferenceCause | None = None
    attempt: int = 0

    @property
    def summary(self) -> str:
        """The reason without nodes and numbers, by which pods are counted; "" if it is unknown."""
        return self.cause.summary if self.cause is not None else ""


class CauseCount(msgspec.Struct, frozen=True, rename="camel"):
    """How many pods differ in the same way for the same reason."""

    change: PodChange
    reason: str
    pods: int


class NodeUse(msgspec.Struct, frozen=True, rename="camel"):
    """The use of a node under both configurations, by resource.

    After simulations it has the requested shares of CPU and memory, averaged over time; on a recording, `pods` counts
    those that are sent to the node.
    """

    node: str
    baseline: Mapping[str, float]
    new: Mapping[str, float]


class MeasureDifference(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A measure of both configurations: means over the seeds.

    Attributes:
        measure: The name of the measure.
        baseline: Its mean under the baseline; None if no run has it.
        baseline_margin: Half the 95 % confidence interval of this mean; None for a single seed.
        new: Its mean under the new configuration.
        new_margin: Half the confidence interval of this mean.
        difference: The mean difference, paired by seed.
        probability: That a difference as large arises by chance; it takes six seeds to be small.
    """

    measure: str
    baseline: float | None
    baseline_margin: float | None
    new: float | None
    new_margin: float | None
    difference: float | None
    probability: float | None

    @property
    def is_significant(self) -> bool:
        """Whether the difference is larger than chance."""
        return self.probability is not None and self.probability < SIGNIFICANT


class ConfigurationComparison(Answer, frozen=True, kw_only=True, rename="camel"):
    """How two configurations decide on the same pods.

    Attributes:
        baseline: The name of the baseline.
        new: The name of the configuration that is compared with it.
        source: What they decided on: the cluster files, or the recording.
        pods: How many pods were compared.
        moved: How many of them have another outcome; pods that are pending for other reasons do not count.
        changes: The number of pods for each change.
        causes: The number of pods for each change and reason, the most frequent first.
        differences: The pods that differ, the most important changes first.
        measures: The measures of both configurations; none for a recording.
        seeds: The seeds of the simulations; `differences` and `nodes` are those of the first one.
        nodes: The use of the nodes.
        not_repeated: What was not decided again in a recording.
        cut_off: Whether the recording ends in the middle.
    """

    baseline: str
    new: str
    source: tuple[str, ...] = ()
    pods: int
    moved: int
    changes: Mapping[str, int]
    causes: tuple[CauseCount, ...]
    differences: tuple[PodDifference, ...]
    measures: tuple[MeasureDifference, ...] = ()
    seeds: tuple[int, ...] = ()
    nodes: tuple[NodeUse, ...] = ()
    not_repeated: Unrepeated | None = None
    cut_off: bool = False

    @classmethod
    def from_differences(
        cls, baseline: str, new: str, pods: int, differences: Sequence[PodDifference]
    ) -> ConfigurationComparison:
        """Count the differences of a comparison, and sort them by importance."""
        counts = Counter(each.change for each in differences)
        causes = Counter((each.change, each.summary) for each in differences)
        return cls(
            baseline=baseline,
            new=new,
            pods=pods,
            moved=counts.total() - counts[PodChange.OTHER_REASONS],
            changes={change.value: counts[change] for change in PodChange if change in counts},
            causes=tuple(CauseCount(change, reason, count) for (change, reason), count in causes.most_common()),
            differences=tuple(sorted(differences, key=lambda each: each.change.importance)),
        )


def measure_differences(summary: Summary) -> tuple[MeasureDifference, ...]:
    """Pair the estimates of two configurations, the baseline first."""
    baseline, new = summary.values()
    return tuple(_pair_estimates(measure, baseline[measure], new[measure]) for measure in new)


def _pair_estimates(measure: str, baseline: Estimate, new: Estimate) -> MeasureDifference:
    return MeasureDifference(
        measure=measure,
        baseline=baseline.mean,
        baseline_margin=baseline.margin,
        new=new.mean,
        new_margin=new.margin,
        difference=None if new.difference is None else round(new.difference, DIGITS),
        probability=new.probability,
    )


def pair_nodes(
    baseline: Mapping[str, Mapping[str, float]], new: Mapping[str, Mapping[str, float]]
) -> tuple[NodeUse, ...]:
    """Pair the use of each node under both configurations."""
    return tuple(NodeUse(node, baseline.get(node, {}), new.get(node, {})) for node in {**baseline, **new})


def find_change(baseline: str | None, new: str | None) -> PodChange | None:
    """Compare the nodes of a pod in two simulations, "" without a node and None without the pod."""
    if baseline == new:
        return None
    if baseline is None or new is None:
        return PodChange.ONLY_NEW if baseline is None else PodChange.ONLY_BASELINE
    if baseline and new:
        return PodChange.OTHER_NODE
    return PodChange.FITS_NO_MORE if baseline else PodChange.FITS_NOW
