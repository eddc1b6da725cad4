"""What the plugins need to see, and what is wrong with what they ask for."""

from __future__ import annotations

import pytest

from kframework import ActionType, ClusterEvent, ConfigError, EventResource, Plugin, Watch, unschedulable
from kframework.objects import ApiObject, Namespace, Node, Pod, StorageClass
from kframework.profiles import Profiles
from kframework.watched import watched_kinds
from tests.declared import Quota, Team
from tests.extension_points.scripted import plugin, profile, run


def watching(name: str, *watches: Watch, events: list[ClusterEvent] | None = None) -> type[Plugin]:
    made = plugin(name, filter=unschedulable("no"), events=events or [])
    made.watches = watches
    return made


def kinds_of(*plugins: type[Plugin]) -> list[type[ApiObject]]:
    return watched_kinds(Profiles({"default-scheduler": profile(*plugins)}))


@pytest.mark.parametrize(
    ("watches", "kinds"),
    [
        ((), [Node, Pod]),
        ((Watch(Namespace), Watch(Pod), Watch(StorageClass)), [Node, Pod, Namespace, StorageClass]),
        ((Watch(Team), Watch(Namespace), Watch(Team, verbs=("patch",))), [Node, Pod, Team, Namespace]),
    ],
)
def test_pods_nodes_and_what_plugins_watch_is_followed(
    watches: tuple[Watch, ...], kinds: list[type[ApiObject]]
) -> None:
    assert kinds_of(watching("A", *watches)) == kinds


def test_all_plugins_have_their_say() -> None:
    plugins = watching("A", Watch(Quota)), watching("B", Watch(Team), Watch(Quota))
    assert kinds_of(*plugins) == [Node, Pod, Quota, Team]


class Undeclared(ApiObject, frozen=True, kw_only=True):
    """A struct that nobody declared a kind."""


@pytest.mark.parametrize(("kind", "named"), [(Undeclared, "Undeclared"), ("teams", "'teams'")])
def test_a_watch_on_what_is_no_kind_is_refused_when_the_scheduler_is_made(kind: type[ApiObject], named: str) -> None:
    with pytest.raises(ConfigError) as refused:
        run(watching("A", Watch(kind)))
    assert str(refused.value) == (
        f"plugin 'A' watches {named}, which is no kind: give it a struct of kframework.objects, "
        "or declare one with @kind"
    )


@pytest.mark.parametrize("resource", ["team.v1beta1.example.com", "Team", "teams.v1beta1.example.com", "pods"])
def test_events_of_a_kind_that_nobody_watches_are_refused(resource: str) -> None:
    with pytest.raises(ConfigError) as refused:
        run(watching("A", events=[ClusterEvent(resource, ActionType.ADD)]))
    assert f"plugin 'A' registers events on {resource!r}, a kind that no plugin watches" in str(refused.value)


def test_a_misspelt_resource_is_told_from_the_right_one() -> None:
    with pytest.raises(ConfigError, match=r"did you mean 'teams\.v1beta1\.example\.com'\?"):
        run(watching("A", Watch(Team), events=[ClusterEvent("teams.v1.example.com", ActionType.ADD)]))


@pytest.mark.parametrize("resource", [*EventResource, "teams.v1beta1.example.com"])
def test_events_of_known_kinds_pass(resource: str) -> None:
    """Of kube-scheduler's own kinds too, whether anybody watches them or not."""
    kinds_of(watching("A", Watch(Team), events=[ClusterEvent(resource, ActionType.ADD)]))
