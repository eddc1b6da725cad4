"""The file of a sweep."""

from __future__ import annotations

from pathlib import Path

import pytest

from kframework.errors import ConfigError
from kframework.simulation.sweep import document
from kframework.simulation.sweep.document import Sweep
from tests.simulation.sweep.files import PACKING, SWEEP, write_sweep

GRID = """\
apiVersion: kframework.dev/v1
kind: Sweep
grid:
  base: packing.yaml
  axes:
    strategy:
      path: profiles[0].pluginConfig[0].args.scoringStrategy.type
      values: [LeastAllocated, MostAllocated]
    percentage: {path: 'percentageOfNodesToScore', values: [10, 20]}
clusters: {only: [nodes.yaml]}
"""


def keys(folder: Path, text: str = SWEEP) -> list[str]:
    return [run.key for run in Sweep(str(write_sweep(folder, text))).runs]


def errors(folder: Path, text: str) -> list[str]:
    with pytest.raises(ConfigError) as raised:
        Sweep(str(write_sweep(folder, text)))
    return str(raised.value).replace(f"{folder}/", "").splitlines()


def test_runs_combine_configurations_clusters_and_seeds(tmp_path: Path) -> None:
    runs = Sweep(str(write_sweep(tmp_path))).runs
    assert [(run.configuration, run.cluster, run.seed) for run in runs] == [
        (configuration, cluster, seed)
        for configuration in ("default", "packing")
        for cluster in ("short", "long")
        for seed in (1, 2)
    ]
    assert {run.duration for run in runs} == {600.0}
    assert runs[0].files == (str(tmp_path / "nodes.yaml"), str(tmp_path / "short.yaml"))


def test_grid_sets_values_in_its_base(tmp_path: Path) -> None:
    configurations = Sweep(str(write_sweep(tmp_path, GRID))).configurations
    assert {
        name: (
            each.profiles[0].raw_args("NodeResourcesFit").value["scoringStrategy"]["type"],  # type: ignore[index,call-overload]  # as the test wrote it
            each.settings.percentage_of_nodes_to_score,
        )
        for name, each in configurations.items()
    } == {
        f"strategy={strategy},percentage={percentage}": (strategy, percentage)
        for strategy in ("LeastAllocated", "MostAllocated")
        for percentage in (10, 20)
    }


def test_grid_without_a_base_varies_the_default_profile(tmp_path: Path) -> None:
    text = GRID.replace("  base: packing.yaml\n", "").replace(
        "profiles[0].pluginConfig[0].args.scoringStrategy.type", "parallelism"
    )
    sweep = Sweep(str(write_sweep(tmp_path, text.replace("[LeastAllocated, MostAllocated]", "[8]"))))
    assert [*sweep.configurations] == ["strategy=8,percentage=10", "strategy=8,percentage=20"]


def test_gates_are_those_of_all_configurations(tmp_path: Path) -> None:
    sweep = Sweep(str(write_sweep(tmp_path, SWEEP + "featureGates: {GenericWorkload: true}\n")))
    assert all(each.options.gates.has_pod_groups for each in sweep.configurations.values())


def test_key_is_the_hash_of_all_that_a_result_depends_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = keys(tmp_path)
    assert len({*before}) == len(before)
    assert keys(tmp_path) == before
    for change in ("duration: 9m", "featureGates: {GenericWorkload: true}"):
        text = SWEEP.replace("duration: 10m", change)
        assert not {*keys(tmp_path, text)} & {*before}
    write_sweep(tmp_path)
    (tmp_path / "packing.yaml").write_text(PACKING.replace("MostAllocated", "LeastAllocated"))
    assert [
        old == new for old, new in zip(before, [r.key for r in Sweep(str(tmp_path / "sweep.yaml")).runs], strict=True)
    ] == [
        *[True] * 4,
        *[False] * 4,
    ]
    (tmp_path / "short.yaml").write_text((tmp_path / "long.yaml").read_text())
    runs = Sweep(str(tmp_path / "sweep.yaml")).runs
    assert [run.key for run in runs if run.cluster == "short"] == [run.key for run in runs if run.cluster == "long"]
    monkeypatch.setattr(document, "__version__", "0.0.0")
    assert not {*keys(tmp_path)} & {*before}


