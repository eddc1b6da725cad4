"""From the tokens of an expression to its syntax tree, macros expanded.

The grammar is that of https://github.com/google/cel-spec/blob/master/doc/langdef.md with optional syntax. What is
bounded here, length and depth, bounds the recursion of all that comes after.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, cast

from kframework.cel.errors import CelError
from kframework.cel.lexer import Token, byte_string, string, tokens
from kframework.cel.syntax import Call, Comprehension, Ident, List, Literal, Map, Node, Select, walk
from kframework.cel.values import INT_MAX, INT_MIN, UINT_MAX, Uint

#: What a loop gathers goes by a name that nobody can write.
ACCU = "@result"
_SORTED = "@sorted"
_Quantifier = tuple[Node, Node, Node, Node]


def expanded(position: int, function: str, target: Node | None, args: list[Node]) -> Node:
    """Return the call, or what it is written out as where it is a macro; raises CelError for a macro's wrong use."""
    macro = _MACROS.get((function, len(args), target is not None))
    found = macro(_Call(position, target, args)) if macro is not None else None
    return found if found is not None else Call(position, function, target, args)


class _Call(NamedTuple):
    """A call that may be a macro, and how to write the parts of what it expands to."""

    position: int
    receiver: Node | None
    args: list[Node]

    @property
    def target(self) -> Node:
        return cast(Node, self.receiver)  # a macro of a method has one

    def literal(self, value: object) -> Node:
        return Literal(self.position, value)

    def accu(self) -> Node:
        return Ident(self.position, ACCU)

    def call(self, function: str, *args: Node) -> Node:
        return Call(self.position, function, None, list(args))

    def method(self, function: str, target: Node, *args: Node) -> Node:
        return Call(self.position, function, target, list(args))

    def list(self, *elements: Node) -> Node:
        return List(self.position, list(elements))

    def name(self, place: int, problem: str) -> str:
        argument = self.args[place]
        if not isinstance(argument, Ident) or argument.name.startswith("."):
            raise CelError(problem, argument.position)
        if argument.name == "__result__":
            raise CelError("iteration variable overwrites accumulator variable", argument.position)
        return argument.name

    def loop(self, iter_var: str, iter_var2: str, parts: _Quantifier) -> Node:
        init, condition, step, result = parts
        return Comprehension(self.position, self.target, iter_var, iter_var2, ACCU, init, condition, step, result)

    def bind(self, name: str, value: Node, result: Node) -> Node:
        nothing, never, named = self.list(), self.literal(False), Ident(self.position, name)
        return Comprehension(self.position, nothing, "#unused", "", name, value, never, named, result)


def _all(call: _Call, predicate: Node) -> _Quantifier:
    condition = call.call("@not_strictly_false", call.accu())
    return call.literal(True), condition, call.call("_&&_", call.accu(), predicate), call.accu()


def _exists(call: _Call, predicate: Node) -> _Quantifier:
    condition = call.call("@not_strictly_false", call.call("!_", call.accu()))
    return call.literal(False), condition, call.call("_||_", call.accu(), predicate), call.accu()


def _exists_one(call: _Call, predicate: Node) -> _Quantifier:
    counted = call.call("_+_", call.accu(), call.literal(1))
    step = call.call("_?_:_", predicate, counted, call.accu())
    return call.literal(0), call.literal(True), step, call.call("_==_", call.accu(), call.literal(1))


def _appended(call: _Call, names: tuple[str, str], element: Node) -> tuple[Node, Node]:
    return call.list(), call.call("_+_", call.accu(), call.list(element))


def _inserted(call: _Call, names: tuple[str, str], value: Node) -> tuple[Node, Node]:
    key = Ident(call.position, names[0])
    return Map(call.position, [], []), call.call("cel.@mapInsert", call.accu(), key, value)


def _inserted_entry(call: _Call, names: tuple[str, str], entry: Node) -> tuple[Node, Node]:
    return Map(call.position, [], []), call.call("cel.@mapInsert", call.accu(), entry)


