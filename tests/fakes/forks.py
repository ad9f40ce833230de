"""Processes for the tests to start and kill, forked from a server that has imported what they need.

To import it takes seconds of a processor. They are processes like any other, with no state of the
tests in them: the server is started afresh, and only imports.
"""

from __future__ import annotations

import multiprocessing

FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(
    [
        "pytest",
        "bot.cli",
        "tests.scenario.slack_process",
        "adapters.slack.transport",
        "mcp.server.mcpserver",
        "mcp.server.stdio",
        "mcp.server.streamable_http_manager",
        "uvicorn.protocols.http.auto",
        "uvicorn.lifespan.on",
    ]
)
