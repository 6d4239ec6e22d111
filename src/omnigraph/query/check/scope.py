"""What a query may refer to while it is checked: the schema, the parameters, and the variables of each block.

`CheckContext` lives for one query, `VariableScope` for one block. Blocks are checked in source order, so a scope grows
clause by clause. A name found in a surrounding scope is that variable; only unknown names are introduced.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NoReturn

from msgspec.structs import replace

from omnigraph.errors import QueryTypeError
from omnigraph.query.syntax.tree import QueryDecl, SyntaxNode
from omnigraph.query.typed import Constant, Entity, Parameter, ParamRef, PropertyRef, TextVector, Variable
from omnigraph.schema.catalog import Catalog, EdgeType, PropertyType

ANONYMOUS = "_"

_RULE = re.compile(r"T[0-9]+")


class CheckContext:
    """One query against one schema."""

    def __init__(self, query: QueryDecl, catalog: Catalog) -> None:
        self.catalog = catalog
        self._query = query
        self._params: dict[str, Parameter] = {}
        self._edges = {name.lower(): edge for name, edge in catalog.edges.items()}
        self._locals = 0
        self._texts: dict[tuple[str, str, ParamRef | Constant], TextVector] = {}

    def declare_parameter(self, parameter: Parameter) -> None:
        self._params[parameter.name] = parameter

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        return tuple(self._params.values())

    def parameter(self, name: str) -> ParamRef | None:
        found = self._params.get(name)
        return None if found is None else ParamRef(found.name, found.type)

    def require_at_least(self, name: str, bound: int) -> None:
        """The value of an integer parameter must not be lower; the strictest of several bounds counts."""
        known = self._params[name]
        strictest = bound if known.at_least is None else max(bound, known.at_least)
        self._params[name] = replace(known, at_least=strictest)

    @property
    def texts(self) -> tuple[TextVector, ...]:
        """What the query needs the vectors of."""
        return tuple(self._texts.values())

    def text_vector(self, field: PropertyRef, text: ParamRef | Constant) -> TextVector:
        """The vector of a text that is compared with a property of a node; the same one for the same question."""
        type_name, name = field.variable.type_name, field.property
        known = self._texts.get((type_name, name, text))
        if known is None:
            declared = self.catalog.nodes[type_name].properties[name].embed
            model = declared.model if declared is not None else None
            known = TextVector(text, f"{type_name}.{name}#{len(self._texts)}", field.type, model)
            self._texts[type_name, name, text] = known
        return known

    def edge(self, word: str) -> EdgeType | None:
        return self._edges.get(word.lower())

    def local_name(self, label: str) -> str:
        """A name that no text can spell, for a variable that is not known outside of its block."""
        self._locals += 1
        return f"{label}#{self._locals}"

    def fail(self, message: str, at: SyntaxNode, *, hint: str | None = None) -> NoReturn:
        """Refuse the query. A message that starts with ``T<number>:`` gives its rule to the error's details."""
        source = self._query.source
        rule = message.partition(":")[0]
        raise QueryTypeError(
            f"type error: {message}",
            source=source.text,
            file=source.file,
            offset=at.offset,
            hint=hint,
            query=self._query.name,
            rule=rule if _RULE.fullmatch(rule) else None,
        ) from None


@dataclass(frozen=True, slots=True)
class RowColumn:
    """A column that a ``where`` may name.

    Attributes:
        name: the stored column.
        key: for an id, the type of the one key property it is made of, unless that is text.
    """

    name: str
    type: PropertyType
    key: PropertyType | None = None


@dataclass(frozen=True, slots=True)
class WrittenRow:
    """The row that an update or a delete is about; its columns by the words that a ``where`` has for them."""

    variable: Variable
    columns: Mapping[str, RowColumn]

    def key_behind(self, column: str) -> PropertyType | None:
        return next((each.key for each in self.columns.values() if each.name == column), None)


@dataclass(frozen=True, slots=True)
class ScopedVariable:
    """A variable, and whether it may be null here because an ``optional`` block of this or a surrounding block binds
    it; ``optional_here`` tells the two apart."""

    variable: Variable
    nullable: bool = False
    optional_here: bool = False


class VariableScope:
    """The variables of one block.

    Attributes:
        introduced: the variables this block introduces itself, in source order.
        mentions_outer: a clause directly in this block mentioned a variable of a surrounding one.
        row: what bare words stand for in a ``where``.
    """

    def __init__(
        self,
        context: CheckContext,
        parent: VariableScope | None = None,
        *,
        is_local: bool = False,
        row: WrittenRow | None = None,
    ) -> None:
        self.row = row
        self.introduced: list[Variable] = []
        self.mentions_outer = False
        self._context = context
        self._parent = parent
        self._is_local: bool = is_local or (parent is not None and parent._is_local)
        self._bound: dict[str, Variable] = {}
        self._optional: dict[str, Variable] = {}

    def find(self, label: str) -> ScopedVariable | None:
        """The variable a name stands for here, if any. Every anonymous occurrence is new."""
        if label in self._bound:
            return ScopedVariable(self._bound[label])
        if label in self._optional:
            return ScopedVariable(self._optional[label], nullable=True, optional_here=True)
        found = self._parent._find_quietly(label) if self._parent is not None else None
        self.mentions_outer = self.mentions_outer or found is not None
        return found

    def _find_quietly(self, label: str) -> ScopedVariable | None:
        if label in self._bound:
            return ScopedVariable(self._bound[label])
        if label in self._optional:
            return ScopedVariable(self._optional[label], nullable=True)
        return None if self._parent is None else self._parent._find_quietly(label)

    @property
    def labels(self) -> list[str]:
        """Every name that is known here, for suggestions."""
        outer = self._parent.labels if self._parent is not None else []
        return [*self._bound, *self._optional, *outer]

    def introduce(self, label: str, entity: Entity, type_name: str) -> Variable:
        """A new variable of this block. The caller has made sure that the name is free."""
        hidden = label == ANONYMOUS or self._is_local
        name = self._context.local_name(label) if hidden else label
        variable = Variable(name, label, entity, type_name)
        self.introduced.append(variable)
        if label != ANONYMOUS:
            self._bound[label] = variable
        return variable

    def adopt_optional(self, inner: VariableScope) -> None:
        """Make the variables of a finished ``optional`` block known here, as nullable ones."""
        self._optional |= inner._bound | inner._optional