_Gather = Callable[[_Call, tuple[str, str], Node], tuple[Node, Node]]


def _gathering(count: int, gather: _Gather) -> Callable[[_Call], Node]:
    """Return the macro of so many variables that gathers what its last argument makes, of what meets a condition."""

    def loop(call: _Call) -> Node:
        names = _two_names(call) if count == 2 else (call.name(0, "argument is not an identifier"), "")
        *condition, made = call.args[count:]
        init, step = gather(call, names, made)
        if condition:
            step = call.call("_?_:_", condition[0], step, call.accu())
        return call.loop(*names, (init, call.literal(True), step, call.accu()))

    return loop


def _quantifier(make: Callable[[_Call, Node], _Quantifier]) -> Callable[[_Call], Node]:
    def loop(call: _Call) -> Node:
        *names, predicate = call.args
        variables = _two_names(call) if len(names) == 2 else (call.name(0, "argument must be a simple name"), "")
        return call.loop(*variables, make(call, predicate))

    return loop


def _two_names(call: _Call) -> tuple[str, str]:
    first, second = (call.name(place, "argument must be a simple name") for place in (0, 1))
    if first == second:
        raise CelError(f"duplicate variable name: {first}", call.args[1].position)
    return first, second


_map = _gathering(1, _appended)


def _filter(call: _Call) -> Node:
    name, condition = call.args
    return _map(_Call(call.position, call.target, [name, condition, name]))


def _has(call: _Call) -> Node:
    argument = call.args[0]
    if not isinstance(argument, Select) or argument.test:
        raise CelError("invalid argument to has() macro", argument.position)
    return Select(call.position, argument.operand, argument.field, test=True)


def _bind(call: _Call) -> Node | None:
    if not isinstance(call.target, Ident) or call.target.name != "cel":
        return None
    name = call.name(0, "cel.bind() variable names must be simple identifiers")
    return call.bind(name, call.args[1], call.args[2])


def _if_present(call: _Call, macro: str, wrapped: Callable[[Node], Node]) -> Node:
    name = call.name(0, f"{macro}() variable name must be a simple identifier")
    found = call.bind(name, call.method("value", call.target), call.args[1])
    present = call.method("hasValue", call.target)
    return call.call("_?_:_", present, wrapped(found), call.call("optional.none"))


def _sort_by(call: _Call) -> Node:
    if not isinstance(call.target, (List, Select, Ident, Comprehension, Call)):
        problem = "sortBy can only be applied to a list, identifier, comprehension, call or select expression"
        raise CelError(problem, call.target.position)
    unsorted = Ident(call.position, _SORTED)
    keys = _map(_Call(call.position, unsorted, call.args))
    return call.bind(_SORTED, call.target, call.method("@sortByAssociatedKeys", unsorted, keys))


_QUANTIFIERS = {"all": _all, "exists": _exists, "exists_one": _exists_one, "existsOne": _exists_one}
_TRANSFORMS = {"transformList": _appended, "transformMap": _inserted, "transformMapEntry": _inserted_entry}
_MACROS: dict[tuple[str, int, bool], Callable[[_Call], Node | None]] = {
    ("has", 1, False): _has,
    **{(name, count, True): _quantifier(make) for name, make in _QUANTIFIERS.items() for count in (2, 3)},
    **{("map", count, True): _map for count in (2, 3)},
    ("filter", 2, True): _filter,
    **{(name, count, True): _gathering(2, make) for name, make in _TRANSFORMS.items() for count in (3, 4)},
    ("bind", 3, True): _bind,
    ("optMap", 2, True): lambda call: _if_present(call, "optMap", lambda found: call.call("optional.of", found)),
    ("optFlatMap", 2, True): lambda call: _if_present(call, "optFlatMap", lambda found: found),
    ("sortBy", 2, True): _sort_by,
}


