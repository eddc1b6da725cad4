"""What a plugin is made of: its base class, its Args, and the marker of its hooks.

    class FewestPods(Plugin):
        \"\"\"Prefer the node that runs the fewest pods.\"\"\"

        name = "FewestPods"
        reads = "pods"

        @hookimpl
        def score(self, state, pod, node):
            return -len(node.pods)

        @hookimpl
        def normalize_score(self, state, pod, scores):
            return min_max(scores)

The hooks, one by one, stand in `kframework.framework.hookspecs`, what they may answer beside a Status in
`kframework.framework.answers`; the door back into the scheduler in `kframework.framework.handle`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

import msgspec
import pluggy
from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

if TYPE_CHECKING:
    from kframework.framework.handle import Handle
    from kframework.objects import ApiObject

#: Marks a method as the implementation of a hook.
hookimpl: pluggy.HookimplMarker = pluggy.HookimplMarker("kframework")

#: What a plugin looks at beside the pod: the Node object, or its pods too; None: outside data as well.
Reads = Literal["node", "pods"] | None

#: What a plugin may do to a kind beyond seeing it, as RBAC calls it; `patch_status` is to patch its status.
Verb = Literal["create", "patch", "patch_status", "delete"]


class PluginArgs(BaseModel):
    """The configuration of a plugin, as written under `pluginConfig[].args`.

    Derive from it and name fields in snake_case; the file spells them in camelCase. Unknown fields are refused.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, extra="forbid", frozen=True, arbitrary_types_allowed=True
    )


class Watch(msgspec.Struct, frozen=True):
    """A kind that a plugin needs to see: reflectors, RBAC rules, recordings and the fake API follow from it.

    `kind` is a struct of `kframework.objects`, or one of your own that `kframework.objects.kind` declares; `verbs` are
    what `handle.api` is to do to it, beyond the get, list and watch that seeing it takes.
    """

    kind: type[ApiObject]
    verbs: tuple[Verb, ...] = ()


class Plugin:
    """A scheduling plugin.

    One instance is made per profile; instances are compared by identity.

    The class attributes tell the engine what it may do with the answers:

    `name`               the plugin's name in the configuration, the same as its entry point's.
    `Args`               the model of its arguments; the plain PluginArgs accepts none.
    `reads`              what `filter` and `score` look at beside the pod: `"node"` = the Node object only, `"pods"` =
                         the node's pods and resources too. Declared, the answers are remembered until that changes.
                         None = outside data as well: asked in every cycle (or say through the handle what changed).
    `watches`            the kinds it needs beside pods and nodes.
    `parallel_pre_bind`  whether `pre_bind` may run beside its neighbours that allow it too.
    `keeps_time`         which of `pre_bind`, `bind` and `post_bind` end by a time limit of their own: `hookTimeouts` of
                         the configuration do not cut them off.

    A plugin that declares `reads` and no `sign` is signed by the whole pod except name, hostname, uid and times, which
    it may not read.
    """

    name: ClassVar[str] = ""
    Args: ClassVar[type[PluginArgs]] = PluginArgs
    reads: ClassVar[Reads] = None
    watches: ClassVar[tuple[Watch, ...]] = ()
    parallel_pre_bind: ClassVar[bool] = False
    keeps_time: ClassVar[frozenset[str]] = frozenset()

    args: PluginArgs
    handle: Handle

    def __init__(self, args: PluginArgs, handle: Handle) -> None:
        self.args = args
        self.handle = handle

    async def start(self) -> None:
        """Begin work that needs I/O, before the first pod is scheduled."""

    async def close(self) -> None:
        """Release what `start` took, at shutdown."""

    def __repr__(self) -> str:
        return f"<{self.name or type(self).__name__}>"
