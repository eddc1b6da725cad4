"""A recording holds few annotations, and a replay that needs another says so."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from kframework import Plugin, Status, hookimpl
from kframework.config.load import parse
from kframework.core.runtime.registry import Registry
from kframework.objects.resource_claims import EXTENDED_RESOURCE_CLAIM
from kframework.observe.recording.annotations import (
    KEPT_ANNOTATIONS,
    AnnotationNotRecorded,
    guard_annotations,
    keep_matcher,
    without_values,
)
from kframework.observe.recording.pod_engine import recording_pod_engine_factory
from kframework.observe.recording.replay import replay
from kframework.observe.recording.writer import Recorder
from kframework.simulation.simulation import Simulation
from kframework.testing import make_node, make_pod
from kframework.values.status import Code
from tests.extension_points.scripted import alone
from tests.faults.recording_lines import lines_of


@pytest.mark.parametrize(
    ("patterns", "key", "kept"),
    [
        (KEPT_ANNOTATIONS, "kframework.dev/run-seconds", True),
        (KEPT_ANNOTATIONS, "pv.kubernetes.io/bind-completed", True),
        (KEPT_ANNOTATIONS, "volume.kubernetes.io/selected-node", True),
        (KEPT_ANNOTATIONS, EXTENDED_RESOURCE_CLAIM, True),
        (KEPT_ANNOTATIONS, "kubectl.kubernetes.io/last-applied-configuration", False),
        (KEPT_ANNOTATIONS, "example.com/token", False),
        (KEPT_ANNOTATIONS, "evil.example/pv.kubernetes.io/", False),
        (KEPT_ANNOTATIONS, "pvxkubernetes.io/bind-completed", False),
        (["example.com/*"], "example.com/zone\nmore", True),
        (["example.com/zone"], "example.com/zones", False),
        (["*"], "anything", True),
        ([], "anything", False),
    ],
)
def test_kept_annotations_match_the_patterns(patterns: list[str], key: str, kept: bool) -> None:
    assert keep_matcher(patterns)(key) is kept


def recorded(annotations: Mapping[str, str]) -> dict[str, str]:
    """Return annotations as a replay has them, if those of example.com were not recorded."""
    pod = make_pod("p", annotations=annotations)
    marked = without_values(pod, lambda key: not key.startswith("example.com"), lambda value: f"{len(value):024x}")
    return guard_annotations(marked).metadata.annotations


MIXED = {"example.com/secret": "hunter2", "open": "o"}


@pytest.mark.parametrize(
    "read",
    [
        lambda found: found["example.com/secret"],
        lambda found: found.get("example.com/secret"),
        lambda found: dict(found),
        lambda found: {**found},
        lambda found: found | {},
        lambda found: {} | found,
        lambda found: found.copy(),
        lambda found: list(found.values()),
        lambda found: list(found.items()),
    ],
)
def test_reading_an_unrecorded_annotation_raises(read: Callable[[dict[str, str]], object]) -> None:
    with pytest.raises(AnnotationNotRecorded) as raised:
        read(recorded(MIXED))
    assert str(raised.value) == (
        "the recording does not hold the annotation 'example.com/secret' of pod default/p: "
        "record with --record-annotations 'example.com/secret'"
    )


def test_unrecorded_annotations_can_be_looked_for_and_compared() -> None:
    found = recorded(MIXED)
    assert (found["open"], found.get("none"), found.get("none", 1)) == ("o", None, 1)
    assert ("example.com/secret" in found, "none" in found) == (True, False)
    assert (list(found), len(found)) == (["example.com/secret", "open"], 2)
    assert found == recorded(MIXED) != recorded(MIXED | {"example.com/secret": "hunter"})
    with pytest.raises(KeyError):
        found["none"]


def test_object_with_all_annotations_is_returned_unchanged() -> None:
    pod = make_pod("p", annotations={"open": "o"})
    assert guard_annotations(pod) is without_values(pod, lambda key: True, str) is pod


class Reads(Plugin):
    """Lets a pod go only to the zone that an annotation names."""

    name = "Reads"

    @hookimpl
    def filter(self, state: Any, pod: Any, node: Any) -> Status | None:
        zone = pod.annotations.get("example.com/zone")
        return None if zone == node.labels.get("zone") else Status(Code.UNSCHEDULABLE, ("another zone",))


def run(file: Path, **options: Any) -> None:
    recorder = Recorder(file, **options)
    nodes = [make_node(zone, labels={"zone": zone}) for zone in "ab"]
    pod = make_pod("p", annotations={"example.com/zone": "b", "example.com/token": "hunter2"})
    registry = Registry.with_plugins(Reads)
    configuration = parse(alone(Reads), "config")
    objects = [*nodes, pod]
    Simulation(
        objects, configuration, registry=registry, observers=[recorder], engine=recording_pod_engine_factory(recorder)
    ).run()
    recorder.close()


def test_replay_that_needs_an_unrecorded_annotation_raises(tmp_path: Path) -> None:
    run(tmp_path / "run")
    assert "hunter2" not in str(lines_of(tmp_path / "run"))
    difference = replay(tmp_path / "run", Registry.with_plugins(Reads)).difference
    assert "record with --record-annotations 'example.com/zone'" in str(difference)


def test_replay_with_recorded_annotations_has_no_difference(tmp_path: Path) -> None:
    run(tmp_path / "run", annotations=("example.com/zone",))
    assert "hunter2" not in str(lines_of(tmp_path / "run"))
    assert replay(tmp_path / "run", Registry.with_plugins(Reads)).difference is None
