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
        r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY(?: BLOCK)?-----(?:[A-Za-z0-9+/=:,.\s]|\\[nrt])+"
        r"(?:-----END [A-Z ]{0,30}KEY(?: BLOCK)?-----|\Z)",
    ),
    _Shape("age key", ("AGE-SECRET-KEY-",), r"\bAGE-SECRET-KEY-1[A-Z0-9]{50,}"),
    _Shape(
        "Slack token",
        ("xox", "xapp-"),
        r"\bxox[abcdeoprs]-[\w%-]{8,}|\bxoxe\.[\w.-]{8,}|\bxapp-[\w-]{8,}",
    ),
    _Shape(
        "Slack webhook",
        ("hooks.slack.com",),
        r"(?:(?<=hooks\.slack\.com/services/)|(?<=hooks\.slack\.com/triggers/)"
        r"|(?<=hooks\.slack\.com/workflows/))[\w/-]{8,}",
    ),
    _Shape("Discord webhook", ("/api/webhooks/",), r"(?<=/api/webhooks/)\d{15,22}/[\w-]{40,}"),
    _Shape(
        "GitHub token",
        ("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"),
        r"\bgh[opsur]_[A-Za-z0-9]{20,}|\bgithub_pat_[A-Za-z0-9_]{20,}",
    ),
    _Shape(
        "GitLab token",
        ("glpat-", "gldt-", "glrt-", "glptt-", "glcbt-", "glsoat-", "glft-", "glagent-", "gloas-"),
        r"\bgl(?:pat|dt|rt|ptt|cbt|soat|ft|agent|oas)-[\w.-]{20,}",
    ),
    _Shape("AWS key id", ("AKIA", "ASIA"), r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"),
    _Shape(
        "AWS secret key",
        ("ecret", "ECRET"),
        r"(?i:aws_?secret_?(?:access_?)?key|\bsecret_?access_?key)\W{1,5}"
        r"(?P<secret>[A-Za-z0-9/+=]{40})(?![\w/+=])",
    ),
    _Shape(
        "Google key",
        ("AIza", "ya29.", "GOCSPX-"),
        r"\bAIza[\w-]{35}|\bya29\.[\w-]{20,}|\bGOCSPX-[\w-]{20,}",
    ),
    _Shape("API key", ("sk-",), r"\bsk-(?:ant-|proj-|svcacct-|or-v1-)?[A-Za-z0-9_-]{16,}"),
    _Shape("xAI key", ("xai-",), r"\bxai-[A-Za-z0-9]{40,}"),
    _Shape("Groq key", ("gsk_",), r"\bgsk_[A-Za-z0-9]{40,}"),
    _Shape("Perplexity key", ("pplx-",), r"\bpplx-[A-Za-z0-9]{40,}"),
    _Shape("Replicate token", ("r8_",), r"\br8_[A-Za-z0-9]{30,}"),
    _Shape(
        "Stripe key",
        ("_live_", "_test_", "whsec_"),
        r"\b[rs]k_(?:live|test)_[A-Za-z0-9]{16,}|\bwhsec_[A-Za-z0-9+/=]{16,}",
    ),
    _Shape("npm token", ("npm_",), r"\bnpm_[A-Za-z0-9]{36}\b"),
    _Shape("PyPI token", ("pypi-",), r"\bpypi-[A-Za-z0-9_-]{50,}"),
    _Shape("RubyGems key", ("rubygems_",), r"\brubygems_[a-f0-9]{40,}"),
    _Shape("Docker token", ("dckr_",), r"\bdckr_(?:pat|oat)_[\w-]{20,}"),
    _Shape("SendGrid key", ("SG.",), r"\bSG\.[\w-]{16,}\.[\w-]{16,}"),
    _Shape("Twilio key", ("SK",), r"\bSK[0-9a-f]{32}\b"),
    _Shape("Telegram token", (":AA",), r"\b\d{8,12}:AA[\w-]{32,}"),
    _Shape("Hugging Face token", ("hf_",), r"\bhf_[A-Za-z0-9]{30,}"),
    _Shape(
        "DigitalOcean token",
        ("dop_v1_", "doo_v1_", "dor_v1_"),
        r"\bdo[opr]_v1_[a-f0-9]{40,}",
    ),
    _Shape("Vault token", ("hvs.", "hvb.", "hvr."), r"\bhv[sbr]\.[\w-]{24,}"),
    _Shape("Terraform token", (".atlasv1.",), r"\b[A-Za-z0-9]{14}\.atlasv1\.[\w-]{40,}"),
    _Shape("Databricks token", ("dapi",), r"\bdapi[a-f0-9]{32}(?:-\d)?\b"),
    _Shape("Grafana token", ("glsa_", "glc_"), r"\bgl(?:sa|c)_[A-Za-z0-9_+/=]{32,}"),
    _Shape("Sentry token", ("sntrys_", "sntryu_"), r"\bsntry[su]_[\w+/=]{40,}"),
    _Shape("New Relic key", ("NRAK-",), r"\bNRAK-[A-Z0-9]{27}\b"),
    _Shape("Atlassian token", ("ATATT3", "ATCTT3"), r"\bAT[AC]TT3[\w=-]{50,}"),
    _Shape("Linear key", ("lin_api_",), r"\blin_api_[A-Za-z0-9]{32,}"),
    _Shape("Notion token", ("ntn_",), r"\bntn_[A-Za-z0-9]{40,}"),
    _Shape("Figma token", ("figd_",), r"\bfigd_[\w-]{36,}"),
    _Shape(
        "Shopify token",
        ("shpat_", "shpca_", "shppa_", "shpss_"),
        r"\bshp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}\b",
    ),
    _Shape("Postman key", ("PMAK-",), r"\bPMAK-[a-f0-9]{24}-[a-f0-9]{34}\b"),
    _Shape("Tailscale key", ("tskey-",), r"\btskey-[a-z]{1,20}-[\w-]{16,}"),
    _Shape("1Password token", ("ops_eyJ",), r"\bops_eyJ[\w=-]{40,}"),
    _Shape("Azure client secret", ("Q~",), r"(?<![\w.~-])[\w.~-]{3}\dQ~[\w.~-]{31,34}(?![\w.~-])"),
    _Shape("Azure signature", ("sig=",), r"(?<=[?&]sig=)[A-Za-z0-9%/+=]{30,}"),
    _Shape(
        "Azure account key",
        ("AccountKey=", "SharedAccessKey="),
        r"(?:(?<=AccountKey=)|(?<=SharedAccessKey=))[A-Za-z0-9/+=]{40,}",
    ),
    _Shape("JSON web token", ("eyJ",), r"(?<![\w-])eyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]*"),
    _Shape("bearer token", ("earer ", "EARER "), r"(?i:(?<=bearer ))[\w.~+/-]{8,}=*"),
    _Shape(
        "basic credentials",
        ("asic ", "ASIC "),
        r"(?i:authorization)\W{1,5}(?i:basic) (?P<secret>[A-Za-z0-9+/]{6,}={0,2})",
    ),
    _Shape("password", ("://",), r"(?<=://)[\w.~%+-]{0,100}:[\w.~%!*+,;=-]{1,200}(?=@)"),
    _Shape(
        "password",
        ("assword=", "ASSWORD=", "wd="),
        r"(?:(?<=[Pp]assword=)|(?<=PASSWORD=)|(?<=\b[Pp]wd=))"
        r"(?!/)[\w.~%!*+@#^?:/=-]{4,500}(?![\w.~%!*+@#^?:/=$(`{-])",
    ),
)
_COMPILED: Final = tuple((shape, re.compile(shape.pattern)) for shape in _SHAPES)


