"""A census: how much every container holds that can be reached from some objects, by the path that leads there.

    census({"scheduler": scheduler})["scheduler.engine.cluster.pods"]  # how many pods it knows

What is in a container shares one path, `scheduler.engine.cluster.pods[].labels`, and is counted together. So there are
as many paths as there are places in the code that can hold something, whatever is held. An object that several paths
lead to counts at the shortest.
"""

from __future__ import annotations

import array
import functools
import gc
import sys
import weakref
from abc import ABC
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from types import (
    BuiltinFunctionType,
    CellType,
    CodeType,
    FrameType,
    FunctionType,
    GenericAlias,
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
)

import msgspec
import numpy as np

__all__ = ["container_sizes", "module_roots"]

#: What holds nothing that belongs to the objects asked about, or leads from them to all the world.
_LEAVES = (
    *(str, bytes, int, float, complex, bool, type(None), type, type(...), range, slice),
    *(ModuleType, CodeType, FrameType, GetSetDescriptorType, MemberDescriptorType, weakref.ReferenceType),
    *(GenericAlias, type(Mapping[str, str]), type(ABC._abc_impl)),  # type: ignore[attr-defined]  # not in typeshed
)

#: What refers to others by no name.
_MAPPINGS = (dict, weakref.WeakValueDictionary, weakref.WeakKeyDictionary)
_COLLECTIONS = (list, tuple, set, frozenset, deque, weakref.WeakSet)

#: Paths do not get longer than this: what refers to its like would have one for every step.
_DEEPEST = 14


def container_sizes(roots: Mapping[str, object], without: Iterable[object] = ()) -> Counter[str]:
    """Count what the containers hold that can be reached from these roots, but not through those `without`."""
    gc.collect()
    counts: Counter[str] = Counter()
    seen = {id(each) for each in without}
    keep: list[object] = []  # what is made on the way must live, or its id would be given again
    queue: deque[tuple[tuple[str, ...], object]] = deque(((name,), root) for name, root in roots.items())
    while queue:
        path, subject = queue.popleft()
        if id(subject) in seen or isinstance(subject, _LEAVES):
            continue
        seen.add(id(subject))
        keep.append(subject)
        if (held := _size(subject)) is not None:
            counts["".join(path)] += held
        if len(path) >= _DEEPEST:
            continue
        for step, each in _parts(subject):
            # One that refers to its like, as a list of links does, has no path for every link.
            queue.append((path if path[-1] == step else (*path, step), each))
    return counts


def module_roots(*prefixes: str) -> dict[str, object]:
    """Return the containers and caches that modules keep, those whose names begin like this."""
    return {
        f"{module}.{name}": value
        for module, loaded in sorted(sys.modules.items())
        if module.startswith(prefixes)
        for name, value in sorted(vars(loaded).items())
        if isinstance(value, (*_MAPPINGS, *_COLLECTIONS, functools._lru_cache_wrapper)) and not name.startswith("__")
        if not isinstance(value, functools._lru_cache_wrapper) or value.__module__ == module
    }


def _size(subject: object) -> int | None:
    """Return how much a container holds, None for what is none."""
    if isinstance(subject, functools._lru_cache_wrapper):
        info = subject.cache_info()
        return info.currsize if info.maxsize is None else None
    if isinstance(subject, np.ndarray):
        return int(subject.size) if subject.base is None else None
    if isinstance(subject, (*_MAPPINGS, *_COLLECTIONS, array.array, bytearray)):
        return len(subject)
    return None


def _parts(subject: object) -> Iterator[tuple[str, object]]:
    """Yield what an object refers to, with the step that leads there."""
    if isinstance(subject, _MAPPINGS):
        for key, value in list(subject.items()):
            yield "{}", key
            yield "[]", value
    elif isinstance(subject, _COLLECTIONS):
        yield from (("[]", each) for each in list(subject))
    elif isinstance(subject, FunctionType):
        for name, cell in zip(subject.__code__.co_freevars, subject.__closure__ or (), strict=True):
            yield f".<{name}>", cell
        yield from ((".defaults", each) for each in subject.__defaults__ or ())
        return
    elif isinstance(subject, MethodType):
        yield ".self", subject.__self__
        yield ".function", subject.__func__
        return
    elif isinstance(subject, functools.partial):
        yield ".function", subject.func
        yield from ((".bound", each) for each in (*subject.args, *subject.keywords.values()))
    elif isinstance(subject, CellType):
        yield from (("", each) for each in gc.get_referents(subject))
        return
    elif isinstance(subject, functools._lru_cache_wrapper):
        return
    elif isinstance(subject, BuiltinFunctionType):
        yield from ((".self", each) for each in gc.get_referents(subject))
        return
    named = list(_attributes(subject))
    yield from named
    if not named and not isinstance(subject, (*_MAPPINGS, *_COLLECTIONS)):
        yield from ((f".<{type(each).__name__}>", each) for each in gc.get_referents(subject))


def _attributes(subject: object) -> Iterator[tuple[str, object]]:
    yield from ((f".{name}", value) for name, value in getattr(subject, "__dict__", {}).items())
    for cls in type(subject).__mro__:
        slots = cls.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots if isinstance(slots, tuple | list) else ():
            if not name.startswith("__") and (value := getattr(subject, name, None)) is not None:
                yield f".{name}", value
    if isinstance(subject, msgspec.Struct):
        yield from ((f".{name}", getattr(subject, name)) for name in subject.__struct_fields__)
