"""Random valid schemas, as drafts that can be written down in many equivalent ways."""

from __future__ import annotations

import random
from dataclasses import dataclass

from hypothesis import strategies as st

BASE = ("String", "Bool", "I32", "I64", "U32", "U64", "F32", "F64", "Date", "DateTime")
NUMERIC = frozenset({"I32", "I64", "U32", "U64", "F32", "F64"})

_names = st.from_regex(r"[a-z_][A-Za-z0-9_]{0,5}", fullmatch=True).filter(
    lambda name: name not in {"id", "src", "dst", "from", "to", "_rowid"}
)
_texts = st.text(st.characters(codec="utf-8"), min_size=1, max_size=12)
_values = _texts | st.integers(0, 2**64 - 1) | st.booleans() | st.floats(0, 1e300, allow_subnormal=False)


@dataclass(frozen=True)
class Declaration:
    header: str
    items: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.header.split()[1].rstrip(":")

    @property
    def ends(self) -> tuple[str, ...]:
        """The types that an edge goes between; none for anything else."""
        words = self.header.split()
        return (words[2], words[4]) if words[0] == "edge" else ()

    def text(self, rng: random.Random | None = None) -> str:
        items = list(self.items)
        gap = " "
        if rng is not None:
            rng.shuffle(items)
            gap = rng.choice([" ", "\n", "\r\n\t", " // note\n", "/* note */"])
        if self.header.startswith("edge") and not items:
            return self.header + gap
        return f"{self.header}{gap}{{{gap}{gap.join(items)}{gap}}}{gap}"


@dataclass(frozen=True)
class Draft:
    declarations: tuple[Declaration, ...]

    def text(self) -> str:
        return "\n".join(each.text() for each in self.declarations)

    def another_text(self, seed: int) -> str:
        """The same schema with declarations and items in another order, other spaces and comments."""
        rng = random.Random(seed)
        shuffled = list(self.declarations)
        rng.shuffle(shuffled)
        return "/* moved */\n".join(each.text(rng) for each in shuffled)


@dataclass(frozen=True)
class _Column:
    name: str
    core: str
    nullable: bool
    annotations: tuple[str, ...]

    @property
    def may_be_key(self) -> bool:
        return not self.nullable and self.may_be_unique

    @property
    def may_be_unique(self) -> bool:
        return self.core in BASE or self.core.startswith("enum")

    def text(self) -> str:
        return " ".join([f"{self.name}: {self.core}{'?' * self.nullable}", *self.annotations])


def _literal(value: object) -> str:
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    if isinstance(value, float):
        digits = f"{value:.12f}"
        return digits
    return str(value).lower()


@st.composite
def _cores(draw: st.DrawFn) -> str:
    kind = draw(st.sampled_from(["base", "base", "base", "list", "enum", "Vector", "Blob"]))
    if kind == "base":
        return draw(st.sampled_from(BASE))
    if kind == "list":
        return f"[{draw(st.sampled_from(BASE))}]"
    if kind == "enum":
        values = draw(
            st.lists(st.from_regex(r"[A-Za-z0-9_-]{1,4}", fullmatch=True), min_size=1, max_size=4, unique=True)
        )
        return f"enum({', '.join(values)})"
    return f"Vector({draw(st.integers(1, 2**31 - 1))})" if kind == "Vector" else "Blob"


@st.composite
def _annotations(draw: st.DrawFn, core: str) -> tuple[str, ...]:
    found = []
    if draw(st.booleans()):
        return ()
    if draw(st.booleans()) and not core.startswith("[") and core != "Blob":
        found.append("@index")
    if draw(st.booleans()) and (core in BASE or core.startswith("enum")):
        found.append("@unique")
    found += draw(_metadata())
    return tuple(draw(st.permutations(found)))


@st.composite
def _metadata(draw: st.DrawFn) -> list[str]:
    found = []
    if draw(st.booleans()):
        found.append(f"@description({_literal('d' + draw(_texts))})")
    if draw(st.booleans()):
        found.append(f"@note({_literal(draw(_values))}, unit={_literal(draw(_values))})")
    return found


@st.composite
def _columns(draw: st.DrawFn, prefix: str = "") -> list[_Column]:
    columns = []
    for name in draw(st.lists(_names, max_size=5, unique=True)):
        core = draw(_cores())
        columns.append(_Column(prefix + name, core, draw(st.booleans()), draw(_annotations(core))))
    return columns


@st.composite
def _constraints(draw: st.DrawFn, columns: list[_Column]) -> list[str]:
    """Body constraints that nodes and edges share."""
    found: list[str] = []
    for rule, names in (
        ("unique", [each.name for each in columns if each.may_be_unique]),
        ("index", [each.name for each in columns if each.core != "Blob"]),
    ):
        if bool(names) and draw(st.booleans()):
            chosen = draw(st.lists(st.sampled_from(names), min_size=1, unique=True))
            found.append(f"@{rule}({', '.join(chosen)})")
    return found