MOST_CHARACTERS = 100_000  # cel-go's
MOST_NESTED = 100  # brackets within brackets; cel-go allows 250, and one takes four frames of Python's stack
MOST_DEEP = 200  # levels of the tree
MOST_NODES = 50_000  # of the tree, macros expanded: each `optMap` after another doubles what it stands on

#: What stands between two: how strongly it binds, and what its call is named. Rows of the weakest two are one call.
_OPERATORS = {
    "||": (0, "_||_"),
    "&&": (1, "_&&_"),
    **dict.fromkeys(("<", "<=", ">=", ">", "==", "!="), (2, "")),
    "in": (2, "@in"),
    **dict.fromkeys(("+", "-"), (3, "")),
    **dict.fromkeys(("*", "/", "%"), (4, "")),
}
_ROWS = 1  # the strongest of those that make rows

_KEYWORDS = {"true": True, "false": False, "null": None}
_RESERVED = frozenset(
    "as break const continue else for function if import let loop package namespace return var void while".split()
)
_EXPECTED = "expecting {'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, "
_EXPECTED += "BYTES, IDENTIFIER}"


def parse(text: str) -> Node:
    """Return the syntax tree of an expression; raises CelError."""
    if len(text) > MOST_CHARACTERS:
        raise CelError(f"expression code point size exceeds limit: size: {len(text)}, limit {MOST_CHARACTERS}", 0)
    root = _Parser(text).whole()
    for count, (node, depth) in enumerate(walk(root)):
        if depth > MOST_DEEP:
            raise CelError(f"expression recursion limit exceeded: {MOST_DEEP}", node.position)
        if count > MOST_NODES:
            raise CelError(f"expression size limit exceeded: {MOST_NODES} nodes", node.position)
    return root


