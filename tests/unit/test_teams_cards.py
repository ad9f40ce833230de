"""Cards as Adaptive Cards, judged by Microsoft's schema and by the rules of Teams."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from adapters.teams import forms, limits
from adapters.teams.cards import activity, draw
from adapters.teams.elements import lines, size
from adapters.teams.people import Member
from bot.card import Argument, Card, CardState, Kind, TaskCard
from bot.field import Choice, Field, FieldType, Format, coerce
from bot.group import GroupCard
from bot.surface import Place, Reply
from bot.text import visible
from tests import hostile
from tests.fakes.teams import TENANT, button, buttons_of, faults, text_of
from tests.fakes.teams.cards import elements, marked_up

BEN = f"teams:{TENANT}/00000000-0000-0000-0000-000000000002"
PLACE = Place("teams", TENANT, "19:ops@thread.tacv2", "1699")


def card(kind: Kind = Kind.APPROVAL, **given: Any) -> Card:
    base: dict[str, Any] = {
        "nonce": "n0nce",
        "version": 1,
        "state": CardState.OPEN,
        "title": "ops wants to run refund",
        "agent": "ops",
        "tool": "refund",
        "deciders": (BEN,),
    }
    return Card(kind=kind, **(base | given))


FIELDS = (
    Field("amount", FieldType.INTEGER, maximum=100),
    Field("why", multiline=True, required=False),
    Field("sure", FieldType.BOOLEAN, default=True),
    Field("region", choices=(Choice("eu", "Europe", "Frankfurt"), Choice("us", "America"))),
    Field("parts", FieldType.CHOICES, choices=("a,b", "c"), required=False),
    Field("when", format=Format.DATE),
    Field("colour", choices=("red", "blue"), allow_other=True),
)
APPROVAL = card(arguments=(Argument("order", "4711"),), remember="Approve, and do not ask again")
FORM = card(Kind.FORM, message="Please say.", fields=FIELDS)
PAGE = card(Kind.PAGE, message="Log in first.", url="https://login.test/auth?x=1")


def test_an_approval() -> None:
    drawn = draw(APPROVAL, PLACE)
    assert faults(drawn) == []
    assert text_of(drawn).startswith(
        "ops wants to run refund\nTool: refund   Agent: ops\norder:\n4711"
    )
    assert buttons_of(drawn) == [
        "Approve",
        "Approve for this thread",
        "Decline",
        "Decline with the note",
    ]
    pressed = button(drawn, "Approve")
    assert pressed["data"] == {"interlock": "n0nce", "do": "approve"}
    assert pressed["fallback"]["type"] == "Action.Submit"
    assert button(drawn, "Decline with the note")["associatedInputs"] == "auto"


def test_who_may_decide_is_mentioned_where_the_roster_has_them() -> None:
    ben = Member("29:ben", BEN, TENANT, "Ben [x](https://evil.test) <at>", guest=False)
    drawn = draw(APPROVAL, PLACE, {BEN: ben})
    assert faults(drawn) == []
    (entity,) = drawn["msteams"]["entities"]
    assert entity["mentioned"]["id"] == "29:ben"
    assert "[" not in entity["text"]
    assert BEN in text_of(draw(APPROVAL, PLACE))
    assert "Nobody may decide" in text_of(draw(replace(APPROVAL, deciders=()), PLACE))


@pytest.mark.parametrize("state", [CardState.DONE, CardState.REFUSED, CardState.CLOSED])
def test_a_settled_card_has_its_outcome_and_no_buttons(state: CardState) -> None:
    for one in (APPROVAL, FORM, PAGE):
        drawn = draw(replace(one, state=state, outcome="Approved by ben."), PLACE)
        assert faults(drawn) == []
        assert buttons_of(drawn) == []
        assert not [e for e in elements(drawn) if str(e["type"]).startswith("Input")]
        assert "Approved by ben." in text_of(drawn)


@pytest.mark.parametrize("text", hostile.TEXTS)
def test_hostile_text_is_shown_and_does_nothing(text: str) -> None:
    one = card(
        title=text,
        agent=text,
        tool=text,
        message=text,
        arguments=(Argument("a", text), Argument(text, "b")),
        notices=(text,),
        deciders=(text, BEN),
        remember=text,
        thread=replace(PLACE, root="1"),
        askers=(text,),
    )
    choices = (Choice("x", text, text), Choice("y", "z"))
    asked = card(
        Kind.FORM,
        message=text,
        fields=(Field("q", title=text, description=text, choices=choices), Field("t", title=text)),
    )
    member = Member("29:x", "x", TENANT, text, guest=False)
    for drawn in (
        draw(one, PLACE, {BEN: member}),
        draw(asked, PLACE),
        draw(replace(one, state=CardState.DONE, outcome=text), PLACE),
    ):
        assert faults(drawn) == []
        for marked in marked_up(drawn):
            told = marked.replace("**Who may decide:**", "").replace("**Who may answer:**", "")
            assert not any(mark in told for mark in "[]()`*_~#|\n"), marked
        for run in elements(drawn):
            if run["type"] == "TextRun":
                assert "<at>" not in run["text"]
                shown = run["text"].replace("<\u200b", "<")
                assert visible(shown, part=True) == shown
    first = text.split("\n")[0].split("\t")[0]
    if first.isascii() and first.isprintable() and "<at" not in first and "  " not in first:
        assert first.strip() in text_of(draw(one, PLACE))


def test_what_does_not_fit_is_said_and_approved_where_it_stands() -> None:
    for value in ("x" * 30_000, "字" * 9_000, "a\n" * 20_000):
        drawn = draw(card(arguments=(Argument("a", value), Argument("b", "short"))), PLACE)
        assert faults(drawn) == []
        assert size(drawn) <= limits.CARD_BYTES
        assert "Approve" not in buttons_of(drawn)
        assert "Decline" in buttons_of(drawn)
        assert "characters between" in text_of(drawn)
        assert buttons_of(drawn)[0] == "Show everything"
        assert "and it can be approved there" in text_of(drawn)


def test_all_that_a_card_may_hold_fits_and_can_be_approved() -> None:
    for value in ("x" * 7_900, "line\n" * 50, "\n".join("ab" for _ in range(2_000))):
        drawn = draw(card(arguments=(Argument("a", value),)), PLACE)
        assert faults(drawn) == []
        assert "Approve" in buttons_of(drawn)


def test_many_arguments_are_cut_visibly() -> None:
    many = tuple(Argument(f"name {n}", "v" * 200) for n in range(500))
    drawn = draw(card(arguments=many), PLACE)
    assert faults(drawn) == []
    assert "more arguments" in text_of(drawn)
    assert "Approve" not in buttons_of(drawn)


def test_nobody_types_the_end_of_a_line_that_runs_on() -> None:
    many = ["x"] * 80
    told, typed = (lines("\n".join([*many, end])) for end in ("a\nb", "a ↵ b"))
    (typed_run,) = typed[0]["inlines"]
    assert typed_run["text"].count("↵") == 80
    assert typed_run["text"].endswith("a ⟨U+21B5⟩ b")
    assert told != typed
    assert "a ↵ b" in str(lines("a ↵ b"))  # in few lines there is no mark


def test_a_text_keeps_its_spaces_and_lines() -> None:
    drawn = draw(card(arguments=(Argument("code", "if x:\n    y  =  1\n\n  "),)), PLACE)
    runs = [e["text"] for e in elements(drawn) if e.get("fontType") == "Monospace"]
    assert runs == ["if x:", "\xa0\xa0\xa0 y\xa0 =\xa0 1", "\xa0", "\xa0\xa0"]
    for value, told in (("", "an empty text"), (" \n", 'nothing but white space: " \\n"')):
        assert told in text_of(draw(card(arguments=(Argument("a", value),)), PLACE))


def test_a_form_and_what_comes_back_of_it() -> None:
    drawn = draw(FORM, PLACE)
    assert faults(drawn) == []
    assert buttons_of(drawn) == ["Send", "Decline"]
    sent = {
        "f0": "7",
        "f1": "",
        "f2": "0",
        "f3": "1",
        "f4": "0,1",
        "f5": "2026-12-01",
        "f6": "",
        "f6o": "green",
        "interlock": "n0nce",
    }
    answer = coerce(FIELDS, forms.answer_of(FIELDS, sent), lenient=True)
    assert answer["amount"] == 7
    assert answer["sure"] is True
    assert answer["region"] == "us"
    assert list(answer["parts"]) == ["a,b", "c"]  # type: ignore[arg-type]
    assert answer["when"] == "2026-12-01"
    assert "green" in str(answer["colour"])
    assert forms.answer_of(FIELDS, {}) == {"colour": {"selected": [], "other_text": None}}


@pytest.mark.parametrize(
    "sent", [{"f3": "2"}, {"f3": "eu"}, {"f3": ["0"]}, {"f4": "0,9"}, {"f1": {}}, {"f2": True}]
)
def test_what_was_not_offered_is_refused(sent: dict[str, Any]) -> None:
    with pytest.raises(forms.NotOurs):
        forms.answer_of(FIELDS, sent)


def test_a_page_shows_its_whole_address() -> None:
    drawn = draw(PAGE, PLACE)
    assert faults(drawn) == []
    assert "https://login.test/auth?x=1" in text_of(drawn)
    assert buttons_of(drawn) == ["Open the page", "I have finished", "Decline"]
    odd = draw(replace(PAGE, url="https://login.test\\@evil.test/"), PLACE)
    assert "Open the page" not in buttons_of(odd)


def test_a_copy_elsewhere_says_who_asked() -> None:
    asked = replace(APPROVAL, thread=replace(PLACE, root="1"), askers=(BEN,))
    assert f"Requested by {BEN} in another" in text_of(draw(asked, PLACE))
    assert "Requested by" not in text_of(draw(replace(asked, thread=PLACE), PLACE))


def test_a_message_is_summed_up_for_notifications() -> None:
    assert activity(APPROVAL, PLACE)["summary"] == "ops wants to run refund"
    task = TaskCard(
        nonce="c", version=1, state=CardState.OPEN, title="x is running", agent="ops", tool="x",
        status="working", message="half",
    )  # fmt: skip
    assert faults(activity(task, PLACE)["attachments"][0]["content"]) == []
    assert activity(Reply("a **b**"), PLACE)["text"] == "<p>a <strong>b</strong></p>"


def test_a_line_of_a_text_is_read_as_a_part_of_it() -> None:
    told = "с сору hello\nhello Привет"  # by itself the first line would be taken for Latin
    assert visible(told) == told
    assert told in text_of(draw(card(message=told), PLACE))
    for whole in ("sign in to раураӏ", "gооgle"):
        escaped = visible(whole)
        assert "⟨U+" in escaped
        task = TaskCard(
            nonce="n",
            version=1,
            state=CardState.OPEN,
            title=whole,
            agent="a",
            tool="t",
            status="working",
            message=whole,
        )
        group = GroupCard(nonce="n", version=1, title=whole, agent="a", cards=(card(title=whole),))
        for content in (task, group, card(title=whole, deciders=(f"teams:t/{whole}",))):
            shown = activity(content, PLACE)
            assert whole not in str(shown)
            assert escaped in shown["summary"]


def test_of_two_approvers_with_one_name_both_stand_on_the_card() -> None:
    other = BEN[:-1] + "7"
    names = {
        BEN: Member("29:a", BEN[-36:], TENANT, "Ben", guest=False),
        other: Member("29:b", other[-36:], TENANT, "Ben", guest=False),
    }
    drawn = draw(card(deciders=(BEN, other)), PLACE, names)
    assert faults(drawn) == []
    (entity,) = drawn["msteams"]["entities"]
    assert entity["mentioned"]["id"] == "29:a"
    assert other in text_of(drawn)


def test_a_reminder_mentions_those_who_may_decide() -> None:
    told = Reply("Still waiting: <at>all</at>.", mentions=(BEN, "slack:T1/U<at>x</at>"))
    ben = Member("29:ben", BEN[-36:], TENANT, "Ben", guest=False)
    shown = activity(told, PLACE, {BEN: ben})
    assert shown["entities"] == [
        {
            "type": "mention",
            "text": "<at>Ben</at>",
            "mentioned": {"id": "29:ben", "name": "Ben"},
        }
    ]
    assert shown["text"].startswith("<p><at>Ben</at>, slack:T1/U&lt;")
    assert shown["text"].count("<at>") == 1
    assert "entities" not in activity(Reply("Done."), PLACE, {BEN: ben})


def test_several_choices_begin_with_none_and_one_with_its_default() -> None:
    """Some clients lose a pick that several choices begin with; left empty, it is the default."""
    several = Field("parts", FieldType.CHOICES, choices=("a", "b"), default=("b",))
    single = Field("region", choices=("eu", "us"), default="us")
    shown = draw(card(Kind.FORM, fields=(several, single)), PLACE)
    menus = [one for one in elements(shown) if one["type"] == "Input.ChoiceSet"]
    assert [one.get("value") for one in menus] == [None, "1"]
