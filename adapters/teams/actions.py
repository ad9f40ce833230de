"""What can be pressed: the verb of a button, which says what it does. Its data has a nonce beside
it, and nothing else of a button is believed."""

from typing import Final

APPROVE: Final = "approve"
REMEMBER: Final = "remember"  # approve, for the thread
DECLINE: Final = "decline"
NOTE: Final = "note"  # decline with what stands in the input of this name
ANSWER: Final = "answer"
FINISHED: Final = "finished"
AGAIN: Final = "again"  # what expired on a card is asked for once more
CANCEL: Final = "cancel"  # a task

SHOW: Final = "show"  # all of a card or of one call of a group, page by page
BACK: Final = "back"  # from what only the clicker sees to what stands there

EDIT: Final = "edit"  # opens the form of an approval with other arguments
EDITED: Final = "edited"  # and sends it
CHOOSE: Final = "remember_as"  # opens the form of what an approval stands for
CHOOSE_PREVIEW: Final = "remember_preview"  # shows what it means
CHOOSE_SAVE: Final = "remember_save"  # and approves with it
NEW_RULE: Final = "rule"  # opens the form of a rule by itself
RULE_PREVIEW: Final = "rule_preview"
RULE_SAVE: Final = "rule_save"
REVOKE: Final = "revoke"  # asks whether to end a standing rule; its nonce is the rule's id
REVOKE_SURE: Final = "revoke_sure"  # and ends it

APPROVE_SELECTED: Final = "approve_selected"
DECLINE_SELECTED: Final = "decline_selected"
APPROVE_ALL: Final = "approve_all"  # asks whether to
DECLINE_ALL: Final = "decline_all"
APPROVE_ALL_SURE: Final = "approve_all_sure"  # and does it
DECLINE_ALL_SURE: Final = "decline_all_sure"
SELECT: Final = "select"  # the input of the selected calls

HOME: Final = "home"  # a page of what waits for a person
OPEN: Final = "open"  # the card of a question on that list

LOOKS: Final = frozenset(  # that decide nothing
    {
        *(SHOW, BACK, EDIT, CHOOSE, CHOOSE_PREVIEW, NEW_RULE, RULE_PREVIEW, REVOKE),
        *(APPROVE_ALL, DECLINE_ALL, HOME, OPEN),
    }
)
