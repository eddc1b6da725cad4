"""Files that a process follows by reading them: its configuration, and the code of plugins under development."""

from __future__ import annotations

import asyncio
import importlib
import sys
import sysconfig
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Generic, TypeVar

C = TypeVar("C")

#: How often files are read, in seconds.
INTERVAL = 1.0

#: A larger file is not a configuration, in bytes.
_MAX_SIZE = 16 << 20

#: Where distributions are installed; a plugin outside of these folders is edited in place.
_INSTALLED = {Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "purelib", "platlib")}


class Followed(ABC, Generic[C]):
    """Content that is read again and again; `known` is the content at the last change."""

    known: C

    @abstractmethod
    def read(self) -> C:
        """Return the content as it is."""

    async def change(self) -> None:
        """Wait until the content is not what was known, and is the same twice in a row.

        A file that is being written is not read in the middle, unless its writer pauses for longer than the interval.
        """
        last = self.known
        while True:
            await asyncio.sleep(INTERVAL)
            content = self.read()
            if content == last != self.known:
                self.known = content
                return
            last = content


class FollowedFile(Followed[bytes | str]):
    """A file, whatever replaces it: an editor, or a ConfigMap's volume.

    A volume swaps the symbolic link `..data` on the way to the file, which no notice about the file itself would tell.
    """

    def __init__(self, path: Path) -> None:
        self.path: Path = path
        self.known: bytes | str = self.read()

    def read(self) -> bytes | str:
        """Return the content, or why there is none."""
        try:
            with self.path.open("rb") as file:
                return file.read(_MAX_SIZE)
        except OSError as error:
            return str(error)


#: The time and the size of each file that exists.
_Stamps = Mapping[Path, tuple[int, int]]


class FollowedCode(Followed[_Stamps]):
    """The modules of plugins that are edited where they lie: installed as editable, or named by their file.

    Those are the modules of a plugin's package, or those in its folder if it is in no package.
    """

    def __init__(self) -> None:
        self._classes: tuple[type, ...] = ()
        self.known: _Stamps = {}

    def follow(self, classes: Iterable[type]) -> None:
        """Follow the modules of these classes, as loaded."""
        self._classes = tuple(classes)
        self.known = {**self.read(), **{file: stamp for file, stamp in self.known.items() if file in self._files()}}

    def read(self) -> _Stamps:
        stamps: dict[Path, tuple[int, int]] = {}
        for file in self._files():
            try:
                found = file.stat()
            except OSError:
                continue  # it is being replaced
            stamps[file] = found.st_mtime_ns, found.st_size
        return stamps

    @contextmanager
    def loaded_again(self) -> Iterator[None]:
        """Let the modules be loaded again when they are imported inside; all is as before if that raises."""
        before = self._modules()
        for name in before:
            del sys.modules[name]
        importlib.invalidate_caches()
        try:
            yield
        except BaseException:
            for name in self._modules():
                del sys.modules[name]
            sys.modules.update(before)
            raise

    def _files(self) -> list[Path]:
        return sorted(filter(None, map(_source, self._modules().values())))

    def _modules(self) -> dict[str, ModuleType]:
        packages, folders = set[str](), set[Path]()
        for each in self._classes:
            module = sys.modules.get(each.__module__)
            file = None if module is None else _source(module)
            if module is None or file is None or _is_installed(module, file):
                continue
            if module.__package__:
                packages.add(module.__package__.partition(".")[0])
            else:
                folders.add(file.parent)
        return {
            name: module
            for name, module in sys.modules.items()
            if name.partition(".")[0] in packages or ((file := _source(module)) is not None and file.parent in folders)
        }


def _source(module: ModuleType) -> Path | None:
    file = getattr(module, "__file__", None)
    return Path(file).resolve() if isinstance(file, str) and file.endswith(".py") else None


def _is_installed(module: ModuleType, file: Path) -> bool:
    is_own = module.__name__.partition(".")[0] == __name__.partition(".")[0]
    return is_own or any(folder in file.parents for folder in _INSTALLED)
