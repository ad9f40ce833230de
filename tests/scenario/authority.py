"""Who may do what by which way: every way into the product, every kind of person, every result.

A way is a line of `TABLE`, a kind of person a column. The first part of the table has every kind,
for the ways that come to the authoriser each with a question of its own; the others have one of
each sort. To add a way: its line here, a line in `authority_ways.WAYS` of what a person does
(`button`, `sent`, `says` make the most of them), and its names in `ENTRIES`, which a test holds
against the code. To add a surface: a part of the table whose lines begin with its name, and a test
that drives them as test_authority_console.py does; people are the same, under its keys.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from bot.approvers import ANYONE, REQUESTER, Policies, Policy
from bot.core import new_id
from bot.rules import Comparison, Condition, Effect
from bot.surface import Actor
from storage.rules import RuleRow, Scope
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
    "mk": Kind("U_MAK", "made", "an approver who is a rule maker"),
    "mn": Kind("U_MAK", "named", "a rule maker who approves something else"),
    "e1": Kind("U_ESC", "early", "one of the next approvers, before it is their turn"),
    "e2": Kind("U_ESC", "late", "one of the next approvers, once it is their turn"),
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
    "U_MAK": {},
    "U_ESC": {},
}
GROUP: Final = ("S_ONCALL", ["U_GRO", "U_LEF", "U_GUE", "U_EXT"])
CHANNEL: Final = ("C_LEADS", ["U_CHA", "U_SCG", "U_BOT"])

# The policies, which the argument `who` of a call chooses


def keys(*users: str) -> frozenset[str]:
    return frozenset(f"slack:{ACCOUNTS.get(user, {}).get('team', 'T1')}/{user}" for user in users)


def _policy(name: str, *approvers: str, **more: Any) -> Policy:
    only = Condition("who", Comparison.ONE_OF, [name])
    return Policy(name=name, when=(only,), approvers=frozenset(approvers), **more)


SOON: Final = 0.2  # seconds
LATER: Final = 3_600.0
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
            _policy("made", *keys("U_MAK"), rule_makers=keys("U_MAK")),
            _policy("brief", *keys(BEN), expires_after=SOON),
            _policy("early", *keys(BEN), escalate_after=LATER, escalate_to=keys("U_ESC")),
            _policy("late", *keys(BEN), escalate_after=SOON, escalate_to=keys("U_ESC")),
            Policy(name="rest", rule_makers=keys("U_MAK")),  # of what no other is about
        ),
        people={
            **dict.fromkeys(keys(ANA, "U_LIN"), "ana"),
            **dict.fromkeys(keys(BEN, "U_ALI"), "ben"),
        },
    )


# What comes of it: it counts, or the beginning of the sentence that the person alone is told

COUNTS: Final = "y"
SILENT: Final = "."  # nothing at all

SENTENCES: Final = {
    "n": "You are not among the approvers of",
    "s": "You asked the agent for this, so another approver has to decide.",
    "a": "This is for the person who asked the agent, or an approver, to answer.",
    "g": "Guests and people of other organisations may not decide this here.",
    "b": "A bot may not decide this; nothing was decided.",
    "?": "did not say who you are just now",
    "o": "does not let your approvals of",  # be remembered; they may approve it once
    "x": "There is no such question here; it may belong to another thread.",
    "r": "Only the person who asked the agent and its approvers can read all of this.",
    "t": "Only the person who asked the agent, or an approver, can",  # stop it, cancel this
    "c": "Commands are for people of this organisation.",
    "w": "use the card to decide.",  # the agent reads this once it is settled
    "e": "The agent takes messages from people of this organisation only.",
    "l": "refund",  # a list, or what is known of a thread: it shows
    "0": "Nothing waits for you.",
    "m": "You are not among the rule makers of",
    "p": "Standing rules are made by people of this organisation only.",
    "q": "Standing rules are revoked by people of this organisation only.",
    "v": "Only who made this rule",
    "k": "Where must be one of",  # which are for who may make such a rule
}

TABLE: Final = """
                 be gm cm an al so rr gn en rq sn ra li no ad ot rm lf g1 g2 ex bo de un sl mk e1 e2
approve button   y  y  y  y  y  y  y  y  y  n  s  n  s  n  n  n  n  n  g  g  g  b  ?  ?  ?  y  n  y
thread button    y  o  o  o  y  y  y  y  y  n  s  n  s  n  n  n  n  n  g  g  g  b  ?  ?  ?  y  n  o

                 be gm al gn rq sn li no ot g1 ex bo un e1 e2
form sent        y  y  y  y  y  y  y  a  a  g  g  b  ?  a  y
cancel button    y  y  y  y  y  y  y  t  y  t  t  t  ?  t  t

                 be gn en rq no rm g1 ex bo un e1 e2
