"""House rules that a machine can check by reading. Each rule is a function from a file to the sentences it breaks.

Every rule has a planted defect below that it must find, and an innocent neighbour that it must leave alone.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator

import pytest

from tests.support.source_tree import ROOT, Source, python_sources, tracked_texts

Rule = Callable[[Source], list[str]]

FILTERS_ARE_BUILT_IN = "src/omnigraph/storage/tables/filters.py"
SLEEPING_IS_DONE_IN = "tests/support/waiting.py"

_CODE_FROM_BYTES = {"pickle", "cPickle", "marshal", "shelve", "dill", "cloudpickle"}
_CODE_FROM_TEXT = {"eval", "exec"}

_FILTER_NAMES = {"filter", "where", "predicate"}
_FILTER_CALLS = {
    "filter",
    "where",
    "delete",
    "count_rows",
    "when_matched_update_all",
    "when_not_matched_by_source_delete",
}
# An object store's delete takes a path. A path has none of the signs that a predicate needs.
_PATH_TEXT = re.compile(r"[A-Za-z0-9_./%-]+")

# Written in pieces so that this file does not find itself.
_MACHINE_PATH = re.compile(r"(?<![\w.}*-])/(?:" + "work" + "|" + "root" + ")/")
_UNFINISHED = re.compile(r"\b(?:" + "|".join(["TO" + "DO", "FIX" + "ME", "X" * 3]) + r")\b")


def no_code_from_data(source: Source) -> list[str]:
    found = []
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        elif isinstance(node, ast.Call) and _called(node) in _CODE_FROM_TEXT:
            found.append(f"{source.path}:{node.lineno}: calls {_called(node)}")
            continue
        else:
            continue
        found += [
            f"{source.path}:{node.lineno}: imports {name}"
            for name in names
            if name.partition(".")[0] in _CODE_FROM_BYTES
        ]
    return found


def no_formatted_filters(source: Source) -> list[str]:
    """A filter is a value from the one module that builds filters; text put together on the spot is refused."""
    if source.path == FILTERS_ARE_BUILT_IN:
        return []
    found = []
    for scope in _scopes(source.tree):
        made = {name: value for name, value in _assigned_here(scope) if _is_made_up(value)}
        for node in _nodes_here(scope):
            for value in _filter_positions(node):
                text = made.get(value.id) if isinstance(value, ast.Name) else value
                if text is not None and _is_made_up(text) and not (_deletes(node) and _looks_like_path(text)):
                    found.append(f"{source.path}:{value.lineno}: a filter is put together from text")
    return found


def no_sleep_as_synchronisation(source: Source) -> list[str]:
    if source.path == SLEEPING_IS_DONE_IN:
        return []
    return [
        f"{source.path}:{node.lineno}: sleeps; use wait_until or a rendezvous"
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Call) and _called(node) == "sleep"
    ]


def no_machine_paths(source: Source) -> list[str]:
    return _lines_with(_MACHINE_PATH, source, "names a folder of one machine")


def no_unfinished_marks(source: Source) -> list[str]:
    return _lines_with(_UNFINISHED, source, "is marked as unfinished")


def has_docstring(source: Source) -> list[str]:
    return [] if ast.get_docstring(source.tree) else [f"{source.path}: has no module docstring"]


def is_plain_pin_list(source: Source) -> list[str]:
    """Names and versions only: no address, no option, no local path."""
    pin = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*==[A-Za-z0-9.!+]+")
    return [
        f"{source.path}:{number}: not a plain pin"
        for number, line in enumerate(source.text.splitlines(), start=1)
        if line and not line.startswith("# ") and not pin.fullmatch(line)
    ]


def _lines_with(pattern: re.Pattern[str], source: Source, fault: str) -> list[str]:
    return [
        f"{source.path}:{number}: {fault}"
        for number, line in enumerate(source.text.splitlines(), start=1)
        if pattern.search(line)
    ]


def _called(call: ast.Call) -> str:
    """The last part of the name that is called: ``time.sleep(1)`` → sleep."""
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def _scopes(tree: ast.Module) -> Iterator[ast.AST]:
    yield tree
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield node


def _nodes_here(scope: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a scope without those of the functions inside it, so that names are not mixed up."""
    waiting = list(ast.iter_child_nodes(scope))
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            waiting.extend(ast.iter_child_nodes(node))


