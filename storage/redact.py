"""Secrets of known shapes, masked wherever text is shown, logged or kept for an auditor.

The mark says what was there, how long it was and a fingerprint by which two can be told apart; what
runs keeps the whole value (row B59)."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any, Final

# Each shape is one that its issuer documents; the name is what a person reads.
_SHAPES: Final = (
    ("private key", r"-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*KEY-----|\Z)"),
    ("Slack token", r"\bxox[abceoprs]-[\w-]{8,}|\bxoxe\.[\w.-]{8,}|\bxapp-[\w-]{8,}"),
    ("Slack webhook", r"https://hooks\.slack\.com/(?:services|workflows|triggers)/[\w/-]+"),
    ("GitHub token", r"\bgh[opsur]_[A-Za-z0-9]{20,}|\bgithub_pat_[A-Za-z0-9_]{20,}"),
    ("GitLab token", r"\bgl(?:pat|dt|rt|ptt|cbt|soat)-[\w-]{20,}"),
    ("AWS key id", r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"),
    ("AWS secret key", r"(?i:aws_?secret_?(?:access_?)?key)\W{1,5}[A-Za-z0-9/+=]{40}(?![\w/+=])"),
    ("Google key", r"\bAIza[\w-]{35}|\bya29\.[\w-]{20,}"),
    ("API key", r"\bsk-(?:ant-|proj-|svcacct-|or-v1-)?[A-Za-z0-9_-]{16,}"),
    ("Stripe key", r"\b[rs]k_(?:live|test)_[A-Za-z0-9]{16,}|\bwhsec_[A-Za-z0-9+/=]{16,}"),
    ("npm token", r"\bnpm_[A-Za-z0-9]{36}\b"),
    ("PyPI token", r"\bpypi-[A-Za-z0-9_-]{50,}"),
    ("Docker token", r"\bdckr_(?:pat|oat)_[\w-]{20,}"),
    ("SendGrid key", r"\bSG\.[\w-]{16,}\.[\w-]{16,}"),
    ("Hugging Face token", r"\bhf_[A-Za-z0-9]{30,}"),
    ("Azure signature", r"(?<=[?&]sig=)[A-Za-z0-9%/+=]{30,}"),
    ("Azure account key", r"(?<=AccountKey=)[A-Za-z0-9/+=]{40,}"),
    ("JSON web token", r"\beyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]*"),
    ("bearer token", r"(?i:(?<=bearer ))[\w.~+/-]{8,}=*"),
    ("password", r"(?<=://)[^/\s:@\[\]]*:[^/\s@\[\]]+(?=@)"),
)
_ANY: Final = re.compile("|".join(f"({shape})" for _, shape in _SHAPES))
_NAMES: Final = tuple(name for name, _ in _SHAPES)


def mask(text: str) -> str:
    """The text with every secret of a known shape replaced by a mark such as
    `[GitHub token hidden: 40 characters, #1f2e3d4c]`. Masking twice changes nothing."""
    return _ANY.sub(_mark, text)


def mask_all(value: Any) -> Any:
    """A JSON value with every text in it masked, the names of fields too."""
    match value:
        case str():
            return mask(value)
        case Mapping():
            return {mask_all(key): mask_all(one) for key, one in value.items()}
        case list() | tuple():
            return [mask_all(one) for one in value]
        case _:
            return value


def _mark(found: re.Match[str]) -> str:
    secret = found.group()
    print_of_it = hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    name = _NAMES[(found.lastindex or 1) - 1]
    return f"[{name} hidden: {len(secret):,} characters, #{print_of_it}]"
