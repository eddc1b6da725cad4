"""`simulate --pdb`: the debugger opens in the hook that raised."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Command

CLUSTER = Path("examples/clusters/tiny.yaml")

RAISING = """
from kframework import Plugin, hookimpl

class Raising(Plugin):
    name = "Raising"

    @hookimpl
    def {hook}({arguments}):
        wanted = {{"a": 1}}
        return wanted["b"]
"""


@pytest.fixture
def raising(tmp_path: Path, request: pytest.FixtureRequest) -> str:
    """Write a plugin, one of whose hooks raises."""
    hook, arguments = request.param
    file = tmp_path / "raising.py"
    file.write_text(RAISING.format(hook=hook, arguments=arguments))
    return f"{file}:Raising"


RAISED = pytest.mark.parametrize(
    "raising",
    [
        ("pre_enqueue", "self, pod"),
        ("filter", "self, state, pod, node"),
        ("score", "self, state, pod, node"),
        ("reserve", "self, state, pod, node_name"),
        ("pre_bind", "self, state, pod, node_name"),
    ],
    indirect=True,
    ids=lambda each: each[0],
)


@RAISED
def test_debugger_opens_in_the_hook_and_q_ends_the_process(run: Command, raising: str) -> None:
    code, out, err = run("simulate", "-f", CLUSTER, "--plugin", raising, "--pdb", stdin="p wanted\nq\n")
    assert code == 130
    assert out.count('-> return wanted["b"]') == 1
    assert "(Pdb) {'a': 1}\n" in out
    assert "KeyError: 'b'" in err


@pytest.mark.slow
@RAISED
def test_without_it_the_fault_is_a_status(run: Command, raising: str) -> None:
    code, out, err = run("simulate", "-f", CLUSTER, "--plugin", raising)
    assert (code, "(Pdb)" in out) == (0, False)
    assert "KeyError: 'b'" in err


@pytest.mark.parametrize("raising", [("filter", "self, state, pod, node")], indirect=True)
def test_c_goes_on(run: Command, raising: str) -> None:
    code, out, _ = run("simulate", "-f", CLUSTER, "--plugin", raising, "--pdb", "--duration", "1s", stdin="c\n" * 9)
    assert code == 0
    assert out.count('-> return wanted["b"]') > 1
    assert "KeyError: 'b'" in out.partition("NAMESPACE")[2]


def test_stdin_is_the_debuggers(run: Command) -> None:
    code, _, err = run("simulate", "-f", "-", "--pdb")
    assert code == 2
    assert err.startswith("error: Invalid value for '--pdb': the debugger reads stdin; name files\n")