def _assigned_here(scope: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    for node in _nodes_here(scope):
        if isinstance(node, ast.Assign):
            targets: list[ast.expr] = node.targets
        elif isinstance(node, ast.AnnAssign | ast.AugAssign | ast.NamedExpr):
            targets = [node.target]
        else:
            continue
        for target in targets:
            if isinstance(target, ast.Name) and node.value is not None:
                yield target.id, node.value


def _filter_positions(node: ast.AST) -> Iterator[ast.expr]:
    """Expressions that some store will read as a filter."""
    if isinstance(node, ast.Call):
        yield from (keyword.value for keyword in node.keywords if keyword.arg in _FILTER_NAMES)
        if _called(node) in _FILTER_CALLS:
            yield from node.args
    elif isinstance(node, ast.Dict):
        for key, value in zip(node.keys, node.values, strict=True):
            if isinstance(key, ast.Constant) and key.value in _FILTER_NAMES:
                yield value


def _deletes(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and _called(node) == "delete"


def _is_made_up(value: ast.expr) -> bool:
    """f-string with a hole, a sum or % of something with text in it, ``"…".format(…)``, ``"…".join(…)``."""
    if isinstance(value, ast.JoinedStr):
        return any(isinstance(part, ast.FormattedValue) for part in value.values)
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add | ast.Mod):
        return any(_is_text(side) or _is_made_up(side) for side in (value.left, value.right))
    if isinstance(value, ast.IfExp):
        return _is_made_up(value.body) or _is_made_up(value.orelse)
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
        return value.func.attr in {"format", "join"} and _is_text(value.func.value)
    return False


def _is_text(value: ast.expr) -> bool:
    return isinstance(value, ast.JoinedStr) or (isinstance(value, ast.Constant) and isinstance(value.value, str))


def _looks_like_path(value: ast.expr) -> bool:
    fixed = "".join(
        node.value for node in ast.walk(value) if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )
    return _PATH_TEXT.fullmatch(fixed) is not None


def _broken(rule: Rule, sources: list[Source]) -> str:
    assert sources, "nothing to read"
    return "\n".join(sentence for source in sources for sentence in rule(source))


@pytest.mark.parametrize("rule", [no_code_from_data, no_formatted_filters, has_docstring])
def test_the_source_keeps_the_rule(rule: Rule) -> None:
    assert _broken(rule, python_sources("src")) == ""


def test_the_tests_do_not_sleep() -> None:
    assert _broken(no_sleep_as_synchronisation, python_sources("tests")) == ""


@pytest.mark.parametrize("rule", [no_machine_paths, no_unfinished_marks])
def test_the_repository_keeps_the_rule(rule: Rule) -> None:
    assert _broken(rule, tracked_texts()) == ""


def test_the_constraints_are_names_and_versions_only() -> None:
    path = ROOT / "constraints.txt"
    assert _broken(is_plain_pin_list, [Source(path.name, path.read_text(encoding="utf-8"))]) == ""


_UNFINISHED_MARK = "TO" + "DO"
_A_FOLDER = "/" + "root" + "/graphs"

PLANTED: list[tuple[Rule, str]] = [
    (no_code_from_data, "import pickle\n"),
    (no_code_from_data, "from marshal import loads\n"),
    (no_code_from_data, "def f(text):\n    import cloudpickle.compat\n"),
    (no_code_from_data, "value = eval(text)\n"),
    (no_code_from_data, "import builtins\nbuiltins.exec(text)\n"),
    (no_formatted_filters, "ds.to_table(filter=f\"id = '{value}'\")\n"),
    (no_formatted_filters, 'ds.scanner(filter="id = \'" + value + "\'")\n'),
    (no_formatted_filters, "ds.scanner(filter='id = ' + value)\n"),
    (no_formatted_filters, "ds.scanner(filter='id = %s' % value)\n"),
    (no_formatted_filters, "ds.scanner(filter='id = {}'.format(value))\n"),
    (no_formatted_filters, "ds.scanner(filter=' OR '.join(parts))\n"),
    (no_formatted_filters, "ds.delete(f\"id = '{value}'\")\n"),
    (no_formatted_filters, 'ds.delete(f"{column}{operator}{value}")\n'),
    (no_formatted_filters, 'ds.delete(predicate=f"id > {value}")\n'),
    (no_formatted_filters, 'frame.where(f"age > {age}")\n'),
    (no_formatted_filters, 'ds.update(values, where=f"id = {value}")\n'),
    (no_formatted_filters, "ds.count_rows(f'id = {value}')\n"),
    (no_formatted_filters, "merge.when_not_matched_by_source_delete('id IN (' + ids + ')')\n"),
    (no_formatted_filters, 'options = {"filter": f"id = {value}"}\n'),
    (no_formatted_filters, "def f(v):\n    text = f'id = {v}'\n    return ds.to_table(filter=text)\n"),
    (no_formatted_filters, "def f(v):\n    text = 'id = '\n    text += f'{v}'\n    ds.delete(text)\n"),
    (no_formatted_filters, "def f(v):\n    ds.to_table(filter=f'id = {v}' if v else None)\n"),
    (no_sleep_as_synchronisation, "import time\ntime.sleep(1)\n"),
    (no_sleep_as_synchronisation, "from time import sleep\nsleep(0.1)\n"),
    (no_sleep_as_synchronisation, "async def f():\n    await asyncio.sleep(1)\n"),
    (no_machine_paths, f'HERE = "{_A_FOLDER}"\n'),
    (no_machine_paths, f"uri = file://{_A_FOLDER}\n"),
    (no_unfinished_marks, f"x = 1  # {_UNFINISHED_MARK}: finish\n"),
    (has_docstring, "import json\n"),
    (has_docstring, ""),
    (is_plain_pin_list, "lark @ https://example.org/lark.whl\n"),
    (is_plain_pin_list, "--find-links somewhere\n"),
    (is_plain_pin_list, "lark>=1\n"),
]

INNOCENT: list[tuple[Rule, str]] = [
    (no_code_from_data, "import json\nresult = ds.execute()\nre.compile('x')\n"),
    (no_formatted_filters, "ds.to_table(filter=equals('id', value))\nds.delete(expression)\n"),
    (no_formatted_filters, "ds.to_table(filter='id IS NOT NULL')\nraise ValueError(f'no {value}')\n"),
    (no_formatted_filters, 'store.delete(f"__recovery/{ulid}.json")\nobstore.delete(store, root + "/x.json")\n'),
    (no_formatted_filters, "def f(v):\n    text = f'no {v}'\n\n\ndef g(text):\n    ds.delete(text)\n"),
    (no_sleep_as_synchronisation, "wait_until(ready, timeout=1, what='it')\n"),
    (no_machine_paths, 'a = "s3://bucket/root/x"\nb = f"{base}/root/x"\nc = "docs/work/x"\n'),
    (no_unfinished_marks, "todo_list = []\n"),
    (has_docstring, '"""Says what it does."""\n'),
    (is_plain_pin_list, "# tested together\nlark==1.3.1\npython-dateutil==2.9.0.post0\n"),
]


def _named(value: object) -> str | None:
    return getattr(value, "__name__", None)


@pytest.mark.parametrize(("rule", "text"), PLANTED, ids=_named)
def test_a_planted_defect_is_found(rule: Rule, text: str) -> None:
    assert rule(Source("src/omnigraph/planted.py", text))


@pytest.mark.parametrize(("rule", "text"), INNOCENT, ids=_named)
def test_an_innocent_neighbour_is_left_alone(rule: Rule, text: str) -> None:
    assert rule(Source("src/omnigraph/planted.py", text)) == []


def test_the_allow_lists_name_one_file_each() -> None:
    made_up = "ds.delete(f'id = {value}')\n"
    assert no_formatted_filters(Source(FILTERS_ARE_BUILT_IN, made_up)) == []
    sleeps = "import time\ntime.sleep(1)\n"
    assert no_sleep_as_synchronisation(Source(SLEEPING_IS_DONE_IN, sleeps)) == []
