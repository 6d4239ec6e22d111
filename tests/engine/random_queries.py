"""Random queries that always fit the schema of `rich_graph`, and smaller ones when one of them fails.

A query is written clause by clause with the variables known so far at hand, so nothing has to be thrown away. It is
the outcome of a list of choices; other lists are other queries, and shorter lists with smaller numbers are simpler
ones. That is how `shrunk` works, without knowing the language.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from random import Random
from typing import Any, TypeVar

from omnigraph.schema.catalog import PropertyType, Scalar
from tests.engine.rich_graph import CATALOG, COORDINATES, POOLS, WORDS

T = TypeVar("T")

LABELS = ["m", "c", "x", "a", "q", "b", "z", "d", "y", "e", "p", "f", "r", "g"]
NUMBERS: list[int | float] = [
    0, 1, 2, -1, 3, 0.5, 2.7, 0.1, -1.5, 2**53 + 1, 9007199254740992.0, 2**63 - 1, 2**64 - 1, -(2**63), 2**31, 1e300,
]  # fmt: skip
BIG = (Scalar.I64, Scalar.U64)
#: Sums of these depend on the order of the values; those of integers are exact.
NEVER_SUMMED = ("wide",)
NEVER_AVERAGED = ("wide", "i64", "u64")


@dataclass(frozen=True)
class GeneratedQuery:
    text: str
    params: dict[str, Any]
    choices: tuple[int, ...]


@dataclass(frozen=True)
class Known:
    """A variable: a node or an edge of a type. ``here`` is False for what an optional block of this block binds."""

    label: str
    is_edge: bool
    type_name: str
    here: bool = True

    @property
    def properties(self) -> dict[str, PropertyType]:
        owner = CATALOG.edges[self.type_name] if self.is_edge else CATALOG.nodes[self.type_name]
        return {name: declared.type for name, declared in owner.properties.items()}

    @property
    def columns(self) -> dict[str, PropertyType]:
        """The properties, and what every row has beside them."""
        words = ("id", "from", "to") if self.is_edge else ("id",)
        return {**self.properties, **dict.fromkeys(words, PropertyType(Scalar.STRING))}


@dataclass(frozen=True)
class Field:
    """``$x.p``"""

    owner: Known
    name: str
    type: PropertyType

    def __str__(self) -> str:
        return f"${self.owner.label}.{self.name}"


@dataclass
class Scope:
    known: list[Known] = field(default_factory=list)

    def inner(self) -> Scope:
        return Scope([replace(each, here=True) for each in self.known])

    @property
    def nodes(self) -> list[Known]:
        """Nodes that a traversal or a binding of this block may use."""
        return [each for each in self.known if not each.is_edge and each.here]

    def fields(self, suits: Callable[[PropertyType], bool]) -> list[Field]:
        found = [Field(each, name, kind) for each in self.known for name, kind in each.columns.items()]
        return [each for each in found if suits(each.type)]


def random_query(random: Random, *, with_text: bool = True) -> GeneratedQuery:
    return _Writer(random.randrange, with_text).query()


def replayed(choices: Sequence[int], *, with_text: bool = True) -> GeneratedQuery:
    """The query of a list of choices. What is missing is 0, what is too large is the largest."""
    left = iter(choices)
    return _Writer(lambda bound: min(next(left, 0), bound - 1), with_text).query()


def shrunk(
    query: GeneratedQuery,
    fails: Callable[[GeneratedQuery], bool],
    *,
    with_text: bool = True,
    attempts: int = 800,
) -> GeneratedQuery:
    """A smaller query that fails too."""
    best = query
    seen = {best.text}
    improved = True
    while improved:
        improved = False
        for candidate in _smaller(best.choices):
            found = replayed(candidate, with_text=with_text)
            if found.text in seen or not _is_smaller(found, best):
                continue
            seen.add(found.text)
            attempts -= 1
            if attempts < 0:
                return best
            if fails(found):
                best, improved = found, True
                break
    return best


def _is_smaller(one: GeneratedQuery, other: GeneratedQuery) -> bool:
    return (len(one.choices), len(one.text), one.choices) < (len(other.choices), len(other.text), other.choices)


def _smaller(choices: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """First with parts left out, then with smaller numbers."""
    width = len(choices) // 2
    while width:
        for start in range(len(choices) - width, -1, -1):
            yield choices[:start] + choices[start + width :]
        width = width // 2 if width > 4 else width - 1
    for place, value in enumerate(choices):
        for less in dict.fromkeys((0, value // 2, value - 1)):
            if 0 <= less < value:
                yield (*choices[:place], less, *choices[place + 1 :])
                # The number of something, and the something.
                yield (*choices[:place], less, *choices[place + 2 :])


def literal(value: Any) -> str:
    """A value as text of the language."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        return f'datetime("{value.isoformat(timespec="milliseconds")}")'
    if isinstance(value, date):
        return f'date("{value.isoformat()}")'
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        return f'"{escaped}"'
    if isinstance(value, list):
        return f"[{', '.join(map(literal, value))}]"
    return repr(value)