show everything  y  y  y  y  r  r  r  r  r  ?  r  y
direct copy      y  y  x  x  x  n  x  x  x  ?  x  y
slash cancel     y  y  c  y  t  t  t  c  c  ?  t  t

                 be rq no g1 ex bo un
decline button   y  n  n  g  g  b  ?
note modal       y  n  n  g  g  b  ?
note sent        y  n  n  g  g  b  ?
quick choice     y  y  a  g  g  b  ?
form modal       y  y  a  g  g  b  ?
approve in modal y  n  n  g  g  b  ?
edit modal       y  n  n  g  g  b  ?
edit at home     y  n  n  g  g  b  ?
edit sent        y  n  n  g  g  b  ?
edit in modal    y  n  n  g  g  b  ?
approve all      y  n  n  g  g  b  ?
approve selected y  n  n  g  g  b  ?
decline all      y  n  n  g  g  b  ?
decline selected y  n  n  g  g  b  ?
home             y  n  n  g  g  b  ?
again            y  y  y  y  e  e  ?
mention stop     y  y  t  t  c  .  ?
mention cancel   y  y  t  t  c  .  ?
stop button      y  y  t  t  c  c  ?
message shortcut l  l  l  l  c  c  ?
global shortcut  l  0  l  0  c  c  ?
thread text      w  w  w  w  .  .  .
thread mention   w  w  w  w  e  .  .
direct text      .  .  .  .  e  .  .

                 be rq no g1 ex bo un mk mn e2
choose modal     y  n  n  g  g  b  ?  y  n  o
chosen sent      y  n  n  g  g  b  ?  y  n  o
chosen widely    k  n  n  g  g  b  ?  y  n  o
slash rule       m  m  m  p  c  c  ?  y  y  m
mention rule     m  m  m  p  c  .  ?  y  y  m
slash revoke     v  v  v  v  c  c  ?  y  y  v
mention revoke   v  v  v  v  c  .  ?  y  y  v
rule modal       m  m  m  m  m  m  ?  y  y  m
rule sent        m  m  m  m  m  m  ?  y  y  m
revoke button    v  v  v  v  q  q  ?  y  y  v

                 be al so rq sn no rm mk e1 e2
console approve  y  y  y  n  s  n  n  y  n  y

                 be no e2
console decline  y  n  y
console edit     y  n  y
console remember y  n  o

                 be rq no
console answer   y  y  a
console again    y  y  y

                 be mk
console rule     m  y
console revoke   v  y

               be cm an al so rr gn en rq sn ra li no ot rm lf g1 g2 ex bo de un sl mk mn e1 e2
teams approve  y  y  y  y  y  y  y  y  n  s  n  s  n  n  n  n  g  g  g  .  ?  ?  ?  y  n  n  y
teams thread   y  o  o  y  y  y  y  y  n  s  n  s  n  n  n  n  g  g  g  .  ?  ?  ?  y  n  n  o

                     be gn en rq no rm g1 ex bo un e1 e2
teams form sent      y  y  y  y  a  a  g  g  .  ?  a  y
teams direct copy    y  y  x  x  x  n  x  x  .  ?  x  y
teams show           y  y  y  y  r  r  r  r  .  ?  r  y
teams cancel task    y  y  y  y  t  t  t  t  .  ?  t  t
teams list open      y  y  y  y  r  r  r  r  .  ?  r  y

                     be rq no g1 ex bo un
teams decline button y  n  n  g  g  .  ?
teams note sent      y  n  n  g  g  .  ?
teams submit         y  n  n  g  g  .  ?
teams mention stop   y  y  t  t  c  .  ?
teams mention cancel y  y  t  t  c  .  ?
teams mention status l  l  l  l  c  .  ?
teams mention pending l  l  l  0  c  .  ?
teams thread mention w  w  w  w  e  .  .
teams direct text    .  .  .  .  e  .  .
teams slash cancel   y  y  t  t  c  .  ?
teams edit form      y  n  n  g  g  .  ?
teams edit sent      y  n  n  g  g  .  ?
teams all approved   y  n  n  g  g  .  ?
teams all declined   y  n  n  g  g  .  ?
teams some approved  y  n  n  g  g  .  ?
teams some declined  y  n  n  g  g  .  ?
teams again          y  y  y  y  e  .  ?
teams list approve   y  n  n  g  g  .  ?

                     be rq no g1 ex bo un mk mn e2
