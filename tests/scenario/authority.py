"""Who may do what by which way: every way into the product, every kind of person, every result.

A way is a line of `TABLE`, a kind of person a column. To add a way: its line here, a line in
`authority_ways.WAYS` of what a person does (`button`, `sent`, `says` make the most of them), and
its names in `ENTRIES`, which a test holds against the code.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from bot.approvers import ANYONE, REQUESTER, Policies, Policy
from bot.rules import Comparison, Condition
from tests.scenario.slack_product import ANA, BEN, CYN

# The people, each of whom meets a question of the policy that their column is about


@dataclass(frozen=True)
class Kind:
    """A kind of person: who on Slack, and whose question they go at (`POLICIES`)."""

    user: str
    policy: str
    about: str


KINDS: Final = {
    "be": Kind(BEN, "named", "a named approver"),
    "gm": Kind("U_GRO", "group", "a member of an approving user group"),
    "cm": Kind("U_CHA", "channel", "a member of an approving channel"),
    "an": Kind(CYN, "anyone", "anyone but the requester"),
    "al": Kind("U_ALI", "named", "another account of a named approver"),
    "so": Kind(ANA, "own", "the requester, where approvers may approve their own"),
    "rr": Kind(ANA, "requester", "the requester, where requesters approve"),
    "gn": Kind("U_NGU", "guests", "a guest whom the policy names"),
    "en": Kind("U_NEX", "guests", "somebody of another organisation whom the policy names"),
    "rq": Kind(ANA, "named", "the requester, who is no approver"),
    "sn": Kind(ANA, "both", "an approver who is the requester"),
    "ra": Kind(ANA, "anyone", "the requester, where anyone else approves"),
    "li": Kind("U_LIN", "crowd", "an approver who is another account of the requester"),
    "no": Kind(CYN, "named", "a colleague who is nobody"),
    "ad": Kind("U_ADM", "named", "an admin of the workspace who is nobody"),
    "ot": Kind("U_DAN", "named", "an approver of another tool"),
    "rm": Kind("U_REM", "crowd", "an approver who was removed since the card was posted"),
    "lf": Kind("U_LEF", "group", "a member who left the group since the card was posted"),
    "g1": Kind("U_GUE", "group", "a guest in an approving group"),
    "g2": Kind("U_SCG", "anyone", "a guest of a single channel"),
    "ex": Kind("U_EXT", "group", "somebody of another organisation in an approving group"),
    "bo": Kind("U_APP", "crowd", "a bot that the policy names"),
    "de": Kind("U_OLD", "crowd", "a named approver who was deactivated"),
    "un": Kind("U_UNK", "crowd", "a named approver whom Slack fails to look up"),
    "sl": Kind("U_SLO", "crowd", "a named approver for whom Slack takes too long"),
}

ACCOUNTS: Final[dict[str, dict[str, Any]]] = {
    "U_GRO": {},
    "U_CHA": {},
    "U_ALI": {},
    "U_NGU": {"guest": True},
    "U_NEX": {"team": "T9"},
    "U_LIN": {},
    "U_ADM": {"admin": True},
    "U_DAN": {},
    "U_REM": {},
    "U_LEF": {},
    "U_GUE": {"guest": True},
    "U_SCG": {"single_channel_guest": True},
    "U_EXT": {"team": "T9"},
    "U_APP": {"bot": True},
    "U_OLD": {"deleted": True},
    "U_UNK": {},
    "U_SLO": {},
}
GROUP: Final = ("S_ONCALL", ["U_GRO", "U_LEF", "U_GUE", "U_EXT"])
CHANNEL: Final = ("C_LEADS", ["U_CHA", "U_SCG", "U_BOT"])

# The policies, which the argument `who` of a call chooses


def keys(*users: str) -> frozenset[str]:
    return frozenset(f"slack:{ACCOUNTS.get(user, {}).get('team', 'T1')}/{user}" for user in users)


def _policy(name: str, *approvers: str, **more: Any) -> Policy:
    only = Condition("who", Comparison.ONE_OF, [name])
    return Policy(name=name, when=(only,), approvers=frozenset(approvers), **more)


_CROWD: Final = ("U_LIN", "U_APP", "U_OLD", "U_UNK", "U_SLO")


def policies(*, removed: bool = False) -> Policies:
    """All of them. `removed`: as they are once somebody is no approver any more."""
    crowd = keys(*_CROWD, *(() if removed else ("U_REM",)))
    return Policies(
        (
            _policy("named", *keys(BEN)),
            _policy("group", f"slack:T1/@{GROUP[0]}"),
            _policy("channel", f"slack:T1/#{CHANNEL[0]}"),
            _policy("anyone", ANYONE),
            _policy("own", *keys(ANA), self_approval=True),
            _policy("requester", REQUESTER),
            _policy("both", *keys(ANA, BEN)),
            _policy("guests", *keys("U_NGU", "U_NEX")),
            _policy("crowd", *crowd),
            _policy("other", *keys("U_DAN")),
        ),
        people={
            **dict.fromkeys(keys(ANA, "U_LIN"), "ana"),
            **dict.fromkeys(keys(BEN, "U_ALI"), "ben"),
        },
    )


# What comes of it: it counts, or the beginning of the sentence that the person alone is told

COUNTS: Final = "y"
SILENT: Final = "."  # nothing at all
NOBODY: Final = "-"  # there is no such person there

SENTENCES: Final = {
    "n": "You are not among the approvers of",
    "s": "You asked the agent for this, so another approver has to decide.",
    "a": "This is for the person who asked the agent, or an approver, to answer.",
    "g": "Guests and people of other organisations may not decide this here.",
    "b": "A bot may not decide this; nothing was decided.",
    "?": "Slack did not say who you are just now",
    "o": "does not let your approvals of",  # be remembered; they may approve it once
    "x": "There is no such question here; it may belong to another thread.",
    "r": "Only the person who asked the agent and its approvers can read all of this.",
    "t": "Only the person who asked the agent, or an approver, can",  # stop it, cancel this
    "c": "Commands are for people of this organisation.",
    "w": "use the card to decide.",  # the agent reads this once it is settled
    "e": "The agent takes messages from people of this organisation only.",
    "l": "refund",  # a list, or what is known of a thread: it shows
    "0": "Nothing waits for you.",
}

TABLE: Final = """
                 be gm cm an al so rr gn en rq sn ra li no ad ot rm lf g1 g2 ex bo de un sl
