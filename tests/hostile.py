"""Hostile texts, and what a platform would do with a message that was not made inert.

Used for every field of everything that is drawn: a text of a model, a tool or a person must be
shown as it is, and do nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from bot.confusable import imitations
from bot.text import is_unseen
from tests.fakes.slack.pings import _TOKEN

TEXTS: Final = (
    "<!channel> <!here> <!everyone>",
    "<@U_BEN> <#C_OPS> <!subteam^S1> <!date^1^{date}^https://evil.test|now>",
    "<https://evil.test|Approve in Slack>",
    "[Approve](https://evil.test) ![x](https://evil.test/p.png)",
    "*bold* _em_ ~gone~ `code` ```fence",
    "```\n<!channel>\n``` out <!here>",
    "safe\u202etxt.exe \u2066a\u2069 \u061cb",
    "de\u200blete\u200d_\ufeffall\u00ad\u2060",
    "&lt;!channel&gt; &amp;lt;!here&amp;gt;",
    ":white_check_mark: Approved :tada:",
    "\u3164\u115f\u2800 blank",
    "a\u0007c\u001b[31mred\u2028line\u2029para",
    "> quote\n# heading\n- list\n| a | b |\n|---|---|\n| <!here> | c |",
    '</blocks>{"type":"button"}<script>alert(1)</script>',
    "gооgle.com pаypal",
    "аррӏе signs in at https://аррӏе.com/ and https://xn--80ak6aa92e.com/x",
    "open https://good.test@evil.test/ or раураӏ-login.test, ΙΡ 10.0.0.1",
    "rm∕etc evil․test a։b googاe Տуѕtеm ԛuit ɡoogle СО2",
    "x" * 3_500,
    " ",
)
_SHOWN: Final = ("text", "alt_text", "title", "fallback", "markdown_text")
EMOJI_STYLE: Final = "\ufe0f"
OUR_OWN: Final = "\u200b"  # keeps backticks of a text from becoming a fence; in mrkdwn alone


def read_back(shown: str) -> str:
    """What stands behind the escapes of a text that was revealed."""
    return re.sub("⟨U\\+([0-9A-F]{4,6})⟩", lambda found: chr(int(found[1], 16)), shown)


def faults(value: Any, *, mentions: frozenset[str] = frozenset(), links: bool = False) -> list[str]:
    """What of a message, card, modal or home would act or hide. `mentions`: people that may be
    mentioned; `links`: whether http and https links may stand in it."""
    return [fault for kind, text in texts(value) for fault in _faults(kind, text, mentions, links)]


def texts(value: Any) -> Iterator[tuple[str, str]]:
    """Every text in it with the kind of object that it stands in."""
    if isinstance(value, list | tuple):
        for one in value:
            yield from texts(one)
    if not isinstance(value, dict):
        return
    kind = str(value.get("type", ""))
    for key, inner in value.items():
        if isinstance(inner, str) and key in (
            "text",
            "alt_text",
            "title",
            "fallback",
            "markdown_text",
        ):
            top = kind in ("", "message") or key == "markdown_text"
            yield ("mrkdwn" if top else kind), inner
        else:
            yield from texts(inner)


def _faults(kind: str, text: str, mentions: frozenset[str], links: bool) -> Iterator[str]:
    unseen = [
        char
        for before, char in zip(f" {text}", text, strict=False)
        if is_unseen(char)
        and char not in "\n\t"
        and not (char in (EMOJI_STYLE, "\u200d") and ord(before) > 0x2000)
        and not (char == OUR_OWN and "`" in text and kind in ("mrkdwn", "markdown"))
    ]
    if unseen:
        yield f"{kind}: unseen {unseen[0]!r} in {text[:60]!r}"
    if imitating := imitations(text):
        yield f"{kind}: {text[min(imitating)]!r} imitates in {text[:60]!r}"
    if kind not in ("mrkdwn", "markdown"):
        return
    for found in _TOKEN.finditer(text):
        token = found.group()
        mention = re.fullmatch(r"<@([UW]\w+)>", token)
        if mention and mention[1] in mentions:
            continue
        if links and token.startswith(("<http://", "<https://")):
            continue
        yield f"{kind}: {token} in {text[:60]!r}"
