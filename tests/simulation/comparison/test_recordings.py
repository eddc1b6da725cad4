"""Two configurations decide the attempts of a recording, and each pod that differs has its cause."""

from __future__ import annotations

from pathlib import Path

import pytest

from kframework.config.configuration import Configuration
from kframework.config.load import default_configuration
from kframework.errors import InputError
from kframework.objects import ApiObject
from kframework.simulation.comparison.recordings import compare_recording
from kframework.simulation.comparison.result import PodChange
from kframework.testing import make_node, make_pod
from tests.observe.recording.test_reconsider import (
    ELSEWHERE,
    HUGE,
    LARGE,
    PACKED,
    POD,
    SMALL,
    TAINTED,
    TOLERANT,
    record,
)

DEFAULT = default_configuration()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "recording"


@pytest.mark.parametrize(
    ("objects", "baseline", "new", "change", "message"),
    [
        ([LARGE, SMALL, POD], None, PACKED, PodChange.OTHER_NODE, "NodeResourcesFit scores small "),
        ([LARGE, SMALL, POD], PACKED, DEFAULT, PodChange.OTHER_NODE, "NodeResourcesFit scores large "),
        ([TAINTED, POD], None, TOLERANT, PodChange.FITS_NOW, "in the baseline TaintToleration rejects t: "),
        ([TAINTED, POD], TOLERANT, DEFAULT, PodChange.FITS_NO_MORE, "TaintToleration rejects t: "),
        ([TAINTED, HUGE], None, TOLERANT, PodChange.OTHER_REASONS, "0/1 nodes are available: "),
        ([LARGE, POD], None, ELSEWHERE, PodChange.NO_PROFILE, ""),
        ([LARGE, POD], ELSEWHERE, DEFAULT, PodChange.NO_PROFILE, ""),
    ],
)
def test_each_pod_that_differs_has_its_reason(
    file: Path,
    objects: list[ApiObject],
    baseline: Configuration | None,
    new: Configuration,
    change: PodChange,
    message: str,
) -> None:
    result = compare_recording(record(file, objects), new, baseline)
    (difference,) = result.differences
    assert difference.change is change and difference.message.startswith(message)
    assert (result.pods, result.moved) == (1, int(change is not PodChange.OTHER_REASONS))


def test_recorded_choice_among_equal_nodes_is_no_difference(file: Path) -> None:
    nodes = [make_node(f"node-{number}") for number in range(8)]
    record(file, [*nodes, *(make_pod(f"pod-{number}") for number in range(20))])
    for baseline in (None, DEFAULT, TOLERANT):
        result = compare_recording(file, DEFAULT, baseline)
        assert (result.pods, result.differences) == (20, ())


def test_pod_that_is_tried_twice_counts_once_with_its_most_important_difference(file: Path) -> None:
    """It is rejected for another reason first, and in the end the baseline finds a node."""
    late = make_node("late", cpu=64, taints=["k=v:NoSchedule"], annotations={"kframework.dev/arrives-seconds": "5"})
    record(file, [TAINTED, late, HUGE], TOLERANT)
    result = compare_recording(file, DEFAULT)
    (difference,) = result.differences
    assert (result.pods, difference.change, difference.baseline) == (1, PodChange.FITS_NO_MORE, "late")
    assert difference.attempt > 1


def test_pods_are_counted_by_their_node_under_both(file: Path) -> None:
    result = compare_recording(record(file, [LARGE, SMALL, POD, make_pod("q", node_selector={"no": "node"})]), PACKED)
    assert [(each.node, dict(each.baseline), dict(each.new)) for each in result.nodes] == [
        ("large", {"pods": 1}, {}),
        ("small", {}, {"pods": 1}),
    ]


def test_file_that_is_no_recording_is_an_error(file: Path) -> None:
    file.write_text("")
    with pytest.raises(InputError, match="is empty"):
        compare_recording(file, DEFAULT)
