"""What distributions name is imported, and what is wrong with one harms no other."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from kframework.objects import KINDS, find_kind, kinds
from kframework.simulation.inputs import KINDS_GROUP, declare_installed_kinds

KIND = """
from kframework.objects import ApiObject, kind


@kind("{group}/v1", "things")
class {name}(ApiObject):
    pass
"""


@pytest.fixture(autouse=True)
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget in the end what a test declares, and know nothing of what else is installed."""
    monkeypatch.setattr(kinds, "_BY_NAME", {(each.api_version, each.name): each for each in KINDS})
    monkeypatch.setattr(kinds, "_BY_STRUCT", {each.struct: each for each in KINDS})


class Site:
    """A folder of distributions, the only one in which any are found."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._folder = folder
        self._monkeypatch = monkeypatch
        monkeypatch.setattr(sys, "path", [str(folder), *(path for path in sys.path if "site-packages" not in path)])

    def add(self, name: str, source: str, target: str = "") -> None:
        metadata = self._folder / f"{name}-1.0.dist-info"
        metadata.mkdir(parents=True)
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (metadata / "entry_points.txt").write_text(f"[{KINDS_GROUP}]\n{name} = {target or name}\n")
        (self._folder / f"{name}.py").write_text(source)
        self._monkeypatch.delitem(sys.modules, name, raising=False)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    return Site(tmp_path, monkeypatch)


def problems() -> list[str]:
    return [str(problem) for problem in declare_installed_kinds()]


def test_kinds_of_installed_distributions_are_declared(site: Site) -> None:
    site.add("kinds_of_one", KIND.format(group="one.example.com", name="Thing"))
    assert find_kind("one.example.com/v1", "Thing") is None
    for _ in range(2):
        assert problems() == []
        found = find_kind("one.example.com/v1", "Thing")
        assert found is not None and found.plural == "things"


def test_broken_kind_module_does_not_affect_others(site: Site) -> None:
    site.add("kinds_a_broken", "import there_is_no_such_module")
    site.add("kinds_b", KIND.format(group="two.example.com", name="Thing"))
    site.add("kinds_c_again", KIND.format(group="two.example.com", name="Thing"))
    site.add("kinds_d", KIND.format(group="three.example.com", name="Thing"))
    assert problems() == [
        (
            "the kinds of 'kinds_a_broken' (from kinds_a_broken 1.0) cannot be loaded: "
            f"ModuleNotFoundError: No module named 'there_is_no_such_module', at {site._folder}/kinds_a_broken.py:1"
        ),
        (
            "the kinds of 'kinds_c_again' (from kinds_c_again 1.0) cannot be loaded: two structs for the kind "
            "two.example.com/v1 Thing: kinds_b.Thing and kinds_c_again.Thing; keep one"
        ),
    ]
    assert find_kind("three.example.com/v1", "Thing") is not None
