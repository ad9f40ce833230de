"""What Slack answers when a whole channel, or the whole workspace, takes nothing from us."""

from collections.abc import Mapping
from typing import Final

_ARCHIVED: Final = "its channel is archived, so unarchive it or ask me again in another one"
_REMOVED: Final = (
    "I am not in its channel any more, or the channel is gone, so invite me again or ask me again "
    "in another one"
)
_RESTRICTED: Final = (
    "I may not post in its channel, so have an admin allow it or ask me again in another one"
)
_NOT_ADDED: Final = (
    "I was not added to this workspace, so ask an admin of your organisation to add me to it"
)
_THREAD: Final = "it was deleted or locked, so mention me in a new one"

UNREACHABLE: Final[Mapping[str, str]] = {
    "is_archived": _ARCHIVED,
    "is_inactive": _ARCHIVED,  # the word of chat.update for it
    "not_in_channel": _REMOVED,
    "channel_not_found": _REMOVED,  # also of a private channel that we are not in
    "restricted_action": _RESTRICTED,
    "restricted_action_read_only_channel": _RESTRICTED,
    "restricted_action_non_threadable_channel": _RESTRICTED,
    "team_access_not_granted": _NOT_ADDED,
    "thread_not_found": _THREAD,
    "cannot_reply_to_message": _THREAD,
    "restricted_action_thread_locked": _THREAD,
}
"""Error codes, and what the requester is told (bot.surface.DeliveryError.unreachable)."""

WRONG_TOKEN: Final = frozenset(
    {"invalid_auth", "not_authed", "account_inactive", "token_revoked", "token_expired"}
)
"""Error codes of a token that is good for nothing."""
