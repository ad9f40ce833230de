"""The keys that Teams signs with, fetched beside everything else and kept.

botframework-connector 4.17.1 fetches them on the event loop and without a timeout, and after a
rotation refuses everybody for up to a day (`jwt_token_extractor.py`, `_OpenIdMetadata`). This
stands in its cache instead."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import aiohttp
import jwt

from adapters.teams import limits
from bot.clock import Clock

log = logging.getLogger(__name__)

_FETCH: Final = aiohttp.ClientTimeout(total=10.0)


class UnknownKey(Exception):
    """Nobody of Teams signs with that key, as far as we could find out."""


@dataclass(frozen=True, slots=True)
class SigningKey:
    """In the shape that the SDK reads."""

    public_key: Any
    endorsements: list[str]


class SigningKeys:
    """The keys told at a metadata address, an hour old at most where it answers."""

    def __init__(self, url: str, clock: Clock) -> None:
        self._url = url
        self._clock = clock
        self._keys: dict[str, SigningKey] = {}
        self._fetched_at = -math.inf
        self._tried_at = -math.inf
        self._asked_at = -math.inf
        self._lock = asyncio.Lock()

    @property
    def good(self) -> bool:
        """Whether a token can be judged."""
        return bool(self._keys) and self._age() < limits.KEYS_KEPT_SECONDS

    async def get(self, key_id: str | None) -> SigningKey:
        """The key of a token. Raises UnknownKey."""
        if key_id is None:
            raise UnknownKey
        if not self._signs(key_id):
            await self._ask_for(key_id)
        if not self._signs(key_id):
            raise UnknownKey
        return self._keys[key_id]

    async def keep_fresh(self) -> None:
        """Fetches them as they grow old, until cancelled."""
        while True:
            await self.refresh()
            pause = limits.KEYS_SECONDS if self._age() < 1.0 else limits.KEYS_PAUSE_SECONDS
            await self._clock.sleep(pause)

    async def refresh(self) -> None:
        """Fetches them, unless that was tried a moment ago."""
        async with self._lock:
            if self._clock.now() - self._tried_at >= limits.KEYS_PAUSE_SECONDS:
                await self._refresh()

    def _signs(self, key_id: str) -> bool:
        return key_id in self._keys and self.good

    async def _ask_for(self, key_id: str) -> None:
        """Fetches them for a key that we do not know, which Teams may have begun to use just now;
        not again and again, because strangers can ask for it, too."""
        async with self._lock:
            now = self._clock.now()
            if self._signs(key_id) or now - self._asked_at < limits.KEYS_PAUSE_SECONDS:
                return
            self._asked_at = now
            await self._refresh()

    async def _refresh(self) -> None:
        self._tried_at = self._clock.now()
        try:
            self._keys = await self._fetch()
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            log.warning("Teams: the signing keys were not fetched: %s", type(error).__name__)
            return
        self._fetched_at = self._clock.now()

    async def _fetch(self) -> dict[str, SigningKey]:
        async with aiohttp.ClientSession(timeout=_FETCH, trust_env=True) as session:
            metadata = await _json(session, self._url)
            told = await _json(session, str(metadata.get("jwks_uri", "")))
        keys = told.get("keys")
        if not isinstance(keys, list):
            raise ValueError("no keys")
        read = [_key(one) for one in keys if isinstance(one, Mapping)]
        found = dict(one for one in read if one is not None)
        if not found:
            raise ValueError("no keys")
        return found

    def _age(self) -> float:
        return self._clock.now() - self._fetched_at


async def _json(session: aiohttp.ClientSession, url: str) -> Mapping[str, Any]:
    async with session.get(url) as answer:
        answer.raise_for_status()
        told = await answer.json(content_type=None)
    if not isinstance(told, Mapping):
        raise ValueError("no object")
    return told


def _key(told: Mapping[str, Any]) -> tuple[str, SigningKey] | None:
    """A key by its id; None for one that tokens cannot be signed with."""
    endorsed = told.get("endorsements")
    try:
        key = jwt.PyJWK(dict(told), algorithm="RS256")
    except jwt.PyJWTError:
        return None
    if not isinstance(told.get("kid"), str) or told.get("kty") != "RSA":
        return None
    names = [str(one) for one in endorsed] if isinstance(endorsed, list) else []
    return str(told["kid"]), SigningKey(key.key, names)
