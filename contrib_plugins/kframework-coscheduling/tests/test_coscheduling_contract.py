"""Coscheduling keeps the contract."""

from __future__ import annotations

from kframework_coscheduling import Coscheduling

from kframework.testing import PluginContract, make_node
from tests.support.gangs import group, members


class TestContract(PluginContract):
    plugin = Coscheduling
    examples = 4
    other_plugins = ["NodeResourcesFit"]
    nodes = [make_node("a", cpu=4), make_node("b", cpu=4)]
    pods = [*members("red", 2, cpu=2), *members("blue", 2, cpu=2)]
    objects = [group("red", 2), group("blue", 2, min_resources={"cpu": "4"})]
