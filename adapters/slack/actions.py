"""What can be pressed: an action_id is the prefix and what it does, the value is a nonce."""

from typing import Final

ACTION: Final = "interlock."

SHOW: Final = "show"  # all of a card or of one call of a group
CHOOSE: Final = "remember_as"  # of what an approval stands for
NEW_RULE: Final = "rule"
REVOKE: Final = "revoke"  # a standing rule; its value is the rule's id
SELECT: Final = "select"  # some calls of a group; nothing happens until a button is pressed
APPROVE_SELECTED: Final = "approve_selected"
DECLINE_SELECTED: Final = "decline_selected"
APPROVE_ALL: Final = "approve_all"
DECLINE_ALL: Final = "decline_all"
AGAIN: Final = "again"  # what expired on a card is asked for once more