approve button   y  y  y  y  y  y  y  y  y  n  s  n  s  n  n  n  n  n  g  g  g  b  ?  ?  ?
decline button   y  y  y  y  y  y  y  y  y  n  s  n  s  n  n  n  n  n  g  g  g  b  ?  ?  ?
thread button    y  o  o  o  y  y  y  y  y  n  s  n  s  n  n  n  n  n  g  g  g  b  ?  ?  ?
note modal       y  y  y  y  y  y  y  y  y  n  s  n  s  n  n  n  n  n  g  g  g  b  ?  ?  ?
note sent        y  y  y  y  y  y  y  y  y  n  s  n  s  n  n  n  n  n  g  g  g  b  ?  ?  ?
quick choice     y  y  y  y  y  y  y  y  y  y  y  y  y  a  a  a  a  a  g  g  g  b  ?  ?  ?
form modal       y  y  y  y  y  y  y  y  y  y  y  y  y  a  a  a  a  a  g  g  g  b  ?  ?  ?
form sent        y  y  y  y  y  y  y  y  y  y  y  y  y  a  a  a  a  a  g  g  g  b  ?  ?  ?
show everything  y  y  y  y  y  y  y  y  y  y  y  y  y  r  r  r  r  r  r  r  r  r  ?  ?  ?
approve in modal y  y  y  y  y  y  y  y  y  n  s  n  s  n  n  n  n  n  g  g  g  b  ?  ?  ?
approve all      y  y  y  y  y  y  y  y  y  n  s  n  s  n  n  n  n  n  g  g  g  b  ?  ?  ?
approve selected y  y  y  y  y  y  y  y  y  n  s  n  s  n  n  n  n  n  g  g  g  b  ?  ?  ?
direct copy      y  x  x  x  x  x  x  y  x  x  x  x  x  x  x  x  n  x  x  x  x  x  ?  ?  ?
home             y  y  y  y  y  y  y  y  y  n  s  n  s  n  n  n  n  n  g  g  g  b  ?  ?  ?
cancel button    y  y  y  t  y  y  y  y  y  y  y  y  y  t  t  y  t  t  t  t  t  t  ?  ?  ?
slash cancel     y  y  y  t  y  y  y  y  c  y  y  y  y  t  t  y  t  t  t  t  c  c  ?  ?  ?
mention stop     y  y  y  t  y  y  y  y  c  y  y  y  y  t  t  y  t  t  t  t  c  .  .  ?  ?
mention cancel   y  y  y  t  y  y  y  y  c  y  y  y  y  t  t  y  t  t  t  t  c  .  .  ?  ?
stop button      y  y  y  t  y  y  y  y  c  y  y  y  y  t  t  y  t  t  t  t  c  c  .  ?  ?
message shortcut l  l  l  l  l  l  l  l  c  l  l  l  l  l  l  l  l  l  l  l  c  c  ?  ?  ?
global shortcut  l  l  l  l  l  l  l  l  c  l  l  l  l  l  l  l  l  l  0  0  c  c  ?  ?  ?
thread text      w  w  w  w  w  w  w  w  .  w  w  w  w  w  w  w  w  w  w  w  .  .  .  .  .
thread mention   w  w  w  w  w  w  w  w  e  w  w  w  w  w  w  w  w  w  w  w  e  .  .  .  .
direct text      .  .  .  .  .  .  .  .  e  .  .  .  .  .  .  .  .  .  .  .  e  .  .  .  .
console approve  y  -  -  y  y  y  y  -  -  n  s  n  s  n  -  n  n  -  -  -  -  -  -  -  -
"""

# Everything that a person can reach, and the line of the table that is about it. What decides
# nothing, whoever comes by it, says why.

ENTRIES: Final = {
    "action approve": "approve button",
    "action decline": "decline button",
    "action remember": "thread button",
    "action note": "note modal",
    "action answer": "form modal",
    "action pick.": "quick choice",
    "action show": "show everything",
    "action approve_all": "approve all",
    "action decline_all": "approve all",
    "action approve_selected": "approve selected",
    "action decline_selected": "approve selected",
    "action cancel": "cancel button",
    "action finished": "form modal",
    "action link": "form modal",
    "action leaf.": "show everything",
    "action home.": "home",
    "action select": "nothing: it counts once a button is pressed",
    "action visit": "nothing: a browser opens the page",
    "action page.": "global shortcut",
    "view form": "form sent",
    "view note": "note sent",
    "slash command": "slash cancel",
    "shortcut status": "message shortcut",
    "shortcut pending": "global shortcut",
    "event app_mention": "thread mention",
    "event message": "thread text",
    "event agent_session_stopped": "stop button",
    "event app_home_opened": "home",
    "event tokens_revoked": "nothing: it is Slack that says it, and of a whole workspace",
    "event app_uninstalled": "nothing: it is Slack that says it, and of a whole workspace",
    "command status": "message shortcut",
    "command pending": "global shortcut",
    "command rules": "nothing: it lists",
    "command task": "nothing: it shows",
    "command cancel": "slash cancel",
    "command stop": "mention stop",
    "command usage": "nothing: it counts tokens",
    "command help": "nothing: it is a list",
    "entry message": "thread mention",
    "entry changed": "nothing: test_prose_never_decides.py",
    "entry decide": "approve button",
    "entry decide_together": "approve all",
    "entry open_cards": "console approve",
    "entry command": "slash cancel",
    "entry inbox": "global shortcut",
    "entry home": "home",
    "entry cancel_task": "cancel button",
    "entry look": "note modal",
    "entry editing": "nothing: there is no way to it yet",
    "entry remembering": "nothing: there is no way to it yet",
    "entry preview": "nothing: there is no way to it yet",
    "entry read": "show everything",
    "console Say": "nothing: test_prose_never_decides.py",
    "console Approve": "console approve",
    "console Decline": "console approve",
    "console Answer": "console approve",
    "console Done": "console approve",
    "console Dismiss": "console approve",
    "console Cancel": "cancel button",
    "console Ask": "mention stop",
}


def read() -> dict[str, dict[str, str]]:
    """The table: by way and kind of person, the code of what comes of it."""
    head, *lines = [line for line in TABLE.splitlines() if line.strip()]
    kinds = head.split()
    assert kinds == list(KINDS)
    found = {}
    for line in lines:
        name, *codes = line.rsplit(maxsplit=len(kinds))
        assert set(codes) <= {*SENTENCES, COUNTS, SILENT, NOBODY}, name
        found[name.strip()] = dict(zip(kinds, codes, strict=True))
    return found
