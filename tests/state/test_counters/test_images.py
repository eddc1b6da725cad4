from __future__ import annotations

from collections.abc import Mapping, Sequence

from hypothesis import given
from hypothesis import strategies as st

from kframework.objects import ContainerImage
from kframework.state.counters import ImageState, ImageStates

Images = Sequence[ContainerImage]


def image(size: int, *names: str) -> ContainerImage:
    return ContainerImage(names=names, size_bytes=size)


# -- the rule, slow and obvious ----------------------------------------------------------------------------------------


class Reports:
    """What every row reports, and of every image the size that was reported first and the rows that have it."""

    def __init__(self) -> None:
        self.images: dict[int, Images] = {}
        self.sizes: dict[str, int] = {}

    def put(self, row: int, images: Images) -> None:
        self.drop(row)
        self.images[row] = images
        for each in images:
            for name in each.names:
                self.sizes.setdefault(name, each.size_bytes)

    def drop(self, row: int) -> None:
        self.images.pop(row, None)
        here = self.rows()
        self.sizes = {name: size for name, size in self.sizes.items() if name in here}

    def rows(self) -> Mapping[str, set[int]]:
        found: dict[str, set[int]] = {}
        for row, images in self.images.items():
            for each in images:
                for name in each.names:
                    found.setdefault(name, set()).add(row)
        return found


NAMES = ("a:1", "a:2", "b@sha256:1")
IMAGES = st.lists(st.builds(image, st.integers(1, 3), st.sampled_from(NAMES), st.sampled_from(NAMES)), max_size=3)
#: What happens to rows one after the other: a node reports images (a list), or leaves (None).
HISTORIES = st.lists(st.tuples(st.integers(0, 9), IMAGES | st.none()), max_size=30)


def shown(states: ImageStates) -> dict[str, tuple[int, set[int]]]:
    found = {name: states.get(name) for name in NAMES}
    return {name: (s.size, {row for row in range(12) if s.is_on(row)}) for name, s in found.items() if s is not None}


@given(HISTORIES)
def test_states_are_what_the_nodes_report(history: list[tuple[int, Images | None]]) -> None:
    states, reports = ImageStates(), Reports()
    for row, images in history:
        before, old = shown(states), reports.images.get(row)
        if images is None:
            if old is not None:
                states.remove(row, old)
                reports.drop(row)
            continue
        if old is None:
            states.add(row, images)
        else:
            concerned = states.replace(row, old, images)
            after = shown(states)
            changed = [name for name in NAMES if before.get(name) != after.get(name)]
            holders = {other for name in changed for at in (before, after) if name in at for other in at[name][1]}
            assert concerned == sorted(holders - {row})
        reports.put(row, images)
        assert shown(states) == {name: (reports.sizes[name], rows) for name, rows in reports.rows().items()}
    assert len(states._states) == len(reports.rows())


def test_size_is_that_of_the_first_node() -> None:
    states = ImageStates()
    states.add(0, [image(5, "a")])
    states.add(1, [image(9, "a")])
    assert states.get("a") == ImageState(5, 0b11)
    states.remove(0, [image(5, "a")])
    assert states.get("a") == ImageState(5, 0b10)
    assert states.replace(1, [image(9, "a")], [image(9, "a")]) == []
    assert states.get("a") == ImageState(9, 0b10)  # the only one that has it speaks anew


def test_image_has_many_names() -> None:
    states = ImageStates()
    states.add(3, [image(5, "a:1", "a@sha256:x"), image(7, "a:1")])
    assert states.get("a:1") == states.get("a@sha256:x") == ImageState(5, 1 << 3)
    states.remove(3, [image(5, "a:1", "a@sha256:x"), image(7, "a:1")])
    assert states.get("a:1") is None


def test_column_of_an_image_has_its_nodes() -> None:
    state = ImageState(1, 1 << 0 | 1 << 8 | 1 << 1000)
    column = state.column(1024)
    assert [row for row, has in enumerate(column.tolist()) if has] == [0, 8, 1000]
    assert (len(column), state.node_count) == (1024, 3)
