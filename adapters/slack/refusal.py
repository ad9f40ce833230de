"""What Slack said when it refused a call.

slack_sdk 3.48 gives three shapes of `SlackApiError.response`: its own with a dict, its own with the
text of a 5xx page (its `get` then fails), and aiohttp's when the body was no JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import aiohttp
from slack_sdk.errors import SlackApiError, SlackClientError

FAILURES: Final = (SlackClientError, aiohttp.ClientError, TimeoutError, OSError)
"""What a call of slack_sdk raises when it did not succeed."""

NOT_OFFERED: Final = frozenset(  # to this app or in this workspace: asking again is of no use
    {
        "access_denied",
        "feature_disabled",
        "feature_not_enabled",
        "method_deprecated",
        "missing_scope",
        "no_permission",
        "not_allowed",
        "not_allowed_token_type",
        "unknown_method",
    }
)
_UNSURE: Final = frozenset({"internal_error", "fatal_error", "request_timeout"})


def status_of(error: SlackApiError) -> int:
    """The HTTP status."""
    response: Any = error.response
    return int(getattr(response, "status_code", 0) or getattr(response, "status", 0) or 0)


def code_of(error: SlackApiError) -> str:
    """Slack's error code, or the status when it gave none."""
    code = _data(error).get("error")
    return code if isinstance(code, str) else f"status {status_of(error)}"


def unsure(error: SlackApiError) -> bool:
    """Whether Slack may have done it nevertheless."""
    return status_of(error) >= 500 or code_of(error) in _UNSURE


def pointers_of(error: SlackApiError) -> list[str]:
    """Where Slack found fault with the content, as it puts it."""
    metadata = _data(error).get("response_metadata")
    found = metadata.get("messages") if isinstance(metadata, Mapping) else None
    return [str(one) for one in found] if isinstance(found, list) else []


def retry_after(error: SlackApiError) -> float | None:
    """Seconds to wait, when that is what Slack asks for."""
    limited = code_of(error) in ("ratelimited", "rate_limited", "message_limit_exceeded")
    if status_of(error) != 429 and not limited:
        return None
    headers: Any = getattr(error.response, "headers", {})
    try:
        return max(0.0, float(headers.get("Retry-After") or headers.get("retry-after")))
    except (TypeError, ValueError):
        return 30.0


def _data(error: SlackApiError) -> Mapping[str, Any]:
    data = getattr(error.response, "data", None)
    return data if isinstance(data, Mapping) else {}
