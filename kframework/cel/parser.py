"""Parse tokens into a syntax tree, and expand macros.

The grammar is https://github.com/google/cel-spec/blob/master/doc/langdef.md with optional syntax. The limits of length
and depth bound the recursion in all later stages.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, cast

from kframework.cel.errors import CelError
from kframework.cel.lexer import Token, parse_bytes, parse_string, tokenize
from kframework.cel.syntax import Call, Comprehension, Ident, List, Literal, Map, Select, SyntaxNode, walk
from kframework.cel.values import INT_MAX, INT_MIN, UINT_MAX, Uint

#: The accumulator of a loop; no expression can contain this name.
ACCU = "@result"
_SORTED = "@sorted"
_Quantifier = tuple[SyntaxNode, SyntaxNode, SyntaxNode, SyntaxNode]


def expand_macro(position: int, function: str, target: SyntaxNode | None, args: list[SyntaxNode]) -> SyntaxNode:
    """Return the call, or its expansion if it is a macro; raises CelError for a misused macro."""
    macro = _MACROS.get((function, len(args), target is not None))
    expansion = macro(_MacroCall(position, target, args)) if macro is not None else None
    return expansion if expansion is not None else Call(position, function, target, args)


class _MacroCall(NamedTuple):
    """A call that may be a macro, with helpers to build its expansion."""

    position: int
    receiver: SyntaxNode | None
    args: list[SyntaxNode]

    @property
    def target(self) -> SyntaxNode:
        return cast(SyntaxNode, self.receiver)  # a macro of a method has one

    def literal(self, value: object) -> SyntaxNode:
        return Literal(self.position, value)

    def accu(self) -> SyntaxNode:
        return Ident(self.position, ACCU)

    def call(self, function: str, *args: SyntaxNode) -> SyntaxNode:
        return Call(self.position, function, None, list(args))

    def method(self, function: str, target: SyntaxNode, *args: SyntaxNode) -> SyntaxNode:
        return Call(self.position, function, target, list(args))

    def list(self, *elements: SyntaxNode) -> SyntaxNode:
        return List(self.position, list(elements))

    def variable(self, index: int, problem: str) -> str:
        argument = self.args[index]
        if not isinstance(argument, Ident) or argument.name.startswith("."):
            raise CelError(problem, argument.position)
        if argument.name == "__result__":
            raise CelError("iteration variable overwrites accumulator variable", argument.position)
        return argument.name

    def loop(self, iter_var: str, iter_var2: str, parts: _Quantifier) -> SyntaxNode:
        init, condition, step, result = parts
        return Comprehension(self.position, self.target, iter_var, iter_var2, ACCU, init, condition, step, result)

    def bind(self, name: str, value: SyntaxNode, result: SyntaxNode) -> SyntaxNode:
        empty, never, bound = self.list(), self.literal(False), Ident(self.position, name)
        return Comprehension(self.position, empty, "#unused", "", name, value, never, bound, result)


def _all(call: _MacroCall, predicate: SyntaxNode) -> _Quantifier:
    condition = call.call("@not_strictly_false", call.accu())
    return call.literal(True), condition, call.call("_&&_", call.accu(), predicate), call.accu()


def _exists(call: _MacroCall, predicate: SyntaxNode) -> _Quantifier:
    condition = call.call("@not_strictly_false", call.call("!_", call.accu()))
    return call.literal(False), condition, call.call("_||_", call.accu(), predicate), call.accu()


def _exists_one(call: _MacroCall, predicate: SyntaxNode) -> _Quantifier:
    increment = call.call("_+_", call.accu(), call.literal(1))
    step = call.call("_?_:_", predicate, increment, call.accu())
    return call.literal(0), call.literal(True), step, call.call("_==_", call.accu(), call.literal(1))


def _append_element(call: _MacroCall, names: tuple[str, str], element: SyntaxNode) -> tuple[SyntaxNode, SyntaxNode]:
    return call.list(), call.call("_+_", call.accu(), call.list(element))


def _insert_value(call: _MacroCall, names: tuple[str, str], value: SyntaxNode) -> tuple[SyntaxNode, SyntaxNode]:
    key = Ident(call.position, names[0])
    return Map(call.position, [], []), call.call("cel.@mapInsert", call.accu(), key, value)


def _insert_entry(call: _MacroCall, names: tuple[str, str], entry: SyntaxNode) -> tuple[SyntaxNode, SyntaxNode]:
    return Map(call.position, [], []), call.call("cel.@mapInsert", call.accu(), entry)


_Accumulate = Callable[[_MacroCall, tuple[str, str], SyntaxNode], tuple[SyntaxNode, SyntaxNode]]


def _transform_macro(count: int, accumulate: _Accumulate) -> Callable[[_MacroCall], SyntaxNode]:
    """Return a macro with `count` variables that collects its last argument, if a condition is given and holds."""

    def loop(call: _MacroCall) -> SyntaxNode:
        names = _two_names(call) if count == 2 else (call.variable(0, "argument is not an identifier"), "")
        *condition, element = call.args[count:]
        init, step = accumulate(call, names, element)
        if condition:
            step = call.call("_?_:_", condition[0], step, call.accu())
        return call.loop(*names, (init, call.literal(True), step, call.accu()))

    return loop


def _quantifier_macro(make: Callable[[_MacroCall, SyntaxNode], _Quantifier]) -> Callable[[_MacroCall], SyntaxNode]:
    def loop(call: _MacroCall) -> SyntaxNode:
        *names, predicate = call.args
        variables = _two_names(call) if len(names) == 2 else (call.variable(0, "argument must be a simple name"), "")
        return call.loop(*variables, make(call, predicate))

    return loop


def _two_names(call: _MacroCall) -> tuple[str, str]:
    first, second = (call.variable(index, "argument must be a simple name") for index in (0, 1))
    if first == second:
        raise CelError(f"duplicate variable name: {first}", call.args[1].position)
    return first, second


_map = _transform_macro(1, _append_element)


def _filter(call: _MacroCall) -> SyntaxNode:
    name, condition = call.args
    return _map(_MacroCall(call.position, call.target, [name, condition, name]))


def _has(call: _MacroCall) -> SyntaxNode:
    argument = call.args[0]
    if not isinstance(argument, Select) or argument.test:
        raise CelError("invalid argument to has() macro", argument.position)
    return Select(call.position, argument.operand, argument.field, test=True)


def _bind(call: _MacroCall) -> SyntaxNode | None:
    if not isinstance(call.target, Ident) or call.target.name != "cel":
        return None
    name = call.variable(0, "cel.bind() variable names must be simple identifiers")
    return call.bind(name, call.args[1], call.args[2])


def _if_present(call: _MacroCall, macro: str, wrap: Callable[[SyntaxNode], SyntaxNode]) -> SyntaxNode:
    name = call.variable(0, f"{macro}() variable name must be a simple identifier")
    bound = call.bind(name, call.method("value", call.target), call.args[1])
    present = call.method("hasValue", call.target)
    return call.call("_?_:_", present, wrap(bound), call.call("optional.none"))


def _sort_by(call: _MacroCall) -> SyntaxNode:
    if not isinstance(call.target, (List, Select, Ident, Comprehension, Call)):
        problem = "sortBy can only be applied to a list, identifier, comprehension, call or select expression"
        raise CelError(problem, call.target.position)
    unsorted = Ident(call.position, _SORTED)
    keys = _map(_MacroCall(call.position, unsorted, call.args))
    return call.bind(_SORTED, call.target, call.method("@sortByAssociatedKeys", unsorted, keys))


_QUANTIFIERS = {"all": _all, "exists": _exists, "exists_one": _exists_one, "existsOne": _exists_one}
_TRANSFORMS = {"transformList": _append_element, "transformMap": _insert_value, "transformMapEntry": _insert_entry}
_MACROS: dict[tuple[str, int, bool], Callable[[_MacroCall], SyntaxNode | None]] = {
    ("has", 1, False): _has,
    **{(name, count, True): _quantifier_macro(make) for name, make in _QUANTIFIERS.items() for count in (2, 3)},
    **{("map", count, True): _map for count in (2, 3)},
    ("filter", 2, True): _filter,
    **{(name, count, True): _transform_macro(2, make) for name, make in _TRANSFORMS.items() for count in (3, 4)},
    ("bind", 3, True): _bind,
    ("optMap", 2, True): lambda call: _if_present(call, "optMap", lambda value: call.call("optional.of", value)),
    ("optFlatMap", 2, True): lambda call: _if_present(call, "optFlatMap", lambda value: value),
    ("sortBy", 2, True): _sort_by,
}


MAX_CHARACTERS = 100_000  # cel-go's
MAX_NESTING = 100  # nested brackets; cel-go allows 250, but each takes four frames of Python's stack
MAX_DEPTH = 200  # levels of the tree
MAX_NODES = 50_000  # of the expanded tree: each chained `optMap` doubles its receiver

#: Binary operators: precedence, and name of the call. Chains of the two lowest are one call.
_OPERATORS = {
    "||": (0, "_||_"),
    "&&": (1, "_&&_"),
    **dict.fromkeys(("<", "<=", ">=", ">", "==", "!="), (2, "")),
    "in": (2, "@in"),
    **dict.fromkeys(("+", "-"), (3, "")),
    **dict.fromkeys(("*", "/", "%"), (4, "")),
}
_MAX_CHAINED = 1  # highest precedence that makes chains

_KEYWORDS = {"true": True, "false": False, "null": None}
_RESERVED = frozenset(
    "as break const continue else for function if import let loop package namespace return var void while".split()
)
_EXPECTED = "expecting {'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, "
_EXPECTED += "BYTES, IDENTIFIER}"


def parse(text: str) -> SyntaxNode:
    if len(text) > MAX_CHARACTERS:
        raise CelError(f"expression code point size exceeds limit: size: {len(text)}, limit {MAX_CHARACTERS}", 0)
    root = _Parser(text).parse_all()
    for count, (node, depth) in enumerate(walk(root)):
        if depth > MAX_DEPTH:
            raise CelError(f"expression recursion limit exceeded: {MAX_DEPTH}", node.position)
        if count > MAX_NODES:
            raise CelError(f"expression size limit exceeded: {MAX_NODES} nodes", node.position)
    return root


class _Parser:
    """A recursive-descent parser, one method per rule."""

    def __init__(self, text: str) -> None:
        self._tokens = list(tokenize(text))
        self._index = 0
        self._nesting = 0

    def parse_all(self) -> SyntaxNode:
        node = self._expression()
        if self._token.kind != "end":
            raise self._unexpected("expecting <EOF>")
        return node

    @property
    def _token(self) -> Token:
        return self._tokens[self._index]

    def _advance(self) -> Token:
        self._index += 1
        return self._tokens[self._index - 1]

    def _skip_if(self, kind: str) -> bool:
        matches = self._token.kind == kind
        self._index += matches
        return matches

    def _expect(self, kind: str) -> Token:
        if self._token.kind != kind:
            raise self._unexpected(f"expecting '{kind}'")
        return self._advance()

    def _identifier(self) -> str:
        if self._token.kind != "ident" or self._token.text in _KEYWORDS or self._token.text == "in":
            raise self._unexpected("expecting IDENTIFIER")
        return self._advance().text

    def _unexpected(self, expected: str) -> CelError:
        return CelError(f"Syntax error: mismatched input '{self._token.text}' {expected}", self._token.position)

    def _expression(self) -> SyntaxNode:
        self._nesting += 1
        if self._nesting > MAX_NESTING:
            raise CelError(f"expression recursion limit exceeded: {MAX_NESTING}", self._token.position)
        node = self._operators(0)
        if self._token.kind == "?":
            position = self._advance().position
            truthy = self._operators(0)
            self._expect(":")
            node = Call(position, "_?_:_", None, [node, truthy, self._expression()])
        self._nesting -= 1
        return node

    def _operators(self, lowest: int) -> SyntaxNode:
        """Parse a term and the following operators of at least this precedence, in a single frame."""
        node = self._unary()
        chained_sign = ""
        while (sign := self._token).kind in (sign.text, "ident") and sign.text in _OPERATORS:
            precedence, function = _OPERATORS[sign.text]
            if precedence < lowest:
                break
            self._advance()
            term = self._operators(precedence + 1)
            if chained_sign == sign.text and isinstance(node, Call):
                node.args.append(term)
                continue
            node = Call(sign.position, function or f"_{sign.text}_", None, [node, term])
            chained_sign = sign.text if precedence <= _MAX_CHAINED else ""
        return node

    def _unary(self) -> SyntaxNode:
        sign = self._token
        count = 0
        while self._skip_if("!") if sign.kind == "!" else self._skip_if("-"):
            count += 1
        if count == 1 and sign.kind == "-" and self._token.kind in ("int", "float"):
            return self._member(self._number(sign.position, "-"))
        node = self._member(self._primary())
        return Call(sign.position, f"{sign.kind}_", None, [node]) if count % 2 else node

    def _member(self, node: SyntaxNode) -> SyntaxNode:
        while True:
            if self._token.kind == ".":
                position = self._advance().position
                if self._skip_if("?"):
                    key = Literal(self._token.position, self._identifier())
                    node = Call(position, "_?._", None, [node, key])
                    continue
                name = self._identifier()
                if self._token.kind == "(":
                    position, args = self._arguments()
                    node = expand_macro(position, name, node, args)
                else:
                    node = Select(position, node, name)
            elif self._token.kind == "[":
                position = self._advance().position
                function = "_[?_]" if self._skip_if("?") else "_[_]"
                node = Call(position, function, None, [node, self._expression()])
                self._expect("]")
            else:
                return node

    def _arguments(self) -> tuple[int, list[SyntaxNode]]:
        position = self._expect("(").position
        args: list[SyntaxNode] = []
        if not self._skip_if(")"):
            args.append(self._expression())
            while self._skip_if(","):
                args.append(self._expression())
            self._expect(")")
        return position, args

    def _primary(self) -> SyntaxNode:
        token = self._token
        match token.kind:
            case "(":
                self._advance()
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
                return Literal(token.position, parse_string(self._advance()))
            case "bytes":
                return Literal(token.position, parse_bytes(self._advance()))
            case "-" if self._tokens[self._index + 1].kind in ("int", "float"):
                return self._number(self._advance().position, "-")
            case "." | "ident":
                return self._name_or_keyword()
        raise self._unexpected(_EXPECTED)

    def _name_or_keyword(self) -> SyntaxNode:
        position = self._token.position
        if self._token.text in _KEYWORDS:
            return Literal(position, _KEYWORDS[self._advance().text])
        dot = self._skip_if(".")
        position = self._token.position
        name = self._identifier()
        if name in _RESERVED:
            raise CelError(f"reserved identifier: {name}", position)
        if self._token.kind == "(":
            position, args = self._arguments()
            return expand_macro(position, name, None, args)
        return Ident(position, f".{name}" if dot else name)

    def _list(self) -> SyntaxNode:
        position = self._advance().position
        elements: list[SyntaxNode] = []
        optional: set[int] = set()
        while not self._skip_if("]"):
            if self._skip_if("?"):
                optional.add(len(elements))
            elements.append(self._expression())
            if not self._skip_if(","):
                self._expect("]")
                break
        return List(position, elements, frozenset(optional))

    def _map(self) -> SyntaxNode:
        position = self._advance().position
        keys: list[SyntaxNode] = []
        values: list[SyntaxNode] = []
        optional: set[int] = set()
        while not self._skip_if("}"):
            if self._skip_if("?"):
                optional.add(len(keys))
            keys.append(self._expression())
            self._expect(":")
            values.append(self._expression())
            if not self._skip_if(","):
                self._expect("}")
                break
        return Map(position, keys, values, frozenset(optional))

    def _number(self, position: int, sign: str = "") -> SyntaxNode:
        token = self._advance()
        if token.kind == "float":
            value = float(sign + token.text)
            if value in (float("inf"), float("-inf")):
                raise CelError("invalid double literal", token.position)
            return Literal(position, value)
        digits = token.text.rstrip("uU") if token.kind == "uint" else token.text
        # Numbers longer than 64 bits are not converted: that takes quadratic time.
        number = int(sign + digits, 16 if digits.startswith("0x") else 10) if len(digits.lstrip("0x")) < 21 else 1 << 99
        low, high = (INT_MIN, INT_MAX) if token.kind == "int" else (0, UINT_MAX)
        if not low <= number <= high:
            raise CelError(f"invalid {token.kind} literal", token.position)
        return Literal(position, Uint(number) if token.kind == "uint" else number)
