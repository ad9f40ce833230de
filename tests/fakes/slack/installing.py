"""Workspaces that install the app by OAuth, and remove it again."""

from __future__ import annotations

import base64
import binascii
import itertools
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

from aiohttp import web

from tests.fakes.slack.delivery import Deliveries
from tests.fakes.slack.people import People
from tests.fakes.slack.web import METHODS, WebApi
from tests.fakes.slack.workspace import APP, BOT_USER, Call, Json, SlackError, Workspace

if TYPE_CHECKING:
    from tests.fakes.slack.server import FakeSlack

CLIENT_ID = "111.222"
CLIENT_SECRET = "s3cret-client"
CODE_SECONDS = 600.0


class Installing:
    """Slack's side of OAuth v2: a person allows, a code is given, and exchanged once."""

    def __init__(self, slack: FakeSlack) -> None:
        self._slack = slack
        self._codes: dict[str, tuple[Workspace, str, float]] = {}
        self._refreshing: dict[str, Workspace] = {}
        self._numbers = itertools.count(1)
        self.rotating = False
        """Whether the app has token rotation on: tokens that run out, and how to get more."""
        self.token_seconds = 43_200
        self.refuse_refresh = False

    def allow(self, address: str, world: Workspace, user: str = "U_ANA") -> str:
        """A person allows the app at the address it sent them to; the code they go back with."""
        url = urlsplit(address)
        assert f"{url.scheme}://{url.netloc}{url.path}" == "https://slack.com/oauth/v2/authorize"
        asked = {name: values[0] for name, values in parse_qs(url.query).items()}
        assert asked["client_id"] == CLIENT_ID
        assert asked["state"]
        scopes = set(asked["scope"].split(","))
        known = {scope for method in METHODS.values() for scope in method.scopes}
        assert scopes <= known | world.scopes, scopes - known
        world.scopes = scopes
        code = f"code-{next(self._numbers)}"
        self._codes[code] = (world, user, world.clock.now())
        return code

    def access(self, request: web.Request, given: Json) -> Json:
        """oauth.v2.access."""
        try:
            answer = {"ok": True, **self._access(request, given)}
            error = None
        except SlackError as refused:
            answer, error = {"ok": False, "error": refused.code}, refused.code
        self._slack.world.calls.append(Call("oauth.v2.access", given, error))
        return answer

    def _access(self, request: web.Request, given: Json) -> Json:
        kind, _, secret = request.headers.get("Authorization", "").partition(" ")
        try:
            name, _, password = base64.b64decode(secret).decode().partition(":")
        except (binascii.Error, UnicodeDecodeError):
            name = password = ""
        if kind != "Basic" or name != CLIENT_ID:
            raise SlackError("invalid_client_id")
        if password != CLIENT_SECRET:
            raise SlackError("bad_client_secret")
        if request.content_type != "application/x-www-form-urlencoded":
            raise SlackError("invalid_form_data")
        if given.get("grant_type") == "refresh_token":
            world = self._refreshing.pop(given.get("refresh_token", ""), None)
            if world is None or self.refuse_refresh:
                raise SlackError("invalid_refresh_token")
            world.token = self._new_token(world)
            return {"token_type": "bot", "access_token": world.token, **self._expiry(world)}
        world, user, since = self._codes.pop(given.get("code", ""), (None, "", 0.0))
        if world is None or world.clock.now() - since > CODE_SECONDS:
            raise SlackError("invalid_code")
        if world.token is None:
            world.token = self._new_token(world)
        return {
            "access_token": world.token,
            "token_type": "bot",
            "scope": ",".join(sorted(world.scopes)),
            "bot_user_id": BOT_USER,
            "app_id": APP,
            "team": None if world.whole else {"id": world.team, "name": world.team.title()},
            "enterprise": {"id": world.enterprise, "name": "Acme"} if world.enterprise else None,
            "is_enterprise_install": world.whole,
            "authed_user": {"id": user},
            **(self._expiry(world) if self.rotating else {}),
        }

    def _new_token(self, world: Workspace) -> str:
        return f"xoxb-{world.team}-{next(self._numbers)}-of-its-own"

    def _expiry(self, world: Workspace) -> Json:
        refresh = f"xoxe-1-{world.team}-{next(self._numbers)}"
        self._refreshing[refresh] = world
        return {"refresh_token": refresh, "expires_in": self.token_seconds}


class Elsewhere(People):
    """A workspace beside the first one: the same app, which it installs for itself."""

    def __init__(self, world: Workspace, deliveries: Deliveries, installing: Installing) -> None:
        super().__init__(world, deliveries)
        self._installing = installing
        self.api = WebApi(world, dict)
        for name in ("ana", "ben", "cyn"):
            self.add_user(f"U_{name.upper()}", name)
        home = world.teams[0] if world.whole else ""
        self.add_channel("C_OPS", ["U_ANA", "U_BEN", "U_CYN", BOT_USER], team=home)

    @property
    def token(self) -> str:
        assert self.world.token is not None, "the app is not installed here"
        return self.world.token

    def calls_of(self, method: str) -> list[Call]:
        """The calls with this workspace's token."""
        return [call for call in self.world.calls if call.method == method]

    def allow(self, address: str) -> str:
        """A person here allows the app; the code they go back with."""
        return self._installing.allow(address, self.world)

    def kill_token(self, why: str = "token_revoked") -> str:
        """The token is no good any more; nobody is told."""
        token = self.token
        self.world.dead_tokens[token] = why
        self.world.token = None
        return token

    async def remove_app(self) -> None:
        """An admin removes the app: its token dies, and Slack says so twice."""
        self.kill_token("account_inactive")
        tokens: Json = {"oauth": [], "bot": [BOT_USER]}
        await self.send_event({"type": "tokens_revoked", "tokens": tokens})
        await self.send_event({"type": "app_uninstalled"})
