"""What is enabled of plugin classes that are given beside the installed ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from kframework import Plugin
from kframework.clock import SystemClock
from kframework.config.load import default_configuration, parse
from kframework.core.host import Host
from kframework.core.plugin_handle import profiles_factory
from kframework.core.pod_engine import PodEngine
from kframework.core.runtime.programmatic import configuration_with_plugins
from kframework.core.runtime.registry import Registry
from kframework.state.cluster import ClusterState
from tests.extension_points.scripted import alone, plugin

ORDINARY = plugin("Mine", filter=None, score=0)
SORTING = plugin("Sorts", queue_sort=0)
BINDING = plugin("Binds", bind=None)
REPLACING = plugin("NodeAffinity", filter=None, score=0)


def points(*plugins: type[Plugin]) -> dict[str, tuple[str, ...]]:
    """Compile the default profile with these plugins; return the names at each point."""
    profiles = profiles_factory(configuration_with_plugins(None, plugins), Registry.with_plugins(*plugins), Host())
    return (
        PodEngine(ClusterState(), SystemClock(), Host(), profiles, verifying=False).profiles["default-scheduler"].points
    )


def test_default_configuration_is_used_without_plugins() -> None:
    assert configuration_with_plugins(None, ()) == default_configuration()


@pytest.mark.parametrize(
    ("given", "point", "place"),
    [(ORDINARY, "filter", -1), (ORDINARY, "score", -1), (SORTING, "queue_sort", 0), (BINDING, "bind", 0)],
)
def test_plugins_run_at_all_their_points_without_a_configuration(given: type[Plugin], point: str, place: int) -> None:
    assert points(given)[point][place] == given.name


def test_queue_sort_plugin_replaces_the_default_and_bind_plugin_precedes_it() -> None:
    assert points(SORTING)["queue_sort"] == ("Sorts",)
    assert points(BINDING)["bind"] == ("Binds", "DefaultBinder")
    assert points(ORDINARY)["queue_sort"] == ("PrioritySort",)


def test_plugin_with_a_default_name_replaces_the_default() -> None:
    assert points(REPLACING)["filter"].index("NodeAffinity") == points()["filter"].index("NodeAffinity")
    (weight,) = {
        entry.weight
        for entry in configuration_with_plugins(None, [REPLACING]).profiles[0].plugins.multi_point.enabled
        if entry.name == "NodeAffinity"
    }
    assert weight == 2


@pytest.mark.parametrize("form", ["file", "mapping", "configuration"])
def test_plugins_missing_from_the_configuration_give_a_warning(form: str, tmp_path: Path) -> None:
    file = tmp_path / "k.yaml"
    file.write_text(alone(ORDINARY))
    sources = {
        "file": file,
        "mapping": {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "profiles": [{"plugins": {"multiPoint": {"enabled": [{"name": "Mine"}]}}}],
        },
        "configuration": parse(alone(ORDINARY)),
    }
    configuration = configuration_with_plugins(sources[form], [ORDINARY, BINDING])  # type: ignore[arg-type]  # one of each
    assert "Mine" in configuration.profiles[0].plugins.enabled_names()
    (warning,) = configuration.warnings
    assert warning.startswith("no profile enables plugin 'Binds', so it does not run; to enable it, name it under ")
    assert warning.endswith("plugins.multiPoint.enabled: [{name: Binds}]")