teams mention rule   m  m  m  p  c  .  ?  y  y  m
teams mention revoke v  v  v  v  c  .  ?  y  y  v
teams choose form    y  n  n  g  g  .  ?  y  n  o
teams chosen sent    y  n  n  g  g  .  ?  y  n  o
teams rule form      m  m  m  m  m  .  ?  y  y  m
teams rule sent      m  m  m  m  m  .  ?  y  y  m
teams revoke         v  v  v  v  q  .  ?  y  y  v
"""

# Everything that a person can reach, and the line of the table that is about it. What decides
# nothing, whoever comes by it, says why.

ENTRIES: Final = {
    "action approve": "approve button",
    "action decline": "decline button",
    "action edit": "edit modal",
    "action remember_as": "choose modal",
    "action rule": "rule modal",
    "action revoke": "revoke button",
    "action again": "again",
    "action remember": "thread button",
    "action note": "note modal",
    "action answer": "form modal",
    "action pick.": "quick choice",
    "action show": "show everything",
    "action approve_all": "approve all",
    "action decline_all": "decline all",
    "action approve_selected": "approve selected",
    "action decline_selected": "decline selected",
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
    "view edit": "edit sent",
    "view remember_form": "chosen sent",
    "view remember_save": "chosen sent",
    "view rule_form": "rule sent",
    "view rule_save": "rule sent",
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
    "command rules": "slash rule",
    "command task": "nothing: it shows",
    "command cancel": "slash cancel",
    "command stop": "mention stop",
    "command usage": "nothing: it counts tokens",
    "command help": "nothing: it is a list",
    "entry message": "thread mention",
    "entry changed": "nothing: test_prose_never_decides.py",
    "entry decide": "approve button",
    "entry decide_together": "approve all",
    "entry shown": "nothing: it shows what everybody there sees, test_service.py",
    "entry open_cards": "console approve",
    "entry command": "slash cancel",
    "entry inbox": "global shortcut",
    "entry home": "home",
    "entry cancel_task": "cancel button",
    "entry look": "note modal",
    "entry editing": "edit modal",
    "entry remembering": "choose modal",
    "entry preview": "chosen sent",
    "entry rule_form": "rule modal",
    "entry new_rule": "rule sent",
    "entry revoke_rule": "revoke button",
    "entry ask_again": "again",
    "entry read": "show everything",
    "console Say": "nothing: test_prose_never_decides.py",
    "console Approve": "console approve",
    "console Edit": "console edit",
    "console Again": "console again",
    "console Decline": "console decline",
    "console Answer": "console answer",
    "console Done": "console approve",
    "console Dismiss": "console approve",
    "console Cancel": "cancel button",
    "console Ask": "console rule",
    "teams approve": "teams approve",
    "teams remember": "teams thread",
    "teams decline": "teams decline button",
    "teams note": "teams note sent",
    "teams answer": "teams form sent",
    "teams finished": "teams form sent",
    "teams edit": "teams edit form",
    "teams edited": "teams edit sent",
    "teams show": "teams show",
    "teams open": "teams list open",
    "teams home": "teams list open",
    "teams cancel": "teams cancel task",
    "teams again": "teams again",
    "teams approve_all": "nothing: it shows what everybody there sees, and asks",
    "teams decline_all": "nothing: it shows what everybody there sees, and asks",
    "teams approve_all_sure": "teams all approved",
    "teams decline_all_sure": "teams all declined",
    "teams approve_selected": "teams some approved",
    "teams decline_selected": "teams some declined",
    "teams remember_as": "teams choose form",
    "teams remember_preview": "teams choose form",
    "teams remember_save": "teams chosen sent",
    "teams rule": "teams rule form",
    "teams rule_preview": "teams rule sent",
    "teams rule_save": "teams rule sent",
    "teams revoke": "nothing: it asks whether to",
    "teams revoke_sure": "teams revoke",
    "teams back": "nothing: it shows what everybody there sees, test_service.py",
}


def read() -> dict[str, dict[str, str]]:
    """The table: by way and kind of person, the code of what comes of it."""
    found: dict[str, dict[str, str]] = {}
    for part in TABLE.split("\n\n"):
        head, *lines = part.strip("\n").splitlines()
        kinds = head.split()
        assert set(kinds) <= set(KINDS), head
        for line in lines:
            name, *codes = line.rsplit(maxsplit=len(kinds))
            assert set(codes) <= {*SENTENCES, COUNTS, SILENT}, name
            found[name.strip()] = dict(zip(kinds, codes, strict=True))
    return found


def rule_of(maker: Actor) -> RuleRow:
    """A standing rule of one policy, which a rule maker made."""
    return RuleRow(
        id=new_id("rule"),
        tool="refund",
        server="",
        schema_digest="",
        effect=Effect.DENY,
        conditions=[
            Condition("who", Comparison.EQUAL, "made").to_json(),
            Condition("order", Comparison.EQUAL, "none").to_json(),
        ],
        scope=Scope.ORGANISATION,
        scope_key=f"{maker.surface}:{maker.organisation}",
        created_by=maker.key,
        created_name="mak",
        created_at=0.0,
    )
