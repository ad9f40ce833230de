"""Every Slack limit the adapter uses, in characters unless it says otherwise.

Ours are lower than Slack's where Slack's own number is not the one it refuses at (a whole message
fails at about 13,200 characters of blocks, a `text` at about 4,000), or where escaping may add."""

from typing import Final

MESSAGE_BLOCKS: Final = 50
MESSAGE_TEXT: Final = 10_000  # all text of one message's blocks
FALLBACK_TEXT: Final = 3_000  # the top-level `text`, what a notification shows
SECTION: Final = 2_900  # one section, or one rich text block
HEADER: Final = 150
BUTTON: Final = 75
BUTTON_URL: Final = 3_000
LINK: Final = 2_000  # a whole `<url|label>` token of ours

METADATA: Final = 3_000  # what a view carries for us
VIEW_BLOCKS: Final = 100
VIEW_BYTES: Final = 240_000
PAGE_TEXT: Final = 12_000  # of one page of a card: at worst twelve bytes a character
PAGE_BLOCKS: Final = 90
VIEW_TEXT: Final = 60_000  # what a modal repeats of a long message before its inputs
LABEL: Final = 2_000
HINT: Final = 2_000
OPTION: Final = 75  # the text of an option, and its description
RADIO_OPTIONS: Final = 10  # radio buttons and checkboxes
MENU_OPTIONS: Final = 100  # a menu without groups, and each group
GROUPS: Final = 100
INPUT: Final = 3_000  # what a text input takes

ACK_SECONDS: Final = 2.0  # of the three that Slack waits for an answer
LOOK_SECONDS: Final = 0.4  # of the three that a trigger lives
PEOPLE_SECONDS: Final = 60.0  # how long a looked-up person is believed