class _Parser:
    """Goes down the grammar, one method a rule."""

    def __init__(self, text: str) -> None:
        self._tokens = list(tokens(text))
        self._at = 0
        self._nested = 0

    def whole(self) -> Node:
        node = self._expression()
        if self._token.kind != "end":
            raise self._unexpected("expecting <EOF>")
        return node

    @property
    def _token(self) -> Token:
        return self._tokens[self._at]

    def _next(self) -> Token:
        self._at += 1
        return self._tokens[self._at - 1]

    def _skip(self, kind: str) -> bool:
        found = self._token.kind == kind
        self._at += found
        return found

    def _expect(self, kind: str) -> Token:
        if self._token.kind != kind:
            raise self._unexpected(f"expecting '{kind}'")
        return self._next()

    def _identifier(self) -> str:
        if self._token.kind != "ident" or self._token.text in _KEYWORDS or self._token.text == "in":
            raise self._unexpected("expecting IDENTIFIER")
        return self._next().text

    def _unexpected(self, expected: str) -> CelError:
        return CelError(f"Syntax error: mismatched input '{self._token.text}' {expected}", self._token.position)

    def _expression(self) -> Node:
        self._nested += 1
        if self._nested > MOST_NESTED:
            raise CelError(f"expression recursion limit exceeded: {MOST_NESTED}", self._token.position)
        node = self._operators(0)
        if self._token.kind == "?":
            position = self._next().position
            truthy = self._operators(0)
            self._expect(":")
            node = Call(position, "_?_:_", None, [node, truthy, self._expression()])
        self._nested -= 1
        return node

    def _operators(self, weakest: int) -> Node:
        """Parse a term, and the operators behind it that bind at least so strongly: one frame for all of them."""
        node = self._unary()
        row = ""
        while (sign := self._token).kind in (sign.text, "ident") and sign.text in _OPERATORS:
            strength, function = _OPERATORS[sign.text]
            if strength < weakest:
                break
            self._next()
            term = self._operators(strength + 1)
            if row == sign.text and isinstance(node, Call):
                node.args.append(term)
                continue
            node = Call(sign.position, function or f"_{sign.text}_", None, [node, term])
            row = sign.text if strength <= _ROWS else ""
        return node

    def _unary(self) -> Node:
        sign = self._token
        count = 0
        while self._skip("!") if sign.kind == "!" else self._skip("-"):
            count += 1
        if count == 1 and sign.kind == "-" and self._token.kind in ("int", "float"):
            return self._member(self._number(sign.position, "-"))
        node = self._member(self._primary())
        return Call(sign.position, f"{sign.kind}_", None, [node]) if count % 2 else node

    def _member(self, node: Node) -> Node:
        while True:
            if self._token.kind == ".":
                position = self._next().position
                if self._skip("?"):
                    key = Literal(self._token.position, self._identifier())
                    node = Call(position, "_?._", None, [node, key])
                    continue
                name = self._identifier()
                if self._token.kind == "(":
                    position, args = self._arguments()
                    node = expanded(position, name, node, args)
                else:
                    node = Select(position, node, name)
            elif self._token.kind == "[":
                position = self._next().position
                function = "_[?_]" if self._skip("?") else "_[_]"
                node = Call(position, function, None, [node, self._expression()])
                self._expect("]")
            else:
                return node

    def _arguments(self) -> tuple[int, list[Node]]:
        position = self._expect("(").position
        args: list[Node] = []
        if not self._skip(")"):
            args.append(self._expression())
            while self._skip(","):
                args.append(self._expression())
            self._expect(")")
        return position, args

    def _primary(self) -> Node:
        token = self._token
        match token.kind:
            case "(":
                self._next()
                node = self._expression()
                self._expect(")")
                return node
            case "[":
                return self._list()
            case "{":
                return self._map()
            case "int" | "uint" | "float":
                return self._number(token.position)
            case "string":
                return Literal(token.position, string(self._next()))
            case "bytes":
                return Literal(token.position, byte_string(self._next()))
            case "-" if self._tokens[self._at + 1].kind in ("int", "float"):
                return self._number(self._next().position, "-")
            case "." | "ident":
                return self._named()
        raise self._unexpected(_EXPECTED)

    def _named(self) -> Node:
        position = self._token.position
        if self._token.text in _KEYWORDS:
            return Literal(position, _KEYWORDS[self._next().text])
        dot = self._skip(".")
        position = self._token.position
        name = self._identifier()
        if name in _RESERVED:
            raise CelError(f"reserved identifier: {name}", position)
        if self._token.kind == "(":
            position, args = self._arguments()
            return expanded(position, name, None, args)
        return Ident(position, f".{name}" if dot else name)

    def _list(self) -> Node:
        position = self._next().position
        elements: list[Node] = []
        optional: set[int] = set()
        while not self._skip("]"):
            if self._skip("?"):
                optional.add(len(elements))
            elements.append(self._expression())
            if not self._skip(","):
                self._expect("]")
                break
        return List(position, elements, frozenset(optional))

    def _map(self) -> Node:
        position = self._next().position
        keys: list[Node] = []
        values: list[Node] = []
        optional: set[int] = set()
        while not self._skip("}"):
            if self._skip("?"):
                optional.add(len(keys))
            keys.append(self._expression())
            self._expect(":")
            values.append(self._expression())
            if not self._skip(","):
                self._expect("}")
                break
        return Map(position, keys, values, frozenset(optional))

    def _number(self, position: int, sign: str = "") -> Node:
        token = self._next()
        if token.kind == "float":
            value = float(sign + token.text)
            if value in (float("inf"), float("-inf")):
                raise CelError("invalid double literal", token.position)
            return Literal(position, value)
        digits = token.text.rstrip("uU") if token.kind == "uint" else token.text
        # More digits than 64 bits take are never converted: that takes quadratic time.
        number = int(sign + digits, 16 if digits.startswith("0x") else 10) if len(digits.lstrip("0x")) < 21 else 1 << 99
        low, high = (INT_MIN, INT_MAX) if token.kind == "int" else (0, UINT_MAX)
        if not low <= number <= high:
            raise CelError(f"invalid {token.kind} literal", token.position)
        return Literal(position, Uint(number) if token.kind == "uint" else number)
