"""Who signs: a key of our own that a local JWKS tells; and Entra, which gives the bot tokens."""

from __future__ import annotations

import functools
import json
import time
from typing import Any, ClassVar, Final

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa

APP: Final = "11111111-2222-3333-4444-555555555555"
ISSUER: Final = "https://api.botframework.com"
KEY: Final = "key-1"


@functools.cache
def private(name: str = KEY) -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def jwk(name: str, endorsements: tuple[str, ...] = ("msteams",)) -> dict[str, Any]:
    told = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(private(name).public_key()))
    return {**told, "kid": name, "use": "sig", "endorsements": list(endorsements)}


def signed(
    service_url: str, *, key: str | None = KEY, signer: str | None = None, **claims: Any
) -> str:
    """A token as the Bot Framework signs it. `key`: the id that it names; `signer`: whose key it
    really is. A claim that is None is left out."""
    now = time.time()
    whole = {
        "iss": ISSUER,
        "aud": APP,
        "nbf": now - 60,
        "exp": now + 3_600,
        "serviceurl": service_url,
    } | claims
    given = {name: value for name, value in whole.items() if value is not None}
    headers = {} if key is None else {"kid": key}
    return jwt.encode(given, private(signer or key or KEY), algorithm="RS256", headers=headers)


class Entra:
    """Stands where the SDK makes its MSAL application; gives tokens and counts them."""

    given: ClassVar[list[str]] = []
    made: ClassVar[list[tuple[Any, ...]]] = []
    refusing: ClassVar[bool] = False

    def __init__(self, client_id: str, client_credential: str, authority: str) -> None:
        Entra.made.append((client_id, client_credential, authority))
        self._kept: dict[str, str] | None = None

    def acquire_token_silent(self, scopes: list[str], account: object) -> dict[str, str] | None:
        return self._kept

    def acquire_token_for_client(self, scopes: list[str]) -> dict[str, str]:
        if Entra.refusing:
            return {"error": "invalid_client", "error_description": "AADSTS7000215 s3cret"}
        Entra.given.append(f"token-{len(Entra.given)}")
        self._kept = {"access_token": Entra.given[-1], "scope": scopes[0]}
        return self._kept

    @classmethod
    def forget(cls) -> None:
        cls.given, cls.made, cls.refusing = [], [], False