@st.composite
def _node_constraints(draw: st.DrawFn, columns: list[_Column], has_key: bool) -> list[str]:
    found = draw(_constraints(columns))
    keys = [each.name for each in columns if each.may_be_key]
    if keys and not has_key and draw(st.booleans()):
        found.append(f"@key({', '.join(draw(st.lists(st.sampled_from(keys), min_size=1, unique=True)))})")
    for each in columns:
        if each.core.strip("[]") in NUMERIC and draw(st.booleans()):
            low, high = sorted([draw(st.integers(-(2**63), 2**63)), draw(st.integers(-(2**63), 2**63))])
            found.append(f"@range({each.name}, {draw(st.sampled_from([f'{low}..{high}', f'{low}..', f'..{high}']))})")
        if each.core == "String" and draw(st.booleans()):
            found.append(f'@check({each.name}, "^[a-z]+{draw(st.integers(0, 99))}$")')
    return found


@st.composite
def drafts(draw: st.DrawFn) -> Draft:
    """A valid schema with interfaces, nodes and edges."""
    declarations = []
    interfaces = [f"I{number}" for number in range(draw(st.integers(0, 2)))]
    for name in interfaces:
        columns = draw(_columns(prefix=f"{name.lower()}_"))
        key = [f"{name.lower()}_key: String @key"] if name == "I0" else []
        declarations.append(Declaration(f"interface {name}", (*key, *(each.text() for each in columns))))
    nodes = [f"N{number}" for number in range(draw(st.integers(1, 3)))]
    for name in nodes:
        implements = draw(st.lists(st.sampled_from(interfaces), unique=True)) if interfaces else []
        columns = draw(_columns())
        rules = draw(_node_constraints(columns, has_key="I0" in implements))
        header = " ".join([f"node {name}", *draw(_metadata())])
        header += f" implements {', '.join(implements)}" if implements else ""
        declarations.append(Declaration(header, (*(each.text() for each in columns), *rules)))
    for number in range(draw(st.integers(0, 3))):
        columns = draw(_columns())
        header = f"edge E{number}: {draw(st.sampled_from(nodes))} -> {draw(st.sampled_from(nodes))}"
        header += draw(st.sampled_from(["", " @card(1..)", " @card(0..3)"]))
        header = " ".join([header, *draw(_metadata())])
        endpoints = ["@unique(src, dst)"] if draw(st.booleans()) else []
        items = [*(each.text() for each in columns), *draw(_constraints(columns)), *endpoints]
        declarations.append(Declaration(header, tuple(items)))
    return Draft(tuple(declarations))


_NEW_ITEMS = (
    "fresh{}: I32?",
    "fresh{}: String? @index",
    "fresh{}: String",
    "fresh{}: Date? @unique",
    'fresh{}: I64? @rename_from("gone")',
)


def edited(draft: Draft, data: st.DataObject) -> str:
    """The text of a draft after a few changes; it may no longer compile."""
    declarations = list(draft.declarations)
    for turn in range(data.draw(st.integers(1, 4))):
        if not declarations:
            break
        at = data.draw(st.integers(0, len(declarations) - 1))
        chosen = declarations[at]
        items = list(chosen.items)
        match data.draw(st.sampled_from(["drop", "add", "retype", "relax", "rename", "rename type", "drop type"])):
            case "drop" if items:
                items.pop(data.draw(st.integers(0, len(items) - 1)))
            case "add":
                items.append(data.draw(st.sampled_from(_NEW_ITEMS)).format(turn))
            case "retype":
                items = [item.replace("32", "64", 1) for item in items]
            case "relax":
                items = [item if item.startswith("@") else _relaxed(item) for item in items]
            case "rename":
                items = [hinted(item) for item in items]
            case "rename type" if chosen.header.startswith("node"):
                declarations = with_new_name(declarations, chosen)
                continue
            case "drop type":
                declarations = [each for each in declarations if each is not chosen and chosen.name not in each.ends]
                continue
        declarations[at] = Declaration(chosen.header, tuple(items))
    return Draft(tuple(declarations)).text()


def with_new_name(declarations: list[Declaration], node: Declaration) -> list[Declaration]:
    """The declarations with another name for a node, its hint, and the name in every edge."""
    rest = node.header.split(None, 2)[2:]
    header = " ".join([f'node {node.name}z @rename_from("{node.name}")', *rest])
    renamed = Declaration(header, node.items)
    return [renamed if each is node else _mentioning(each, node.name, renamed.name) for each in declarations]


def _mentioning(declaration: Declaration, old: str, new: str) -> Declaration:
    """An edge whose ends have got another name; anything else as it is."""
    if old not in declaration.ends:
        return declaration
    head, colon, rest = declaration.header.partition(": ")
    source, arrow, target, *more = rest.split(None, 3)
    ends = [new if end == old else end for end in (source, target)]
    return Declaration(f"{head}{colon}{ends[0]} {arrow} {' '.join([ends[1], *more])}", declaration.items)


def _relaxed(item: str) -> str:
    name, _, rest = item.partition(": ")
    core, gap, annotations = rest.partition(" @")
    return f"{name}: {core.rstrip('?')}?{gap}{annotations}"


def hinted(item: str) -> str:
    """A property under another name, with the hint that says so; a constraint stays."""
    if item.startswith("@"):
        return item
    name, _, rest = item.partition(": ")
    return f'z{name}: {rest} @rename_from("{name}")'
