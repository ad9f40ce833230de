"""What the one web server serves for which surface."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from aiohttp import web

from bot.app import App, Role
from bot.secrets import ConfigError


async def _nothing(_request: web.Request) -> web.Response:
    return web.Response()


def serving(**paths: str) -> App:
    def adapter(name: str, path: str) -> Any:
        return SimpleNamespace(name=name, routes=lambda: [web.post(path, _nothing)])

    app = App.__new__(App)
    app.role = Role.ALL
    app.adapters = [adapter(*one) for one in paths.items()]
    return app


@pytest.mark.parametrize("path", ["/slack/events", "/healthz", "/readyz"])
def test_a_path_that_is_taken_is_a_sentence_about_the_configuration(path: str) -> None:
    app = serving(slack="/slack/events", teams=path)
    with pytest.raises(ConfigError, match=rf"^surfaces\.teams would serve {path}, which .* set "):
        app._web()
    serving(slack="/slack/events", teams="/api/messages")._web()
