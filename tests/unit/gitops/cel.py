"""An evaluator for the part of CEL that Flux's expressions use, over what stands in the file.

The project has no CEL library. The grammar below is CEL's own, cut to its operators `|| && ! == != in`,
field selection, lists of strings, `has()` and `.exists()`; anything else is refused. Errors are CEL's too:
what isn't there is an error, which `||` and `&&` absorb where the other side decides.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

_TOKEN = re.compile(r"\s*(?:([A-Za-z_]\w*)|('[^'\\]*')|(\|\||&&|==|!=|[!.,()\[\]]))")

Scope = Mapping[str, Any]
Evaluate = Callable[[Scope], Any]


class CelError(Exception):
    """The expression can't be read, or names what the object doesn't have."""


def evaluate(expression: str, obj: Scope) -> bool:
    """The value of a boolean expression over an object. Raises CelError."""
    parser = _Parser(expression)
    value = parser.alternatives()
    if parser.tokens:
        raise CelError(f"unexpected {parser.tokens[0]!r} in {expression!r}")
    return _boolean(value(obj))


def flux(expressions: Mapping[str, str], obj: Scope) -> str:
    """What Flux makes of them: Current, InProgress, Failed, or Unknown where it is told of an error."""
    status = obj.get("status") or {}
    if status.get("observedGeneration", obj["metadata"]["generation"]) != obj["metadata"]["generation"]:
        return "InProgress"
    try:
        for name, word in (("inProgress", "InProgress"), ("failed", "Failed"), ("current", "Current")):
            if evaluate(expressions[name], obj):
                return word
    except CelError:
        return "Unknown"
    return "InProgress"


class _Parser:
    """Recursive descent; each method eats its part of the tokens and returns what evaluates it."""

    def __init__(self, text: str) -> None:
        self.tokens: list[str] = []
        end = 0
        text = text.rstrip()
        while end < len(text):
            found = _TOKEN.match(text, end)
            if found is None:
                raise CelError(f"can't read {text[end:]!r}")
            self.tokens.append(found[0].strip())
            end = found.end()

    def alternatives(self) -> Evaluate:
        return self._joined("||", True, self._conjunction)

    def _conjunction(self) -> Evaluate:
        return self._joined("&&", False, self._relation)

    def _joined(self, operator: str, decides: bool, part: Callable[[], Evaluate]) -> Evaluate:
        parts = [part()]
        while self._eat(operator):
            parts.append(part())
        return parts[0] if len(parts) == 1 else lambda scope: _join(parts, scope, decides)

    def _relation(self) -> Evaluate:
        left = self._unary()
        if self._eat("=="):
            right = self._unary()
            return lambda scope: left(scope) == right(scope)
        if self._eat("!="):
            other = self._unary()
            return lambda scope: left(scope) != other(scope)
        if self._eat("in"):
            items = self._unary()
            return lambda scope: left(scope) in items(scope)
        return left

    def _unary(self) -> Evaluate:
        if self._eat("!"):
            inner = self._unary()
            return lambda scope: not _boolean(inner(scope))
        value = self._primary()
        while self._eat("."):
            name = self._next()
            value = self._exists(value) if name == "exists" else _select(value, name)
        return value

    def _primary(self) -> Evaluate:
        token = self._next()
        if token == "(":
            inner = self.alternatives()
            self._expect(")")
            return inner
        if token == "[":
            items = [self._next()[1:-1]]
            while self._eat(","):
                items.append(self._next()[1:-1])
            self._expect("]")
            return lambda scope: items
        if token.startswith("'"):
            return lambda scope: token[1:-1]
        if token == "has":
            return self._has()
        return lambda scope: _field(scope, token)

    def _has(self) -> Evaluate:
        self._expect("(")
        path = [self._next()]
        while self._eat("."):
            path.append(self._next())
        self._expect(")")

        def has(scope: Scope) -> bool:
            held: Any = scope
            for name in path[:-1]:
                held = _field(held, name)
            return path[-1] in held

        return has

    def _exists(self, items: Evaluate) -> Evaluate:
        self._expect("(")
        name = self._next()
        self._expect(",")
        inner = self.alternatives()
        self._expect(")")
        return lambda scope: _join([inner], scope, True, [{**scope, name: item} for item in items(scope)])

    def _next(self) -> str:
        if not self.tokens:
            raise CelError("the expression ends too early")
        return self.tokens.pop(0)

    def _eat(self, token: str) -> bool:
        if self.tokens[:1] != [token]:
            return False
        self.tokens.pop(0)
        return True

    def _expect(self, token: str) -> None:
        if (found := self._next()) != token:
            raise CelError(f"{found!r} where {token!r} should be")


def _select(value: Evaluate, name: str) -> Evaluate:
    return lambda scope: _field(value(scope), name)


def _field(held: Any, name: str) -> Any:
    if not isinstance(held, Mapping) or name not in held:
        raise CelError(f"no such key: {name}")
    return held[name]


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise CelError(f"{value!r} is no boolean")
    return value


def _join(parts: list[Evaluate], scope: Scope, decides: bool, scopes: list[Scope] | None = None) -> bool:
    """`decides` if any part says so, whatever fails beside it; else the first error, else the opposite."""
    error: CelError | None = None
    for one in scopes if scopes is not None else [scope]:
        for part in parts:
            try:
                if _boolean(part(one)) is decides:
                    return decides
            except CelError as found:
                error = error or found
    if error:
        raise error
    return not decides
