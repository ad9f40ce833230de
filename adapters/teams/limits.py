"""Every Teams limit the adapter uses (platforms/teams.md 2.4).

Ours are lower than Microsoft's where older documents name a lower one: a message is refused beyond
100 KB of UTF-16 today, and was beyond 28 KB."""

from typing import Final

CARD_BYTES: Final = 25_000  # of a card as JSON in UTF-8
TEXT_BYTES: Final = 20_000  # of a message's text in UTF-16
PAGE_BYTES: Final = 17_000  # of what is shown on a page besides its buttons
SUMMARY: Final = 300  # characters of what a notification shows
TITLE: Final = 300
CHOICE: Final = 200
NAME: Final = 200  # what is kept of the name of a person; Entra gives them up to 256
NOTE: Final = 2_000  # what is taken of a note
CARRIED_BYTES: Final = 8_000  # of what a button brings back of the step before
INPUT: Final = 4_000  # what a text input takes

BODY_BYTES: Final = 256 * 1024  # of a request that is read; Teams' own stay under 100 KB

CALL_SECONDS: Final = 15.0  # of one call of the connector
CALL_MOST_SECONDS: Final = 40.0  # of it with the token that it needs, however slow they are
MEMBER_SECONDS: Final = 3.0  # to look a person up while Teams waits
INVOKE_SECONDS: Final = 3.0  # of the ten that Teams waits for the answer to a click
PEOPLE_SECONDS: Final = 60.0  # how long a looked-up person is believed
ROSTER_PAGE: Final = 500  # people of one page of a roster
NAMES_SECONDS: Final = 3_600.0  # how long a name that is only shown is kept
NOTED_SECONDS: Final = 3_600.0  # after which a conversation that goes on is noted again
KEYS_SECONDS: Final = 3_600.0  # after which the signing keys are fetched again
KEYS_KEPT_SECONDS: Final = 86_400.0  # how long they count when they cannot be
KEYS_PAUSE_SECONDS: Final = 60.0  # between two fetches for unknown ones, whatever a stranger sends
LEEWAY_SECONDS: Final = 300.0  # clocks may differ by
SLOW_SECONDS: Final = 8.0  # an answer after which Teams may have given up and sends again
AGAIN_SECONDS: Final = 120.0  # how long such a repeat is expected

STREAM: Final = 9_000  # characters that a stream shows
STREAM_SECONDS: Final = 110.0  # of the two minutes that one may take
LIVE_SECONDS: Final = 2.0  # between two edits of a text that grows; faster ones flicker
TYPING_SECONDS: Final = 4.0  # how long "is typing" is seen
TYPING_TIMES: Final = 15  # it is shown again, at most
REPEAT_SECONDS: Final = 1.0  # before the one repeat of what may be repeated
QUIET_SECONDS: Final = 5.0  # to wait when Teams says "too many" and not how long
