"""What a plugin is made of: its base class, its Args, and the markers of its hooks.

    class MostPodsArgs(PluginArgs):
        most: int = 10

    class MostPods(Plugin[MostPodsArgs]):
        \"\"\"Run at most so many pods on a node.\"\"\"

        name = "MostPods"
        reads = "pods"

        @hookimpl
        def filter(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> Status | None:
            return unschedulable("node(s) ran enough pods") if len(node.pods) >= self.args.most else None

Type checkers know the hooks, and say where one is misspelt or does not take or answer what the contract says.

The hooks, one by one, stand in `kframework.framework.hookspecs`, what they may answer beside a Status in
`kframework.framework.answers`; the door back into the scheduler in `kframework.framework.handle`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, ClassVar, Generic, Literal, Never, ParamSpec, get_args, get_origin

import msgspec
import pluggy
from pydantic import BaseModel, ConfigDict, RootModel
from pydantic.alias_generators import to_camel
from typing_extensions import TypeVar, get_original_bases

if TYPE_CHECKING:
    # To a type checker a plugin inherits every hook, and the marker says that the method is one of them.
    from typing_extensions import override as hookimpl

    from kframework.framework.handle import Handle
    from kframework.framework.hookspecs import Hooks
    from kframework.objects import ApiObject
else:
    #: Marks a method as the implementation of a hook.
    hookimpl = pluggy.HookimplMarker("kframework")
    Hooks = object

P = ParamSpec("P")
R = TypeVar("R")


def hookwrapper(function: Callable[P, Generator[None, R, R]]) -> Callable[P, Never]:
    """Mark a method as a wrapper: it yields once, receives what the point answered, and returns what goes on.

    To a type checker it is a method that takes what the hook takes, and that nobody calls.
    """
    return pluggy.HookimplMarker("kframework")(function, wrapper=True)  # type: ignore[return-value]  # a marked one


#: What a plugin looks at beside the pod: the Node object, or its pods too; None: outside data as well.
Reads = Literal["node", "pods"] | None

#: The kinds that `sign` looks at beside what pods of a kind share; None: more of each pod.
SignReads = tuple["type[ApiObject]", ...] | None

#: What a plugin may do to a kind beyond seeing it, as RBAC calls it; `patch_status` is to patch its status.
Verb = Literal["create", "patch", "patch_status", "delete"]


_SPELLING = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="forbid")


class PluginArgs(BaseModel):
    """The configuration of a plugin, as written under `pluginConfig[].args`.

    Derive from it and name fields in snake_case; the file spells them in camelCase. Unknown fields are refused. So it
    is from then on with a plain pydantic model that is the type of a field, unless its `model_config` says otherwise.
    A docstring below a field is its description in `kframework config schema`.
    """

    model_config: ClassVar[ConfigDict] = {
        **_SPELLING,
        "frozen": True,
        "arbitrary_types_allowed": True,
    }

    @classmethod
    def __pydantic_on_complete__(cls) -> None:
        if True in [_spelt_as_args(field.annotation) for field in cls.model_fields.values()]:
            cls.model_rebuild(force=True)


def _spelt_as_args(annotation: object) -> bool:
    """Let the plain models in an annotation be read as Args are; return whether there was one that was not."""
    if not (isinstance(annotation, type) and issubclass(annotation, BaseModel)):
        return True in [_spelt_as_args(argument) for argument in get_args(annotation)]
    if issubclass(annotation, RootModel) or annotation.model_config.keys() & _SPELLING.keys():
        return False
    annotation.model_config = {**annotation.model_config, **_SPELLING}  # before its fields: they may lead back to it
    for name, field in annotation.model_fields.items():
        _spelt_as_args(field.annotation)
        if field.alias_priority is None:  # no alias of its own; a generator is asked only when a class is made
            field.alias = field.validation_alias = field.serialization_alias = to_camel(name)
    return annotation.model_rebuild(force=True) is not False


#: The arguments of a plugin; none unless it says which.
A = TypeVar("A", bound=PluginArgs, default=PluginArgs, covariant=True)


class Watch(msgspec.Struct, frozen=True):
    """A kind that a plugin needs to see: reflectors, RBAC rules, recordings and the fake API follow from it.

    `kind` is a struct of `kframework.objects`, or one of your own that `kframework.objects.kind` declares; `verbs` are
    what `handle.api` is to do to it, beyond the get, list and watch that seeing it takes.
    """

    kind: type[ApiObject]
    verbs: tuple[Verb, ...] = ()


class Plugin(Generic[A], Hooks):
    """A scheduling plugin; `Plugin[MineArgs]` takes arguments and has them in `self.args`.

    One instance is made per profile; instances are compared by identity.

    The class attributes tell the engine what it may do with the answers:

    `name`
        the plugin's name in the configuration, the same as its entry point's.
    `Args`
        the model of its arguments, that of `Plugin[...]`; the plain PluginArgs accepts none.
    `reads`
        what `filter` and `score` look at beside the pod: `"node"` = the Node object only, `"pods"` = the node's pods
        and resources too. Declared, the answers are remembered until that changes. None = outside data as well: asked
        in every cycle (or say through the handle what changed).
    `sign_reads`
        the kinds that `sign` looks at beside what pods of one template, namespace, labels and owners have in common,
        the set of nodes, and the affinity terms of pods. Declared, `sign` is asked once for all such pods, and again
        when an object of these kinds changes; `()` where it looks at none. None = at more: asked about each pod.
    `watches`
        the kinds it needs beside pods and nodes.
    `parallel_pre_bind`
        whether `pre_bind` may run beside its neighbours that allow it too.
    `binds_through_api`
        whether `bind` does nothing but to bind the pod through `handle.api`: then pods may be bound several at a time,
        without a call of it.
    `keeps_time`
        which of `pre_bind`, `bind` and `post_bind` end by a time limit of their own: `hookTimeouts` of the
        configuration do not cut them off.

    A plugin that declares `reads` and no `sign` is signed by the whole pod except name, hostname, uid and times, which
    it may not read.
    """

    name: ClassVar[str] = ""
    Args: ClassVar[type[PluginArgs]] = PluginArgs
    reads: ClassVar[Reads] = None
    sign_reads: ClassVar[SignReads] = None
    watches: ClassVar[tuple[Watch, ...]] = ()
    parallel_pre_bind: ClassVar[bool] = False
    binds_through_api: ClassVar[bool] = False
    keeps_time: ClassVar[frozenset[str]] = frozenset()

    args: A
    handle: Handle

    def __init__(self, args: A, handle: Handle) -> None:
        self.args = args
        self.handle = handle

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        given = (get_args(base) for base in get_original_bases(cls) if issubclass(get_origin(base) or base, Plugin))
        models = [argument for arguments in given for argument in arguments if isinstance(argument, type)]
        if models and "Args" not in vars(cls):
            cls.Args = models[0]

    async def start(self) -> None:
        """Begin work that needs I/O, before the first pod is scheduled."""

    async def close(self) -> None:
        """Release what `start` took, at shutdown; not called where that has not come to its end."""

    def __repr__(self) -> str:
        return f"<{self.name or type(self).__name__}>"
