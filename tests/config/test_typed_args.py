"""The args of plugins that bring their own model."""

from __future__ import annotations

from typing import Annotated, TypeVar

import pytest
from pydantic import BaseModel, ConfigDict, Field, RootModel, model_validator

from kframework.config.args import decode_args
from kframework.config.configuration import RawArgs
from kframework.config.load import parse
from kframework.errors import ConfigError
from kframework.framework.plugin import PluginArgs

HEADER = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins: {multiPoint: {enabled: [{name: Mine}]}}
  pluginConfig:
  - name: Mine
    args:
"""


A = TypeVar("A", bound=PluginArgs)


class MineArgs(PluginArgs):
    spread_limit: Annotated[int, Field(ge=1)] = 7
    labels: dict[str, str | None] = Field(default_factory=dict)
    ratio: float = 0.5

    @model_validator(mode="after")
    def _ratio_fits_limit(self) -> MineArgs:
        if self.ratio > self.spread_limit:
            raise ValueError("ratio must not exceed spreadLimit")
        return self


class Shelf(BaseModel):
    max_load: int = 1


class Rack(BaseModel):
    max_pods: int = 3
    top_shelf: Shelf = Shelf()
    beside: list[Rack] = []


class Names(RootModel[dict[str, int]]):
    """A mapping whose keys keep their spelling."""


class Own(BaseModel):
    """Says itself how it is read."""

    model_config = ConfigDict(extra="ignore")
    max_pods: int = 3


class RackArgs(PluginArgs):
    racks: tuple[Rack, ...] = ()
    by_row: dict[str, Rack | None] = Field(default_factory=dict)
    names: Names | None = None
    own: Own = Own()


class NeedyArgs(PluginArgs):
    url: str


def decoded(text: str, plugin: str, model: type[A]) -> A:
    """Return the args of one plugin of the only profile of a text."""
    (by_plugin,) = decode_args(parse(text, "c.yaml"), {plugin: model})
    args = by_plugin[plugin]
    assert isinstance(args, model)
    return args


def mine(body: str) -> MineArgs:
    return decoded(HEADER + body, "Mine", MineArgs)


def test_args_stay_raw_until_the_model_is_known() -> None:
    (profile,) = parse(HEADER + "      anything: {a: [1, null]}\n", "c.yaml").profiles
    raw = profile.args["Mine"]
    assert isinstance(raw, RawArgs)
    assert raw.value == {"anything": {"a": [1, None]}}
    assert (raw.location.line, raw.location.path) == (7, ("profiles", 0, "pluginConfig", 0, "args"))


@pytest.mark.parametrize(
    ("body", "args"),
    [
        ("", MineArgs()),
        ("      {}\n", MineArgs()),
        (
            "      spreadLimit: 3\n      labels: {a: b, c: null}\n",
            MineArgs(spread_limit=3, labels={"a": "b", "c": None}),
        ),
        ("      apiVersion: example.com/v2\n      kind: MineArgs\n      ratio: 1\n", MineArgs(ratio=1)),
    ],
)
def test_model_takes_the_raw_args(body: str, args: MineArgs) -> None:
    assert mine(body) == args


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            "      spreadLimt: 3\n",
            (
                'c.yaml:8: profiles[0].pluginConfig[0].args.spreadLimt: unknown field "spreadLimt"'
                " (did you mean 'spreadLimit'?)"
            ),
        ),
        (
            "      spread_limit: 3\n",
            (
                'c.yaml:8: profiles[0].pluginConfig[0].args.spread_limit: unknown field "spread_limit"'
                " (did you mean 'spreadLimit'?)"
            ),
        ),
        (
            "      ratio: 0.1\n      spreadLimit: 0\n",
            (
                "c.yaml:9: profiles[0].pluginConfig[0].args.spreadLimit: Invalid value: 0:"
                " must be greater than or equal to 1"
            ),
        ),
        (
            "      labels: {a: 1}\n",
            "c.yaml:8: profiles[0].pluginConfig[0].args.labels.a: expected a string, got 1; put it in quotes",
        ),
        (
            "      ratio: 8\n",
            (
                'c.yaml:7: profiles[0].pluginConfig[0].args: Invalid value: {"ratio":8}:'
                " ratio must not exceed spreadLimit"
            ),
        ),
        (
            "      kind: YoursArgs\n      apiVersion: example.com/v1\n",
            (
                "c.yaml:8: profiles[0].pluginConfig[0].args.kind: args for plugin Mine were not of type"
                " MineArgs.kubescheduler.config.k8s.io, got YoursArgs.example.com"
            ),
        ),
    ],
)
def test_error_of_the_model_names_its_line(body: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        mine(body)
    assert str(caught.value) == message


def test_plugin_without_args_in_the_file_gets_its_defaults() -> None:
    text = HEADER.replace("name: Mine\n    args:", "name: Other")
    assert decoded(text, "Mine", MineArgs) == MineArgs()
    with pytest.raises(ConfigError) as caught:
        decoded(text, "Mine", NeedyArgs)
    assert str(caught.value) == "c.yaml:5: profiles[0].pluginConfig.Mine.url: Required value"


def test_args_of_a_plugin_that_is_not_enabled_are_dropped_with_a_warning() -> None:
    text = HEADER.replace("name: Mine\n    args:", "name: Mina\n    args: {x: 1}")
    configuration = parse(text, "c.yaml")
    assert decode_args(configuration, {}) == [{}]
    assert configuration.warnings == (
        (
            "c.yaml:5: profiles[0].pluginConfig: args of Mina have no effect: the profile does not enable it"
            " (did you mean 'Mine'?)"
        ),
    )


# -- plain models within -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "args"),
    [
        ("      racks: [{maxPods: 5}]\n", RackArgs(racks=(Rack(max_pods=5),))),
        ("      racks: [{topShelf: {maxLoad: 2}}]\n", RackArgs(racks=(Rack(top_shelf=Shelf(max_load=2)),))),
        ("      racks: [{beside: [{maxPods: 1}]}]\n", RackArgs(racks=(Rack(beside=[Rack(max_pods=1)]),))),
        ("      byRow: {a_b: {maxPods: 5}, c: null}\n", RackArgs(by_row={"a_b": Rack(max_pods=5), "c": None})),
        ("      names: {a_b: 1}\n", RackArgs(names=Names({"a_b": 1}))),
        ("      own: {max_pods: 5, maxPods: 7}\n", RackArgs(own=Own(max_pods=5))),
    ],
)
def test_plain_model_in_args_is_camel_case_too(body: str, args: RackArgs) -> None:
    assert decoded(HEADER + body, "Mine", RackArgs) == args


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("      racks: [{maxPod: 5}]\n", "racks[0].maxPod: unknown field \"maxPod\" (did you mean 'maxPods'?)"),
        ("      racks: [{max_pods: 5}]\n", "racks[0].max_pods: unknown field \"max_pods\" (did you mean 'maxPods'?)"),
        (
            "      racks:\n      - topShelf: {maxLaod: 5}\n",
            "racks[0].topShelf.maxLaod: unknown field \"maxLaod\" (did you mean 'maxLoad'?)",
        ),
        ("      racks: [{maxPods: [1]}]\n", "racks[0].maxPods: expected an integer, got [1]"),
    ],
)
def test_plain_model_in_args_is_closed(body: str, problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        decoded(HEADER + body, "Mine", RackArgs)
    line = 8 + ("topShelf" in body)
    assert str(caught.value) == f"c.yaml:{line}: profiles[0].pluginConfig[0].args.{problem}"
