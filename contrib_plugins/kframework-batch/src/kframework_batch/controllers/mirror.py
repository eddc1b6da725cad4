"""What a controller has seen of the cluster: the objects it watches, by name and by the subjects that they concern."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar, cast

from kframework.objects import ApiObject

T = TypeVar("T", bound=ApiObject)

#: The kind of an object, its namespace and its name.
_Place = tuple[type[ApiObject], str, str]

#: So many of the last objects that went are remembered: an answer may tell of one after the watch told of its end.
_REMEMBERED = 10_000


class Mirror:
    """The objects that a controller watches, each as it was seen last.

    What the controller wrote itself may be put in as well: whichever version is the latest stays, and of what has gone
    no version comes back that was there before.
    """

    def __init__(self, subjects: Callable[[ApiObject], Iterable[str]]) -> None:
        self._subjects = subjects
        self._objects: dict[_Place, ApiObject] = {}
        self._concerning: dict[str, dict[_Place, None]] = {}
        self._gone: dict[str, ApiObject] = {}  # by uid, as it was seen last

    def find(self, kind: type[T], name: str, namespace: str = "") -> T | None:
        """Return an object, or None."""
        return cast("T | None", self._objects.get((kind, namespace, name)))

    def concerning(self, subject: str, kind: type[T]) -> list[T]:
        """List the objects of a kind that concern a subject, in the order in which they came to do so."""
        places = self._concerning.get(subject, {})
        return [cast("T", self._objects[place]) for place in places if place[0] is kind]

    def put(self, obj: ApiObject) -> ApiObject | None:
        """Take in an object and return what was in its place.

        It returns the object itself if this is nothing new.
        """
        place = _place(obj)
        old = self._objects.get(place)
        last = self._gone.get(obj.metadata.uid, old)
        if last is not None and not _is_newer(obj, last):
            return obj
        self._gone.pop(obj.metadata.uid, None)
        self._objects[place] = obj
        before, now = set(self._subjects(old)) if old is not None else set(), dict.fromkeys(self._subjects(obj))
        for subject in before - now.keys():
            self._unlink(subject, place)
        for subject in now:
            self._concerning.setdefault(subject, {})[place] = None
        return old

    def drop(self, obj: ApiObject) -> ApiObject:
        """Forget an object, unless another has taken its place, and return it as it was seen last.

        Name and uid of what is passed are enough.
        """
        place = _place(obj)
        known = self._objects.get(place, obj)
        last = known if known.metadata.uid == obj.metadata.uid else obj
        self._gone[last.metadata.uid] = last
        if len(self._gone) > _REMEMBERED:
            del self._gone[next(iter(self._gone))]
        if self._objects.get(place) is last:
            del self._objects[place]
            for subject in set(self._subjects(last)):
                self._unlink(subject, place)
        return last

    def _unlink(self, subject: str, place: _Place) -> None:
        places = self._concerning[subject]
        del places[place]
        if not places:
            del self._concerning[subject]


def _place(obj: ApiObject) -> _Place:
    return type(obj), obj.metadata.namespace, obj.metadata.name


def _is_newer(obj: ApiObject, old: ApiObject) -> bool:
    """Return whether an object is later than another of its name, as far as their versions can be compared."""
    version, known = obj.metadata.resource_version, old.metadata.resource_version
    if obj.metadata.uid != old.metadata.uid or not (version.isdecimal() and known.isdecimal()):
        return version != known
    return int(version) > int(known)
