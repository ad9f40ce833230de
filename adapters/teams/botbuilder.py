"""The one module that knows Microsoft's SDK: who sent a request, our tokens, and calls with them.

Of botbuilder 4.17.1 the adapter's own `process` answers every card click with a 500, lets everybody
in where no app id is set, and runs a turn before it answers (platforms/teams.md 0, 2.1): it is
replaced. Activities stay plain dictionaries, since its models drop what they do not know."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

import jwt
from aiohttp import web
from botbuilder.integration.aiohttp import CloudAdapter  # type: ignore[import-untyped]
from botbuilder.schema import Activity  # type: ignore[import-untyped]
from botframework.connector import ConnectorClient  # type: ignore[import-untyped]
from botframework.connector.auth import (  # type: ignore[import-untyped]
    BotFrameworkAuthenticationFactory,
    ManagedIdentityServiceClientCredentialsFactory,
    PasswordServiceClientCredentialFactory,
)
from botframework.connector.auth.jwt_token_extractor import (  # type: ignore[import-untyped]
    JwtTokenExtractor,
)
from msrest.exceptions import ClientRequestError

from adapters.teams import limits
from adapters.teams.gate import Gate, Refused, is_local
from adapters.teams.keys import SigningKeys
from adapters.teams.settings import TeamsSettings
from bot.clock import Clock

log = logging.getLogger(__name__)

_THREADS: Final = 16
_NEVER_LEFT: Final = ("ConnectTimeoutError", "NewConnectionError", "NameResolutionError")

Bot = Callable[[Mapping[str, Any]], Awaitable[web.Response]]
"""What is done with an activity that Teams sent, and the answer."""


class NoToken(Exception):
    """Microsoft gives us no token: nothing was sent."""


class NoAnswer(Exception):
    """The connector did not answer. `sent`: the request may have got there."""

    def __init__(self, reason: str, *, sent: bool) -> None:
        super().__init__(reason)
        self.sent = sent


@dataclass(frozen=True, slots=True)
class Answer:
    """What the connector answered; `body` is empty where it was no JSON object."""

    status: int
    headers: Mapping[str, str]
    body: Mapping[str, Any]


class SafeAdapter(CloudAdapter):  # type: ignore[misc]
    """Lets in what Teams sent, and nothing else; speaks to Teams in threads of its own, since the
    SDK fetches tokens and sends where it is called."""

    def __init__(self, settings: TeamsSettings, gate: Gate, clock: Clock) -> None:
        cloud = settings.cloud
        self._app_id = "" if settings.insecure else settings.app_id  # none: no token is sent
        self._scope, self._login = cloud.scope, cloud.login_url
        self._gate = gate
        self._clock = clock
        self.keys = SigningKeys(cloud.metadata_url, clock)
        JwtTokenExtractor.metadataCache[cloud.metadata_url] = self.keys
        self._factory = (
            PasswordServiceClientCredentialFactory(self._app_id, settings.password, settings.tenant)
            if settings.password or settings.insecure
            else ManagedIdentityServiceClientCredentialsFactory(settings.app_id)
        )
        super().__init__(
            BotFrameworkAuthenticationFactory.create(
                to_channel_from_bot_login_url=cloud.login_url,
                to_channel_from_bot_oauth_scope=cloud.scope,
                to_bot_from_channel_token_issuer=cloud.issuer,
                to_bot_from_channel_open_id_metadata_url=cloud.metadata_url,
                # Tokens of the emulator are none of ours: nothing else is ever fetched.
                to_bot_from_emulator_open_id_metadata_url=cloud.metadata_url,
                credential_factory=self._factory,
            )
        )
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="teams")
        self._credentials: Any = None
        self._client: Any = None

    async def start(self) -> None:
        """One set of credentials for good: the SDK makes new ones, and so asks for a new token, for
        every turn."""
        self._credentials = await self._factory.create_credentials(
            self._app_id, self._scope, self._login, True
        )
        connector = ConnectorClient(self._credentials)
        connector.config.connection.timeout = limits.CALL_SECONDS
        connector.config.redirect_policy.allow = False
        again = connector.config.retry_policy.policy  # who repeats what is for `connector` to say
        again.total = again.connect = again.read = 0
        again.status_forcelist, again.respect_retry_after_header = frozenset(), False
        self._client = connector._client

    def stop(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def token(self) -> None:
        """Asks for a token as every call does. Raises NoToken."""
        await self._in_thread(self._token)

    # In

    async def process(
        self, request: web.Request, bot: Bot, ws_response: object = None
    ) -> web.Response:
        """Answers 401, 403 or 400 to what is not Teams'; everything else is for `bot`."""
        try:
            activity = await _activity(request)
            claims = await self._claims(request, activity)
            self._gate.check_activity(activity, claims)
        except Refused as refused:
            log.warning(
                "A request to Teams' endpoint was refused (%d): %s", refused.status, refused
            )
            return web.Response(status=refused.status)
        return await bot(activity)

    async def _claims(self, request: web.Request, activity: Mapping[str, Any]) -> Mapping[str, Any]:
        """What the token of the request proves. Raises Refused."""
        if self._gate.insecure:
            if not is_local(request.remote or "", request.headers):
                raise Refused(403, "it comes from another machine")
            return {}
        header = request.headers.get("Authorization", "")
        scheme, _, token = header.partition(" ")
        if scheme != "Bearer" or not token:
            raise Refused(401, "it has no token")
        now = self._clock.now()
        try:
            # Looked at before the SDK does, so that a stranger picks no path in it.
            self._gate.check_claims(jwt.decode(token, options={"verify_signature": False}), now)
            named = Activity(
                channel_id=_text(activity, "channelId"), service_url=_text(activity, "serviceUrl")
            )
            checked = await self.bot_framework_authentication.authenticate_request(named, header)
            claims: Mapping[str, Any] = checked.claims_identity.claims
            self._gate.check_claims(claims, now)
        except Refused:
            raise
        except Exception as error:  # whatever the SDK raises: it is no proof
            raise Refused(401, type(error).__name__) from None
        return claims

    # Out

    async def call(
        self,
        verb: str,
        url: str,
        body: Mapping[str, Any] | None = None,
        query: Mapping[str, str] | None = None,
    ) -> Answer:
        """One request with our token, whatever the answer. The caller has checked the address.
        Raises NoToken and NoAnswer."""
        try:
            async with asyncio.timeout(limits.CALL_MOST_SECONDS):  # MSAL itself waits for ever
                answer: Answer = await self._in_thread(
                    lambda: self._call(verb, url, body, dict(query or {}))
                )
        except TimeoutError:
            raise NoAnswer("no answer in time", sent=True) from None
        return answer

    def _call(
        self, verb: str, url: str, body: Mapping[str, Any] | None, query: dict[str, str]
    ) -> Answer:
        self._token()
        headers = {"Accept": "application/json"}
        if body is not None:
            headers["Content-Type"] = "application/json; charset=utf-8"
        request = getattr(self._client, verb)(url, query, headers, body)
        try:
            answer = self._client.send(request, stream=False)
        except ClientRequestError as error:
            name = type(error.inner_exception).__name__
            raise NoAnswer(name, sent=not _never_left(error.inner_exception)) from None
        except Exception as error:  # such as what msrest makes of a redirection
            raise NoAnswer(type(error).__name__, sent=True) from None
        try:
            told = json.loads(answer.content or b"{}")
        except (ValueError, RecursionError):
            told = {}
        return Answer(answer.status_code, answer.headers, told if isinstance(told, Mapping) else {})

    def _token(self) -> None:
        if self._gate.insecure:
            return
        try:
            self._credentials.get_access_token()
        except Exception as error:  # MSAL raises its own, requests' and ValueErrors
            raise NoToken(type(error).__name__) from None

    async def _in_thread(self, work: Callable[[], Any]) -> Any:
        if self._client is None:
            raise NoAnswer("not started", sent=False)
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)


async def _activity(request: web.Request) -> Mapping[str, Any]:
    """The body. Raises Refused."""
    if request.content_type != "application/json":
        raise Refused(415, "it is no JSON")
    try:
        raw = await request.read()
    except web.HTTPException:  # it is larger than the server takes
        raise
    except Exception:  # what aiohttp and zlib raise where the encoding is not what it is said to be
        raise Refused(400, "its body is broken") from None
    if len(raw) > limits.BODY_BYTES:
        raise Refused(413, "it is too large")
    try:
        activity = json.loads(raw)
    except (ValueError, RecursionError):
        raise Refused(400, "its JSON is broken") from None
    if not isinstance(activity, dict) or not isinstance(activity.get("type"), str):
        raise Refused(400, "it is no activity")
    return activity


def _text(activity: Mapping[str, Any], key: str) -> str:
    value = activity.get(key)
    return value if isinstance(value, str) else ""


def _never_left(error: object) -> bool:
    """Whether no connection came about, so that nothing can have been sent."""
    cause = next(iter(getattr(error, "args", ())), None)
    reason = getattr(cause, "reason", cause)
    return type(error).__name__ == "ConnectTimeout" or type(reason).__name__ in _NEVER_LEFT
