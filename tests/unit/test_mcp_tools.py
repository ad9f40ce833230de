"""A tool of a server's list, as configuration lets it through."""

from __future__ import annotations

import random
from typing import Any

import mcp.types as t
import pytest

from bot.mcp.settings import server_settings
from bot.mcp.source import _takes
from bot.mcp.tools import Link, McpTool, tool_of
from bot.tool import BadArguments
from tests.fakes.clock import FakeClock

FLAT = {"type": "object", "properties": {"env": {"type": "string"}, "n": {"type": "integer"}}}
COMBINED = {"type": "object", "allOf": [{"properties": {"env": {"type": "string"}}}]}


def made(schema: dict[str, Any], **settings: Any) -> McpTool:
    link = Link(
        connection=None,  # type: ignore[arg-type]
        settings=server_settings("srv", {"url": "https://srv.test/mcp", **settings}),
        judge=None,  # type: ignore[arg-type]
        clock=FakeClock(),
        dice=random.Random(1),
    )
    return tool_of(link, "srv", t.Tool(name="deploy", input_schema=schema))


def test_what_is_fixed_for_a_tool_wins_over_what_is_fixed_for_all() -> None:
    tool = made(FLAT, fixed={"*": {"env": "dev", "other": 1}, "deploy": {"env": "prod"}})
    assert tool.validate({"n": 2}) == {"env": "prod", "n": 2}
    assert tool.parameters["properties"] == {"n": {"type": "integer"}}


@pytest.mark.parametrize("schema", [FLAT, COMBINED, {"type": "object"}])
def test_what_is_fixed_for_a_tool_is_sent_whatever_its_schema_looks_like(
    schema: dict[str, Any],
) -> None:
    tool = made(schema, fixed={"deploy": {"env": "staging"}})
    assert tool.validate({}) == {"env": "staging"}
    with pytest.raises(BadArguments, match="env of srv__deploy cannot be chosen"):
        tool.validate({"env": "production"})


def test_a_schema_that_is_put_together_may_take_any_argument() -> None:
    assert _takes(FLAT, "env")
    assert not _takes(FLAT, "envv")
    assert _takes(COMBINED, "anything")