def test_names_and_comments_are_not_part_of_a_key(tmp_path: Path) -> None:
    before = keys(tmp_path)
    assert keys(tmp_path, SWEEP.replace("packing:", "packed:").replace("short:", "few:")) == before
    (tmp_path / "packing.yaml").write_text("# with a comment\n" + PACKING)
    assert [run.key for run in Sweep(str(tmp_path / "sweep.yaml")).runs] == before


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        ("kind: Sweep", ["sweep.yaml:1: kind: expected kind Sweep (kframework.dev/v1), got Sweep (None)"]),
        ("", ["sweep.yaml: expected one document of kind Sweep (kframework.dev/v1), got 0"]),
        (
            SWEEP.replace("seeds: [1, 2]", "seeds: [1, 1]\nseed: 3"),
            ["sweep.yaml:8: seed: unknown field \"seed\" (did you mean 'seeds'?)"],
        ),
        (
            SWEEP.replace("[1, 2]", "[1, 1]").replace("10m", "-10m"),
            [
                "sweep.yaml:7: seeds[1]: Duplicate value: 1",
                'sweep.yaml:8: duration: Invalid value: "-10m0s": must be greater than zero',
            ],
        ),
        (
            SWEEP.replace("[1, 2]", "[]"),
            ["sweep.yaml:7: seeds: Invalid value: []: must have at least 1 item after validation, not 0"],
        ),
        (
            SWEEP.replace("configurations: {default: null, packing: packing.yaml}\n", ""),
            ["sweep.yaml:1: configurations: Required value: name a configuration, or write a grid"],
        ),
        (
            SWEEP.replace("packing.yaml", "none.yaml").replace("short.yaml", "none.yaml"),
            [
                "none.yaml: cannot be read: No such file or directory",
                "sweep.yaml:5: clusters.short: none.yaml cannot be read: No such file or directory",
            ],
        ),
        (
            SWEEP + "featureGates: {GenericWorklod: true}",
            [
                (
                    "sweep.yaml:9: featureGates.GenericWorklod: unrecognized feature gate: GenericWorklod"
                    " (did you mean 'GenericWorkload'?)"
                )
            ],
        ),
        (
            GRID.replace("percentageOfNodesToScore", "profiles[3].schedulerName"),
            [
                (
                    "sweep.yaml:9: grid.axes.percentage.path: profiles[3].schedulerName cannot be set:"
                    " there is no element [3] in the base configuration"
                )
            ],
        ),
        (
            GRID.replace("percentageOfNodesToScore", "kind.name"),
            [
                (
                    "sweep.yaml:9: grid.axes.percentage.path: kind.name cannot be set:"
                    " name is no field of a value there in the base configuration"
                )
            ],
        ),
        (
            GRID.replace("percentageOfNodesToScore", "profiles[0"),
            [
                (
                    'sweep.yaml:9: grid.axes.percentage.path: Invalid value: "profiles[0":'
                    " write it like profiles[0].plugins.multiPoint.enabled[0].weight"
                )
            ],
        ),
        (
            GRID.replace("[10, 20]", "[10, 200]")
            .replace("[LeastAllocated, MostAllocated]", "[MostAllocated]")
            .replace("strategy:", "s:"),
            [
                (
                    "packing.yaml with s=MostAllocated,percentage=200:1: percentageOfNodesToScore: Invalid value: 200:"
                    " not in valid range [0-100]"
                )
            ],
        ),
        (
            GRID.replace("[10, 20]", "[10, 10]").replace("[LeastAllocated, MostAllocated]", "[MostAllocated]"),
            ["sweep.yaml:3: grid: two configurations are called 'strategy=MostAllocated,percentage=10'"],
        ),
    ],
)
def test_error_names_file_and_line(tmp_path: Path, text: str, problems: list[str]) -> None:
    assert errors(tmp_path, text) == problems