def mask(text: str) -> str:
    """The text with every secret of a known shape replaced by a mark such as
    `[GitHub token hidden: 40 characters, #1f2e3d4c]`. Masking twice changes nothing."""
    for shape, pattern in _COMPILED:
        if any(hint in text for hint in shape.hints):
            text = pattern.sub(partial(_mark, shape.name), text)
    return text


def mask_named(name: str, text: str) -> str:
    """The text of a field masked; its name may be what tells that it is a secret."""
    shown = mask(text)
    if shown != text or mask(name) != name:
        return shown
    both = mask(f"{name}={text}")
    return both.removeprefix(f"{name}=") if both.startswith(f"{name}=") else shown


def mask_all(value: Any) -> Any:
    """A JSON value with every text in it masked, the names of fields too."""
    match value:
        case str():
            return mask(value)
        case Mapping():
            return {mask_all(key): mask_field(key, one) for key, one in value.items()}
        case list() | tuple():
            return [mask_all(one) for one in value]
        case _:
            return value


def mask_field(name: Any, value: Any) -> Any:
    """The JSON value of a field masked: the name tells also of each text in a list."""
    match value:
        case str() if isinstance(name, str):
            return mask_named(name, value)
        case list() | tuple():
            return [mask_field(name, one) for one in value]
        case _:
            return mask_all(value)


def _mark(name: str, found: re.Match[str]) -> str:
    """The mark; of a pattern with a group `secret` only that is hidden."""
    whole, secret = found.group(), found.groupdict().get("secret") or found.group()
    print_of_it = hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    mark = f"[{name} hidden: {len(secret):,} characters, #{print_of_it}]"
    return f"{whole[: len(whole) - len(secret)]}{mark}"