def is_plain(kind: PropertyType) -> bool:
    return not kind.list and kind.scalar is not Scalar.VECTOR


def is_text(kind: PropertyType) -> bool:
    return kind.scalar is Scalar.STRING and not kind.list


class _Writer:
    def __init__(self, choose: Callable[[int], int], with_text: bool) -> None:
        self.choose = choose  # a number from 0 to below a bound
        self.with_text = with_text
        self.choices: list[int] = []
        self.declared: list[str] = []
        self.params: dict[str, Any] = {}
        self.size = 0  # variables so far, to keep the product of their rows small

    # Choices.

    def pick(self, options: Sequence[T]) -> T:
        return options[self.number(0, len(options) - 1)]

    def number(self, low: int, high: int) -> int:
        found = self.choose(high - low + 1)
        self.choices.append(found)
        return low + found

    def maybe(self, one_in: int = 2) -> bool:
        """False is simple."""
        return self.number(0, one_in - 1) == one_in - 1

    # The query.

    def query(self) -> GeneratedQuery:
        scope = Scope()
        first = self.traversal if self.maybe(8) else self.binding
        clauses = [first(scope), *self.clauses(scope, self.number(0, 4), depth=0)]
        ending = self.pick([self.plain_return, self.plain_return, self.grouped_return, self.ranked_return])(scope)
        head = ", ".join(self.declared)
        text = f"query q({head}) {{ match {{ {'  '.join(clauses)} }} {ending} }}"
        return GeneratedQuery(text, self.params, tuple(self.choices))

    def clauses(self, scope: Scope, count: int, depth: int) -> list[str]:
        return [self.clause(scope, depth) for _ in range(count)]

    def clause(self, scope: Scope, depth: int) -> str:
        options: list[Callable[[Scope], str]] = [self.filter, *[self.traversal] * 3, self.binding]
        if depth < 2:
            options += [self.negation(depth), self.negation(depth), self.optional(depth)]
        return self.pick(options)(scope)

    def negation(self, depth: int) -> Callable[[Scope], str]:
        def write(scope: Scope) -> str:
            inner = scope.inner()
            clauses = [self.linked_clause(inner), *self.clauses(inner, self.number(0, 2), depth + 1)]
            return f"not {{ {'  '.join(clauses)} }}"

        return write

    def optional(self, depth: int) -> Callable[[Scope], str]:
        def write(scope: Scope) -> str:
            inner = scope.inner()
            clauses = [self.linked_clause(inner), *self.clauses(inner, self.number(0, 2), depth + 1)]
            scope.known += [replace(each, here=False) for each in inner.known[len(scope.known) :]]
            return f"optional {{ {'  '.join(clauses)} }}"

        return write

    def linked_clause(self, inner: Scope) -> str:
        """A clause that mentions something from outside."""
        return self.traversal(inner, linked=True) if inner.nodes and self.maybe() else self.filter(inner)

    # Bindings and traversals.

    def new(self, scope: Scope, type_name: str, *, is_edge: bool = False) -> Known:
        taken = {each.label for each in scope.known}
        found = Known(self.pick([each for each in LABELS if each not in taken]), is_edge, type_name)
        scope.known.append(found)
        self.size += 1
        return found

    def binding(self, scope: Scope) -> str:
        if scope.known and (self.size > 4 or not self.maybe()):
            if not scope.nodes:
                return self.filter(scope)
            variable = self.pick(scope.nodes)
        else:
            variable = self.new(scope, self.pick(list(CATALOG.nodes)))
        tests = [self.test(variable) for _ in range(self.number(0, 2) if self.maybe(3) else 0)]
        return f"${variable.label}: {variable.type_name}" + (f" {{ {', '.join(tests)} }}" if tests else "")

    def test(self, variable: Known) -> str:
        name, kind = self.pick([each for each in variable.properties.items() if each[1].scalar is not Scalar.VECTOR])
        if kind.scalar is Scalar.DATETIME and self.maybe(4):
            return f"{name}: now()"
        if name in ("key", "code"):
            return f"{name}: {literal(self.pick(['n0', 'n1', 'n2', 'n3', 'nobody']))}"
        return f"{name}: {self.value(replace(kind, list=False))}"

    def traversal(self, scope: Scope, *, linked: bool = False) -> str:
        edge = self.pick(list(CATALOG.edges.values()))
        starts = [each for each in scope.nodes if each.type_name in (edge.source, edge.target)]
        if (linked or self.size > 4) and not starts:
            return self.filter(scope)
        known = self.pick(starts) if starts and (linked or self.size > 3 or not self.maybe(4)) else None
        on_left = known is None or not self.maybe(3)
        forward = known is None or (known.type_name == edge.source) == on_left or edge.source == edge.target
        left_type, right_type = (edge.source, edge.target) if forward else (edge.target, edge.source)
        left = known.label if known and on_left else self.end(scope, left_type, may_be_known=False)
        right = known.label if known and not on_left else self.end(scope, right_type, may_be_known=on_left)
        word = edge.name[0].lower() + edge.name[1:]
        if edge.source == edge.target and self.maybe(3):
            word = f"<{word}>"
        style = self.number(0, 5)
        if style == 3:
            low = self.number(1, 3)
            return f"${left} {word}{{{low},{self.number(low, 4)}}} ${right}"
        if style == 4:
            return f"${left} $_:{word} ${right}"
        if style == 5:
            return f"${left} ${self.new(scope, edge.name, is_edge=True).label}:{word} ${right}"
        return f"${left} {word} ${right}"

    def end(self, scope: Scope, type_name: str, *, may_be_known: bool) -> str:
        """The other end: a node that is known (a cycle), a new one, or anyone."""
        known = [each for each in scope.nodes if each.type_name == type_name] if may_be_known else []
        if known and (self.size > 4 or self.maybe(4)):
            return self.pick(known).label
        if scope.known and self.maybe(4):
            self.size += 1
            return "_"
        return self.new(scope, type_name).label

    # Filters.

    def filter(self, scope: Scope) -> str:
        return self.condition(scope, 0)

    def condition(self, scope: Scope, depth: int) -> str:
        if depth < 2 and self.maybe(4):
            joint = self.pick([" or ", " and "])
            # A clause does not start with a parenthesis: behind `= true` it would look like a call.
            first = self.condition(scope, depth + 1 if depth else 2)
            second = self.condition(scope, depth + 1)
            joined = f"{first}{joint}({second})" if self.maybe() else f"{first}{joint}{second}"
            return f"({joined})" if depth else joined
        return self.pick([
            self.comparison, self.comparison, self.comparison, self.null_test, self.membership,
            self.membership_in_property, self.text_test, self.contains, self.search,
        ])(scope)  # fmt: skip

    def comparison(self, scope: Scope) -> str:
        left = self.pick(scope.fields(is_plain))
        operator = self.pick(["=", "!=", "<", "<=", ">", ">=", "!=", "<=", ">="])
        right = self.operand(scope, left.type)
        return f"{left} {operator} {right}" if not self.maybe(4) else f"{right} {operator} {left}"

    def operand(self, scope: Scope, kind: PropertyType) -> str:
        """Something comparable with a scalar of this type."""
        if self.maybe(3):
            others = scope.fields(lambda other: is_plain(other) and _comparable(other.scalar, kind.scalar))
            if others:
                return str(self.pick(others))
        if kind.scalar is Scalar.DATETIME and self.maybe(4):
            return "now()"
        return self.value(replace(kind, enum_values=None) if self.maybe(8) else kind)

    def value(self, kind: PropertyType) -> str:
        """A literal or a new parameter; a literal fits an enum, a parameter need not."""
        if self.maybe(3):
            return self.param(kind)
        return literal(self.one_of(list(kind.enum_values) if kind.enum_values else self.pool(kind.scalar)))

    def pool(self, scalar: Scalar) -> list[Any]:
        return NUMBERS if scalar.is_numeric else POOLS[scalar]

    def one_of(self, pool: list[Any]) -> Any:
        """Mostly one of the first, which most rows have too."""
        return self.pick(pool) if self.maybe(3) else self.pick(pool[:4])

    def param(self, kind: PropertyType, *, is_list: bool = False) -> str:
        name = f"p{len(self.params)}"
        scalar = self.pick([kind.scalar, Scalar.I64, Scalar.F64]) if kind.scalar.is_numeric else kind.scalar
        nullable = self.maybe(4)
        pool = POOLS[scalar]
        value: Any = [self.one_of(pool) for _ in range(self.number(0, 3))] if is_list else self.one_of(pool)
        self.declared.append(f"${name}: {f'[{scalar}]' if is_list else scalar}{'?' if nullable else ''}")
        self.params[name] = None if nullable and self.maybe() else _as_json(value)
        return f"${name}"

    def null_test(self, scope: Scope) -> str:
        suffix = self.pick(["is null", "is not null"])
        if self.maybe(3):
            return f"${self.pick(scope.known).label} {suffix}"
        return f"{self.pick(scope.fields(lambda kind: True))} {suffix}"

    def membership(self, scope: Scope) -> str:
        left = self.pick(scope.fields(is_plain))
        word = self.pick(["in", "not in"])
        if self.maybe(3):
            return f"{left} {word} {self.param(left.type, is_list=True)}"
        free = replace(left.type, enum_values=None)
        return f"{left} {word} [{', '.join(self.value(free) for _ in range(self.number(0, 3)))}]"

    def membership_in_property(self, scope: Scope) -> str:
        lists = scope.fields(lambda kind: kind.list)
        if not lists:
            return self.membership(scope)
        right = self.pick(lists)
        return f"{self.operand(scope, replace(right.type, list=False))} {self.pick(['in', 'not in'])} {right}"

    def contains(self, scope: Scope) -> str:
        lists = scope.fields(lambda kind: kind.list)
        if not lists:
            return self.text_test(scope)
        left = self.pick(lists)
        return f"{left} contains {self.operand(scope, replace(left.type, list=False))}"

    def text_test(self, scope: Scope) -> str:
        texts = scope.fields(is_text)
        if not texts:
            return self.comparison(scope)
        left = self.pick(texts)
        operator = self.pick(["contains", "starts_with"])
        right = self.operand(scope, PropertyType(Scalar.STRING))
        return f"{right} {operator} {left}" if right.startswith('"') and self.maybe(4) else f"{left} {operator} {right}"

    def search(self, scope: Scope) -> str:
        texts = self.searchable(scope)
        if not texts:
            return self.comparison(scope)
        edits = self.pick(["", ", 0", ", 1"])
        function = self.pick(["search", "match_text", "fuzzy"])
        call = f"{function}({self.pick(texts)}, {self.words()}{edits if function == 'fuzzy' else ''})"
        return call + self.pick(["", "", " = true", " = false", " != true"])

    def words(self) -> str:
        """What to search for, as text of the language."""
        value = self.pick(WORDS)
        if self.maybe():
            return literal(value)
        name = f"p{len(self.params)}"
        self.declared.append(f"${name}: String")
        self.params[name] = value
        return f"${name}"

    def searchable(self, scope: Scope) -> list[Field]:
        """Texts of nodes that are made of plain words, or nearly so."""
        texts = scope.fields(is_text) if self.with_text else []
        return [each for each in texts if not each.owner.is_edge and each.name in ("text", "label")]

    # Columns, order, limit.

    def columns(self, scope: Scope, count: int, *, with_constants: bool) -> list[tuple[str, PropertyType | None]]:
        """Expressions and their types; None for what cannot be ordered by name."""
        found: list[tuple[str, PropertyType | None]] = []
        for _ in range(count):
            style = self.number(0, 9 if with_constants else 7)
            nodes = [each for each in scope.known if not each.is_edge]
            if style in (6, 7) and nodes:
                found.append((f"${self.pick(nodes).label}", PropertyType(Scalar.STRING)))
            elif style == 8:
                found.append((self.pick(["1", '"x"', "null", "[1, 2]", "true", 'date("2024-02-29")', "-2.5"]), None))
            elif style == 9:
                found.append((self.special(scope), None))
            elif scope.fields(lambda kind: True):
                field_ = self.pick(scope.fields(lambda kind: True))
                found.append((str(field_), field_.type))
        return found or [(literal(1), None)] if with_constants else found

    def special(self, scope: Scope) -> str:
        vectors = self.vectors(scope, only_bound=False)
        if vectors and self.maybe():
            return f"nearest({self.pick(vectors)}, {self.vector()})"
        return self.param(PropertyType(self.pick(list(POOLS))), is_list=self.maybe(3))

    def vectors(self, scope: Scope, *, only_bound: bool) -> list[Field]:
        found = scope.fields(lambda kind: kind.scalar is Scalar.VECTOR)
        return [each for each in found if each.owner.here or not only_bound]

    def vector(self) -> str:
        value = [self.pick(COORDINATES), self.pick(COORDINATES)]
        if self.maybe():
            return literal(value)
        name = f"p{len(self.params)}"
        self.declared.append(f"${name}: Vector(2)")
        self.params[name] = value
        return f"${name}"

    def plain_return(self, scope: Scope) -> str:
        distinct = self.maybe(5)
        columns = self.columns(scope, self.number(1, 4), with_constants=True)
        text, aliases = self.projections(columns)
        keys = [(alias, kind) for alias, kind in aliases]
        if not distinct:
            keys += [(str(each), each.type) for each in scope.fields(is_plain)]
        order = self.order(keys)
        return f"return {'distinct ' if distinct else ''}{{ {text} }}{order}{self.window()}"

    def grouped_return(self, scope: Scope) -> str:
        keys = self.columns(scope, self.number(0, 2), with_constants=False)
        both = [*keys, *[self.aggregate(scope) for _ in range(self.number(1, 3))]]
        text, aliases = self.projections(both)
        distinct = "distinct " if self.maybe(8) else ""
        return f"return {distinct}{{ {text} }}{self.order(aliases)}{self.window()}"

    def aggregate(self, scope: Scope) -> tuple[str, PropertyType]:
        function = self.pick(["count", "count", "sum", "avg", "min", "max"])
        number = PropertyType(Scalar.F64)
        if function == "count":
            rows = [f"${each.label}" for each in scope.known]
            if self.maybe(3):
                plain = [str(each) for each in scope.fields(is_plain)]
                return f"count(distinct {self.pick([*rows, *plain])})", number
            fields = [str(each) for each in scope.fields(lambda kind: True)]
            return f"count({self.pick([*rows, *fields, '1'])})", number
        if function in ("sum", "avg"):
            fields_ = [each for each in scope.fields(is_plain) if each.type.scalar.is_numeric]
            never = NEVER_SUMMED if function == "sum" else NEVER_AVERAGED
            fields_ = [each for each in fields_ if each.name not in never]
            return f"{function}({self.pick(fields_) if fields_ else '1'})", number
        vectors = self.vectors(scope, only_bound=False)
        if vectors and self.maybe(6):
            return f"{function}(nearest({self.pick(vectors)}, {self.vector()}))", number
        return f"{function}({self.pick(scope.fields(is_plain))})", number

    def projections(
        self, columns: list[tuple[str, PropertyType | None]]
    ) -> tuple[str, list[tuple[str, PropertyType | None]]]:
        """The text of the return block, and what order may refer to by name."""
        parts, aliases = [], []
        for place, (expression, kind) in enumerate(columns):
            if self.maybe(5):
                parts.append(expression)
            else:
                parts.append(f"{expression} as k{place}")
                aliases.append((f"k{place}", kind))
        return ", ".join(parts), aliases

    def order(self, keys: list[tuple[str, PropertyType | None]]) -> str:
        usable = [name for name, kind in keys if kind is not None and is_plain(kind)]
        if not usable or not self.maybe():
            return ""
        picked = [self.pick(usable) + self.pick(["", " asc", " desc"]) for _ in range(self.number(1, 2))]
        return f" order {{ {', '.join(picked)} }}"

    def window(self) -> str:
        found = ""
        if self.maybe(3):
            found += f" limit {self.count(0, 6)}"
        if self.maybe(4):
            found += f" offset {self.count(0, 3)}"
        return found

    def count(self, low: int, high: int) -> str:
        if not self.maybe(3):
            return str(self.number(low, high))
        name = f"p{len(self.params)}"
        self.declared.append(f"${name}: {self.pick(['I64', 'U32'])}")
        self.params[name] = self.number(low, high)
        return f"${name}"

    def ranked_return(self, scope: Scope) -> str:
        vectors = self.vectors(scope, only_bound=True)
        texts = [each for each in self.searchable(scope) if each.owner.here]
        if not vectors and not texts:
            return self.plain_return(scope)
        columns = self.columns(scope, self.number(1, 3), with_constants=True)
        text, _ = self.projections(columns)
        limit = f" limit {self.count(0, 6)}"
        offset = f" offset {self.count(0, 3)}" if self.maybe(4) else ""
        if texts and (not vectors or self.maybe()):
            return self.text_ranked_return(text, texts, vectors, limit + offset)
        chosen = self.pick(vectors)
        score = f"nearest({chosen}, {self.vector()})"
        if self.maybe(3):
            k = self.pick(["", ", 1", ", 60"])
            score = f"rrf({score}, nearest({chosen}, {self.vector()}){k})"
            text += f", {score} as fused" if self.maybe(3) else ""
        return f"return {{ {text} }} order {{ {score} }}{limit}{offset}"

    def text_ranked_return(self, text: str, texts: list[Field], vectors: list[Field], window: str) -> str:
        chosen = self.pick(texts)
        score = f"bm25({chosen}, {self.words()})"
        text += f", {score} as score" if self.maybe() else ""
        others = [f"nearest({each}, {self.vector()})" for each in vectors if each.owner == chosen.owner]
        if self.maybe(3):
            arms = [score, self.pick([*others, f"bm25({chosen}, {self.words()})"])]
            score = f"rrf({', '.join(arms[:: self.pick([1, -1])])}{self.pick(['', ', 1', ', 60'])})"
            text += f", {score} as fused" if self.maybe() else ""
            return f"return {{ {text} }} order {{ {score} }}{window}"
        return f"return {{ {text} }} order {{ {score} }}{window if self.maybe() else ''}"


def _comparable(one: Scalar, other: Scalar) -> bool:
    """Both numeric or the same. What 32 bits make of a 64-bit integer is nobody's business here."""
    if {one, other} & {Scalar.F32} and {one, other} & set(BIG):
        return False
    return one is other or (one.is_numeric and other.is_numeric)


def _as_json(value: Any) -> Any:
    if isinstance(value, list):
        return [_as_json(each) for each in value]
    return value.isoformat() if isinstance(value, date) else value
