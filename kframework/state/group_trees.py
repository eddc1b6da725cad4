"""The known groups as trees: PodGroups are the leaves, CompositePodGroups the nodes above; each names its parent."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator

from kframework.objects import CompositePodGroup, GenericPodGroup, PodGroup

#: The type of a group, as metrics name it, its namespace and name.
EntityKey = tuple[str, str, str]

POD_GROUP, COMPOSITE_POD_GROUP = "podgroup", "compositepodgroup"


def entity_key(group: GenericPodGroup) -> EntityKey:
    kind = COMPOSITE_POD_GROUP if isinstance(group, CompositePodGroup) else POD_GROUP
    return kind, group.metadata.namespace, group.metadata.name


class GroupTrees:
    """The groups by key, and the links between them.

    Without the gate CompositePodGroup each PodGroup is a tree of its own, whatever parent it names.
    """

    def __init__(self, has_parents: bool = False) -> None:
        self._has_parents = has_parents
        #: Counts the changes of groups.
        self.changes: int = 0
        self._groups: dict[EntityKey, GenericPodGroup] = {}
        #: The keys of the groups that name a parent, whether or not that is known; sorted.
        self._children: dict[EntityKey, list[EntityKey]] = {}

    @property
    def types(self) -> tuple[str, ...]:
        """The types that roots can have."""
        return (POD_GROUP, COMPOSITE_POD_GROUP) if self._has_parents else (POD_GROUP,)

    def __iter__(self) -> Iterator[GenericPodGroup]:
        return iter(self._groups.values())

    def get(self, key: EntityKey) -> GenericPodGroup | None:
        return self._groups.get(key)

    def parent(self, group: GenericPodGroup) -> EntityKey | None:
        """Return the key of the parent that a group names."""
        name = group.spec.parent_composite_pod_group_name
        return (COMPOSITE_POD_GROUP, group.metadata.namespace, name) if name and self._has_parents else None

    def path(self, key: EntityKey) -> list[GenericPodGroup]:
        """List the group of this key and its known ancestors, the highest last; one that comes again ends the list."""
        path: dict[EntityKey, GenericPodGroup] = {}
        above: EntityKey | None = key
        while above is not None and above not in path and above in self._groups:
            path[above] = self._groups[above]
            above = self.parent(path[above])
        return list(path.values())

    def root(self, key: EntityKey) -> GenericPodGroup | None:
        """Return the root of a group's tree, None while one of them is unknown."""
        group = self._groups.get(key)
        if group is None or self.parent(group) is None:
            return group
        path = self.path(key)
        return path[-1] if path and self.parent(path[-1]) is None else None

    def obstacle(self, key: EntityKey) -> str:
        """Return why a group has no root."""
        path = self.path(key)
        above = self.parent(path[-1]) if path else key
        assert above is not None
        kind, namespace, name = above
        if above in self._groups:
            return f"CompositePodGroup {namespace}/{name} is below itself"
        return f"{'PodGroup' if kind == POD_GROUP else 'CompositePodGroup'} {namespace}/{name}: there is none"

    def children(self, group: GenericPodGroup) -> list[GenericPodGroup]:
        """List the known groups that name this one as their parent: CompositePodGroups first, then by name."""
        return [self._groups[key] for key in self._children.get(entity_key(group), ())]

    def leaves(self, group: GenericPodGroup) -> Iterator[PodGroup]:
        """Yield the PodGroups of the tree below a group, or the PodGroup itself."""
        below, seen = [group], set[EntityKey]()
        while below:
            group = below.pop()
            if isinstance(group, PodGroup):
                yield group
            elif (key := entity_key(group)) not in seen:
                seen.add(key)
                below += reversed(self.children(group))

    def apply(self, old: GenericPodGroup | None, new: GenericPodGroup | None) -> None:
        """Apply a change of a group; None means absent."""
        self.changes += 1
        if old is not None:
            self._remove(old)
        if new is not None:
            self._groups[entity_key(new)] = new
            if (parent := self.parent(new)) is not None:
                insort(self._children.setdefault(parent, []), entity_key(new))

    def _remove(self, group: GenericPodGroup) -> None:
        key, parent = entity_key(group), self.parent(group)
        del self._groups[key]
        if parent is not None:
            siblings = self._children[parent]
            del siblings[bisect_left(siblings, key)]
            if not siblings:
                del self._children[parent]
