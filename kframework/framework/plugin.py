"""The base class of plugins, of their Args, and the markers of hooks.

    class MostPodsArgs(PluginArgs):
        most: int = 10

    class MostPods(Plugin[MostPodsArgs]):
        \"\"\"Run at most `most` pods on a node.\"\"\"

        name = "MostPods"
        reads = "pods"

        @hookimpl
        def filter(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> Status | None:
            return unschedulable("node(s) ran enough pods") if len(node.pods) >= self.args.most else None

Type checkers know the hooks, and report misspelt names and wrong arguments or answers.

The hooks are specified in `kframework.framework.hookspecs`, their answers other than a Status in
`kframework.framework.answers`; the interface to the scheduler is in `kframework.framework.handle`.
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
    # For a type checker a plugin inherits every hook, and the marker declares that the method overrides one.
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
    """Mark a method as a wrapper: it yields once, receives the answer of the point, and returns the one to use.

    For a type checker it is a method with the hook's arguments that is never called.
    """
    return pluggy.HookimplMarker("kframework")(function, wrapper=True)  # type: ignore[return-value]  # a marked one


#: What a plugin reads besides the pod: the Node object, its pods too, or pods by domain; None: outside data as well.
Reads = Literal["node", "pods", "domains"] | None

#: The kinds that `sign` reads besides what pods of a kind share; None: more of each pod.
SignReads = tuple["type[ApiObject]", ...] | None

#: The RBAC verbs that a plugin may use on a kind beyond reading it; `patch_status` is to patch its status.
Verb = Literal["get", "create", "patch", "patch_status", "delete"]


_CAMEL_CASE = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="forbid")


class PluginArgs(BaseModel):
    """The configuration of a plugin, as written under `pluginConfig[].args`.

    Derive from it and name fields in snake_case; the file spells them in camelCase. Unknown fields are rejected. The
    same applies to a plain pydantic model used as the type of a field, unless its `model_config` differs. A docstring
    below a field is its description in `kframework config schema`.
    """

    model_config: ClassVar[ConfigDict] = {
        **_CAMEL_CASE,
        "frozen": True,
        "arbitrary_types_allowed": True,
    }

    @classmethod
    def __pydantic_on_complete__(cls) -> None:
        if True in [_use_camel_case(field.annotation) for field in cls.model_fields.values()]:
            cls.model_rebuild(force=True)


def _use_camel_case(annotation: object) -> bool:
    """Make plain models in an annotation read like Args; return whether one was changed."""
    if not (isinstance(annotation, type) and issubclass(annotation, BaseModel)):
        return True in [_use_camel_case(argument) for argument in get_args(annotation)]
    if issubclass(annotation, RootModel) or annotation.model_config.keys() & _CAMEL_CASE.keys():
        return False
    annotation.model_config = {**annotation.model_config, **_CAMEL_CASE}  # before its fields: they may lead back to it
    for name, field in annotation.model_fields.items():
        _use_camel_case(field.annotation)
        if field.alias_priority is None:  # no explicit alias; an alias generator runs only at class creation
            field.alias = field.validation_alias = field.serialization_alias = to_camel(name)
    return annotation.model_rebuild(force=True) is not False


#: The arguments of a plugin; none by default.
A = TypeVar("A", bound=PluginArgs, default=PluginArgs, covariant=True)


class Watch(msgspec.Struct, frozen=True):
    """A kind that a plugin needs to watch: reflectors, RBAC rules, recordings and the fake API follow from it.

    `kind` is a struct of `kframework.objects`, or one of your own that `kframework.objects.kind` declares; `verbs` are
    those that `handle.api` needs beyond list and watch. A kind with a `gate` is watched only if that feature gate of
    Kubernetes is on.
    """

    kind: type[ApiObject]
    verbs: tuple[Verb, ...] = ()
    gate: str = ""


class Plugin(Generic[A], Hooks):
    """A scheduling plugin; `Plugin[MineArgs]` takes arguments and stores them in `self.args`.

    One instance is created per profile; instances are compared by identity.

    The class attributes declare how the engine may use the answers:

    `name`
        the plugin's name in the configuration, the same as its entry point's.
    `Args`
        the model of its arguments, as in `Plugin[...]`; the plain PluginArgs accepts none.
    `reads`
        what `filter` and `score` read besides the pod: `"node"` = the Node object only, `"pods"` = the node's pods
        and resources too. If declared, the answers are cached until that changes. `"domains"` = the numbers of pods in
        the node's domains, which `filter_domains` names: its answers follow the pods that move; `pre_score` and `score`
        are called in every cycle. None = outside data as well: called in every cycle (or report changes through the
        handle).
    `sign_reads`
        the kinds that `sign` reads besides what pods of one template, namespace, labels and owners have in common,
        the set of nodes, and the affinity terms of pods. If declared, `sign` is called once for all such pods, and
        again when an object of these kinds changes; `()` for none. None = it reads more: called for each pod.
    `watches`
        the kinds it needs besides pods and nodes.
    `lists`
        the kinds that it lists through `handle.api` without a watch, as those of API servers that offer none.
    `parallel_pre_bind`
        whether `pre_bind` may run concurrently with neighbours that allow it too.
    `binds_through_api`
        whether `bind` only binds the pod through `handle.api`: then several pods may be bound at once, without
        calling it.
    `own_timeouts`
        which of `pre_bind`, `bind` and `post_bind` have their own time limit: `hookTimeouts` of the configuration
        do not apply to them.

    The signature of a plugin with `reads` and no `sign` is the whole pod except name, hostname, uid and times, which
    it may not read.
    """

    name: ClassVar[str] = ""
    Args: ClassVar[type[PluginArgs]] = PluginArgs
    reads: ClassVar[Reads] = None
    sign_reads: ClassVar[SignReads] = None
    watches: ClassVar[tuple[Watch, ...]] = ()
    lists: ClassVar[tuple[type[ApiObject], ...]] = ()
    parallel_pre_bind: ClassVar[bool] = False
    binds_through_api: ClassVar[bool] = False
    own_timeouts: ClassVar[frozenset[str]] = frozenset()

    args: A
    handle: Handle

    def __init__(self, args: A, handle: Handle) -> None:
        self.args = args
        self.handle = handle

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        type_arguments = (
            get_args(base) for base in get_original_bases(cls) if issubclass(get_origin(base) or base, Plugin)
        )
        models = [argument for arguments in type_arguments for argument in arguments if isinstance(argument, type)]
        if models and "Args" not in vars(cls):
            cls.Args = models[0]

    async def start(self) -> None:
        """Begin work that needs I/O, before the first pod is scheduled."""

    async def close(self) -> None:
        """Release what `start` acquired, at shutdown; not called if `start` did not complete."""

    def __repr__(self) -> str:
        return f"<{self.name or type(self).__name__}>"
