"""Recorded cases, one JSON object a line, in plain files or in gzip; and the facts that they are compared by."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import IO, TypeVar, cast

import msgspec

from kframework.errors import InputError
from kframework.objects.codec import describe_decode_error, locate_decode_error, without_nulls
from kframework.objects.json_lines import read_lines
from kframework.objects.problem import FieldPath, format_path
from kframework.values.feature_gates import MINORS

T = TypeVar("T")

_GZIP = b"\x1f\x8b"
#: The maximum length of a case, ten times that of the longest one recorded so far.
MAX_LINE_BYTES = 4 << 20


class Case(msgspec.Struct, frozen=True):
    """An input and kube-scheduler's recorded result, from a file; `line` counts from 1.

    `expect` was recorded from 1.36, or from 1.37 if `expect136` has the result of 1.36. If kube-scheduler draws lots,
    `expect_any_of` has all its results instead.
    """

    id: str
    kind: str
    suite: str
    input: dict[str, object]
    expect: dict[str, object] = msgspec.field(default_factory=dict)
    expect136: dict[str, object] | None = None
    expect_any_of: tuple[dict[str, object], ...] = msgspec.field(default=(), name="expectAnyOf")
    file: str = ""
    line: int = 0

    def minors(self) -> Sequence[str]:
        """Return the minors of Kubernetes that the case has a result of, or is read as: groups are those of 1.37."""
        if self.kind == "group":
            return MINORS[1:]
        return MINORS[:1] if self.expect136 is None else MINORS

    def of_minor(self, minor: str) -> Case:
        """Return the case with the result of one of its minors only, which its input names as the emulated version."""
        inputs = {**self.input, "emulatedVersion": minor}
        if self.expect136 is None:
            return msgspec.structs.replace(self, input=inputs)
        inputs.pop("featureGates", None)  # they made 1.36 answer as 1.37 does by default
        expect = self.expect136 if minor == MINORS[0] else with_texts_of_1_37(self.expect)
        return msgspec.structs.replace(self, input=inputs, expect=expect, expect136=None)

    def input_as(self, struct: type[T]) -> T:
        """Return the input as this struct; raises InputError."""
        return self._convert("input", self.input, struct)

    def result_as(self, result: Mapping[str, object], struct: type[T]) -> T:
        """Return one of the results as this struct; raises InputError."""
        return self._convert("expect", result, struct)

    def _convert(self, part: str, data: Mapping[str, object], struct: type[T]) -> T:
        try:
            return msgspec.convert(data, struct)
        except msgspec.ValidationError:
            plain = without_nulls(data)
        try:
            return msgspec.convert(plain, struct)
        except msgspec.ValidationError as error:
            problem = locate_decode_error(error, plain).with_prefix((part,))
            raise self.error(problem.message, format_path(problem.path)) from error

    def error(self, message: str, path: str = "") -> InputError:
        """Return an error about the case, with its file and line."""
        return InputError(message, file=self.file, line=self.line, subject=self.id, path=path)


def read(file: str) -> Iterator[Case]:
    """Read the cases of a file one after the other, decompressing it if it is gzip; raises InputError, OSError."""
    number = 0
    with ExitStack() as stack:
        lines = _open(file, stack)
        try:
            for number, line in read_lines(lines.readline, file, MAX_LINE_BYTES):
                if line.strip():
                    yield _decode_case(line, file, number)
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise InputError(f"is not a complete gzip file: {error}", file=file, line=number + 1) from error
    if not number:
        raise InputError("contains no cases", file=file, line=1)


def _open(file: str, stack: ExitStack) -> IO[bytes]:
    stream = stack.enter_context(open(file, "rb"))
    if stream.peek(len(_GZIP))[: len(_GZIP)] == _GZIP:
        return cast("IO[bytes]", stack.enter_context(gzip.open(stream)))
    if file.endswith(".gz"):
        raise InputError("is named .gz but is not a gzip file", file=file, line=1)
    return stream


def _decode_case(line: bytes, file: str, number: int) -> Case:
    try:
        case = msgspec.json.decode(line, type=Case)
    except msgspec.ValidationError as error:
        raise InputError(f"is not a recorded case: {describe_decode_error(error)}", file=file, line=number) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        reason = str(error).removeprefix("JSON is malformed: ")
        raise InputError(f"is not JSON: {reason}", file=file, line=number) from error
    if not case.expect and not case.expect_any_of:
        raise InputError("is not a recorded case: it has no `expect`", file=file, line=number)
    return msgspec.structs.replace(case, file=file, line=number)


class Fact(msgspec.Struct, frozen=True):
    """One field of a case: its path, kube-scheduler's result and the engine's; None = nothing."""

    path: FieldPath
    expected: object
    got: object

    @property
    def differs(self) -> bool:
        """Whether the engine's result is another one."""
        return self.expected != self.got


class Uncompared(msgspec.Struct, frozen=True):
    """A part of a case that was not compared, and why."""

    part: str
    reason: str


class UncomparedCount(msgspec.Struct, frozen=True):
    """A part that was left uncompared, why, and in how many cases."""

    reason: str
    part: str
    cases: int


# -- the texts of 1.37 for results of 1.36 -----------------------------------------------------------------------------

#: The reasons of DynamicResources that 1.37 leaves out.
_LEFT_OUT = ("no new claims to deallocate", "still not schedulable", "plugin disabled")


def with_texts_of_1_37(expect: Mapping[str, object]) -> dict[str, object]:
    """Return the result of a `single` or `preemption` case with the texts of 1.37."""
    recorded = expect.get("postFilter")
    if not isinstance(recorded, dict):
        return dict(expect)
    before, fit_error = str(recorded.get("message", "")), str(expect.get("fitError", ""))
    after = _preemption_text(recorded) if recorded.get("code") == "Success" else _without_reasons(before)
    message = {"message": after} if after else {}
    others = {name: value for name, value in recorded.items() if name != "message"}
    return {**expect, "postFilter": {**others, **message, "fitErrorAfterPostFilter": f"{fit_error} {after}".rstrip()}}


def _without_reasons(message: str) -> str:
    for reason in _LEFT_OUT:
        message = message.removeprefix(reason).removeprefix(", ")
    return message


def _preemption_text(recorded: Mapping[str, object]) -> str:
    node, victims = recorded["nominatedNode"], len(cast("list[str]", recorded.get("victims", [])))
    return f"preemption: found a potential placement for pod on node {node}, preempting {victims} victims"


# -- facts -------------------------------------------------------------------------------------------------------------


def compare_keys(expected: Mapping[str, object], got: Mapping[str, object], *path: str | int) -> Iterator[Fact]:
    """Compare two mappings key by key, below a path."""
    for key in dict.fromkeys((*expected, *got)):
        yield Fact((*path, key), expected.get(key), got.get(key))


def unimplemented_plugin(part: str, plugin: str) -> Uncompared:
    """Report that a part needs a plugin that does not exist here."""
    return Uncompared(part, f"{plugin} is not implemented")
