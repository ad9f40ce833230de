"""A tool of a server's list, as configuration lets it through."""

from __future__ import annotations

import random
from typing import Any

import mcp.types as t
import pytest

from bot.mcp.settings import server_settings
from bot.mcp.tools import Link, McpTool, tool_of
from bot.tool import BadArguments, takes
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
    assert takes(FLAT, "env")
    assert not takes(FLAT, "envv")
    assert takes(COMBINED, "anything")


def test_the_server_behind_a_name_is_part_of_what_its_tools_are() -> None:
    here = made(FLAT).schema_digest
    assert here == made(FLAT, bearer="DEPLOYS_TOKEN", call_timeout=5).schema_digest
    assert here != made(FLAT, url="https://other.test/mcp").schema_digest


def test_carriers_are_named_as_the_server_calls_them() -> None:
    assert made(FLAT, carriers=["dep*"]).carrier
    assert not made(FLAT, carriers=["srv__deploy"]).carrier


def test_an_argument_that_is_fixed_is_one_of_the_tool() -> None:
    tool = made(FLAT, fixed={"deploy": {"env": "prod"}})
    assert tool.may_take("env")
    assert tool.may_take("env.name")
    assert not tool.may_take("envv")
