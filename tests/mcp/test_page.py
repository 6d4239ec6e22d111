"""`docs/mcp.md` lists every tool with its arguments. ``python -m tests.mcp.test_page`` writes the table."""

from __future__ import annotations

from pathlib import Path

from omnigraph import limits
from omnigraph.mcp.graph_resources import RESOURCES
from omnigraph.mcp.tools import TOOLS

PAGE = Path(__file__).parents[2] / "docs" / "mcp.md"
BEGIN, END = "<!-- tools -->\n", "<!-- /tools -->"


def tool_table() -> str:
    """The tools in the order of the list, with the arguments that are needed in bold."""
    lines = ["| tool | arguments | what it is for |", "|---|---|---|"]
    for tool in TOOLS:
        schema = tool.schema()
        needed = schema.get("required", [])
        names = [f"**{name}**" if name in needed else name for name in schema["properties"]]
        kind = "" if not tool.writes else " (writes)"
        lines.append(
            f"| `{tool.name}`{kind} | {', '.join(names)} | {tool.description.partition('. ')[0].rstrip('.')} |"
        )
    return "\n".join(lines) + "\n"


def with_table(text: str) -> str:
    before, _, rest = text.partition(BEGIN)
    return before + BEGIN + tool_table() + END + rest.partition(END)[2]


def test_the_table_of_the_page_is_that_of_the_code() -> None:
    text = PAGE.read_text("utf-8")
    assert text == with_table(text), "run python -m tests.mcp.test_page"


def test_the_page_tells_the_numbers_and_the_resources() -> None:
    text = " ".join(PAGE.read_text("utf-8").split())
    assert f"at most {limits.MCP_ROWS} rows" in text
    assert f"{limits.MCP_ANSWER_BYTES // 1024} KiB" in text
    assert f"most {limits.MCP_SESSIONS} sessions" in text
    assert f"{limits.MCP_IDLE_SECONDS // 60} minutes" in text
    assert all(f"`{each.uri}`" in text for each in RESOURCES)


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text("utf-8")), "utf-8")
