"""LearnedScore: what is learned from a history, what it makes of nodes, and which files are refused."""

from __future__ import annotations

import csv
from pathlib import Path
from random import Random

import pytest
from learned import LearnedScore, Model
from learned.model import read_model
from learned.train import main

from kframework import ConfigError
from kframework.testing import PluginContract, Scenario, make_node, make_pod

TRUTH = Model(base=0.01, cpu=0.2, memory=0.9, pods=0.004)
HISTORY, FITTED = (Path(__file__).parents[1] / name for name in ("history.csv", "model.json"))


def write_history(file: Path, pods: int) -> Path:
    """Write what would have been seen if the truth were the whole truth."""
    random = Random(1)
    with file.open("w", newline="", encoding="utf-8") as lines:
        writer = csv.writer(lines)
        writer.writerow(["slowdown", "note", "cpu", "memory", "pods"])
        for _ in range(pods):
            cpu, memory, others = random.random(), random.random(), random.randint(0, 50)
            writer.writerow([TRUTH.slowdown(cpu, memory, others), "columns may be more", cpu, memory, others])
    return file


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A model to which only memory matters."""
    file = tmp_path / "model.json"
    file.write_text(Model(base=0, cpu=0, memory=1, pods=0).model_dump_json(), encoding="utf-8")
    return file


def test_model_is_fitted_to_the_history(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    history, file = write_history(tmp_path / "history.csv", 20), tmp_path / "model.json"
    main([str(history), str(file)])
    fitted = read_model(file)
    assert fitted.model_dump() == pytest.approx(TRUTH.model_dump())
    assert "fitted to 20 pods, mean error 0.000" in capsys.readouterr().out


def test_shipped_model_is_fitted_to_the_shipped_history(tmp_path: Path) -> None:
    main([str(HISTORY), str(tmp_path / "model.json")])
    assert read_model(tmp_path / "model.json").model_dump() == pytest.approx(read_model(FITTED).model_dump())


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("cpu,memory,slowdown\n0,0,0\n", r"history\.csv:1: no column pods"),
        ("cpu,memory,pods,slowdown\n0,0,1,0\n0,many,1,0\n", r"history\.csv:3: .* must be numbers"),
        ("cpu,memory,pods,slowdown\n0,0,1,nan\n", r"history\.csv:2: .* must be numbers"),
        ("cpu,memory,pods,slowdown\n0,0,1\n", r"history\.csv:2: .* must be numbers"),
        ("cpu,memory,pods,slowdown\n" + "0.5,0.5,5,0.1\n" * 9, "9 pods on too similar nodes"),
        ("", r"history\.csv:1: no column cpu"),
    ],
)
def test_insufficient_history_is_rejected(text: str, complaint: str, tmp_path: Path) -> None:
    history = tmp_path / "history.csv"
    history.write_text(text, encoding="utf-8")
    with pytest.raises(SystemExit, match=complaint):
        main([str(history), str(tmp_path / "model.json")])
    assert not (tmp_path / "model.json").exists()


def test_missing_history_is_named(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"none\.csv: No such file or directory"):
        main([str(tmp_path / "none.csv"), str(tmp_path / "model.json")])


def test_node_with_least_predicted_slowdown_is_preferred(model: Path) -> None:
    """The right one has more cpu and fewer pods, but to this model only memory counts."""
    nodes = [make_node("left", cpu=2), make_node("right", cpu=64)]
    there = [make_pod("fills", memory="8Gi", node_name="right"), make_pod("a", node_name="left")]
    result = Scenario(
        nodes=nodes,
        pods=[*there, make_pod("b", node_name="left"), make_pod("new")],
        plugins=[LearnedScore],
        args={"LearnedScore": {"model": str(model)}},
        weights={"LearnedScore": 50},
    ).run()
    assert result.node_of("new") == "left"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (None, "No such file or directory; make it with `python -m learned.train HISTORY.csv .*wrong.json`"),
        ("{", "invalid model: Invalid JSON.*; make it with"),
        ('{"base": 0, "cpu": 0, "memory": 0}', "invalid model: pods: Field required; make it with"),
        ('{"base": 0, "cpu": 0, "memory": 0, "pods": 1e9}', "invalid model: pods: Input should be less"),
        ('{"base": 0, "cpu": 0, "memory": 0, "pods": 0, "gpu": 1}', "invalid model: gpu: Extra inputs"),
    ],
)
def test_invalid_model_is_rejected_with_the_remedy(text: str | None, complaint: str, tmp_path: Path) -> None:
    file = tmp_path / "wrong.json"
    if text is not None:
        file.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=complaint) as refused:
        Scenario(plugins=[LearnedScore], args={"LearnedScore": {"model": str(file)}}).run()
    assert len(str(refused.value).splitlines()) == 1


class TestContract(PluginContract):
    plugin = LearnedScore
    args = {"model": str(FITTED)}
