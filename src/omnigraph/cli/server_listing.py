"""`omnigraph graphs list` and `queries list`: what a server offers."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Any

import typer

from omnigraph.cli.addressing import Accepts
from omnigraph.cli.command import Invocation, Json, command
from omnigraph.cli.printing import print_json, shown_text


def register_graphs(app: typer.Typer) -> None:
    group = typer.Typer(help="Look at the graphs of a server.", no_args_is_help=True)
    app.add_typer(group, name="graphs")

    @command(group, "graphs list", Accepts.SERVER)
    def list_(cli: Invocation, json: Json = False) -> None:
        """List the graphs of a server by id, with where it keeps them."""
        from omnigraph.cli.served_access import graphs_at

        found = graphs_at(cli.resolver.server(), cli.config)
        if json:
            print_json({"graphs": [{"graph_id": id_, "uri": uri} for id_, uri in found]})
        else:
            sys.stdout.write("".join(f"{shown_text(id_)}\t{shown_text(uri)}\n" for id_, uri in found))


def register_queries(app: typer.Typer) -> None:
    group = typer.Typer(help="Look at the stored queries of a graph.", no_args_is_help=True)
    app.add_typer(group, name="queries")

    @command(group, "queries list", Accepts.SERVED)
    def list_(cli: Invocation, json: Json = False) -> None:
        """List the stored queries of a served graph, with their parameters."""
        with cli.graph(cli.address(how="--server NAME|URL")) as graph:
            found = [_described(each) for each in graph.stored_queries()]  # type: ignore[attr-defined]
        if json:
            print_json({"queries": found})
        else:
            lines = [line for each in found for line in _lines(each)] or ["(no stored queries registered)"]
            sys.stdout.write("".join(f"{line}\n" for line in lines))


def _described(entry: Mapping[str, Any]) -> dict[str, Any]:
    """A query of the catalog; every one of them can be used as a tool."""
    texts = {key: entry[key] for key in ("description", "instruction") if entry.get(key)}
    return {
        "name": entry["name"],
        "mcp_expose": True,
        "tool_name": entry.get("tool_name") or entry["name"],
        "mutation": bool(entry.get("mutation")),
        **texts,
        "params": [
            {"name": each["name"], "type": _type(each), "nullable": bool(each.get("nullable"))}
            for each in entry.get("params") or ()
        ],
    }


#: Types by the kinds of the catalog, for a server that does not tell the type itself.
_TYPES = {
    "string": "String",
    "bool": "Bool",
    "int": "I32",
    "bigint": "I64",
    "float": "F64",
    "date": "Date",
    "datetime": "DateTime",
    "blob": "Blob",
}


def _type(param: Mapping[str, Any]) -> str:
    told = param.get("type")
    if isinstance(told, str):
        return told
    kind = str(param.get("kind"))
    if kind == "list":
        return f"[{_TYPES.get(str(param.get('item_kind')), str(param.get('item_kind')))}]"
    return f"Vector({param.get('vector_dim')})" if kind == "vector" else _TYPES.get(kind, kind)


def _lines(query: Mapping[str, Any]) -> Iterator[str]:
    params = ", ".join(f"${each['name']}: {each['type']}{'?' if each['nullable'] else ''}" for each in query["params"])
    yield f"{'mutation' if query['mutation'] else 'read'}  {query['name']}({params})"
    for key in ("description", "instruction"):
        if key in query:
            yield f"  {key}: {shown_text(query[key])}"
