"""Secrets of known shapes, masked wherever text is shown, logged or kept for an auditor.

The mark says what was there, how long it was and a fingerprint by which two can be told apart; what
runs keeps the whole value (row B59). A mark hides what it stands for, so that nobody approves by it
alone: who decides can read the whole (bot.card.Card.exact)."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final


@dataclass(frozen=True, slots=True)
class _Shape:
    """A shape that its issuer documents. `hints`: one of them stands in every text that has it, and
    is found much faster. None may be begun anew inside what it has read before, so that masking
    takes linear time, whatever comes."""

    name: str
    hints: tuple[str, ...]
    pattern: str


_SHAPES: Final = (
    _Shape(
        "private key",
        ("-----BEGIN ",),
        r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----[A-Za-z0-9+/=:,\s]+"
        r"(?:-----END [A-Z ]{0,30}KEY-----|\Z)",
    ),
    _Shape(
        "Slack token",
        ("xox", "xapp-"),
        r"\bxox[abceoprs]-[\w-]{8,}|\bxoxe\.[\w.-]{8,}|\bxapp-[\w-]{8,}",
    ),
    _Shape(
        "Slack webhook",
        ("hooks.slack.com",),
        r"(?:(?<=hooks\.slack\.com/services/)|(?<=hooks\.slack\.com/triggers/))[\w/-]{8,}",
    ),
    _Shape(
        "GitHub token",
        ("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"),
        r"\bgh[opsur]_[A-Za-z0-9]{20,}|\bgithub_pat_[A-Za-z0-9_]{20,}",
    ),
    _Shape(
        "GitLab token",
        ("glpat-", "gldt-", "glrt-", "glptt-", "glcbt-", "glsoat-"),
        r"\bgl(?:pat|dt|rt|ptt|cbt|soat)-[\w-]{20,}",
    ),
    _Shape("AWS key id", ("AKIA", "ASIA"), r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"),
    _Shape(
        "AWS secret key",
        ("aws", "AWS", "Aws"),
        r"(?i:aws_?secret_?(?:access_?)?key)\W{1,5}[A-Za-z0-9/+=]{40}(?![\w/+=])",
    ),
    _Shape("Google key", ("AIza", "ya29."), r"\bAIza[\w-]{35}|\bya29\.[\w-]{20,}"),
    _Shape("API key", ("sk-",), r"\bsk-(?:ant-|proj-|svcacct-|or-v1-)?[A-Za-z0-9_-]{16,}"),
    _Shape(
        "Stripe key",
        ("_live_", "_test_", "whsec_"),
        r"\b[rs]k_(?:live|test)_[A-Za-z0-9]{16,}|\bwhsec_[A-Za-z0-9+/=]{16,}",
    ),
    _Shape("npm token", ("npm_",), r"\bnpm_[A-Za-z0-9]{36}\b"),
    _Shape("PyPI token", ("pypi-",), r"\bpypi-[A-Za-z0-9_-]{50,}"),
    _Shape("Docker token", ("dckr_",), r"\bdckr_(?:pat|oat)_[\w-]{20,}"),
    _Shape("SendGrid key", ("SG.",), r"\bSG\.[\w-]{16,}\.[\w-]{16,}"),
    _Shape("Hugging Face token", ("hf_",), r"\bhf_[A-Za-z0-9]{30,}"),
    _Shape("Azure signature", ("sig=",), r"(?<=[?&]sig=)[A-Za-z0-9%/+=]{30,}"),
    _Shape("Azure account key", ("AccountKey=",), r"(?<=AccountKey=)[A-Za-z0-9/+=]{40,}"),
    _Shape("JSON web token", ("eyJ",), r"(?<![\w-])eyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]*"),
    _Shape("bearer token", ("earer ", "EARER "), r"(?i:(?<=bearer ))[\w.~+/-]{8,}=*"),
    _Shape("password", ("://",), r"(?<=://)[\w.~%+-]{0,100}:[\w.~%!*+,;=-]{1,200}(?=@)"),
)
_COMPILED: Final = tuple((shape, re.compile(shape.pattern)) for shape in _SHAPES)


def mask(text: str) -> str:
    """The text with every secret of a known shape replaced by a mark such as
    `[GitHub token hidden: 40 characters, #1f2e3d4c]`. Masking twice changes nothing."""
    for shape, pattern in _COMPILED:
        if any(hint in text for hint in shape.hints):
            text = pattern.sub(partial(_mark, shape.name), text)
    return text


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


def _mark(name: str, found: re.Match[str]) -> str:
    secret = found.group()
    print_of_it = hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"[{name} hidden: {len(secret):,} characters, #{print_of_it}]"
