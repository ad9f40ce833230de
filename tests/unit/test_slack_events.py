"""Payloads of Slack, read: who said what, and where; or nobody's business; or refused."""

import contextlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adapters.slack.events import (
    Identity,
    Malformed,
    Opened,
    Person,
    click,
    heard,
    opened,
    page,
    permalink,
    readable,
    shaped,
    shortcut,
    submission,
    turned,
    typed,
)
from bot.surface import Place

ME = Identity("T1", "U_BOT", "B_BOT")


def event(**given: Any) -> dict[str, Any]:
    said = {
        "type": "message",
        "user": "U_ANA",
        "team": "T1",
        "channel": "C_OPS",
        "channel_type": "channel",
        "ts": "1.000001",
        "text": "hello",
    }
    inner = {key: value for key, value in (said | given).items() if value is not None}
    return {"type": "event_callback", "team_id": "T1", "event_id": "Ev1", "event": inner}


def test_a_mention_starts_a_chat_in_the_thread_of_its_message() -> None:
    found = heard(event(type="app_mention", text="<@U_BOT> restart &lt;it&gt;"), ME)
    assert found is not None
    assert found.place == Place("slack", "T1", "C_OPS", "1.000001")
    assert found.keys == ("slack:Ev1", "slack:T1/C_OPS/1.000001")
    assert (found.text, found.starts, found.source) == ("restart <it>", True, "1.000001")
    assert found.person == Person("U_ANA", "T1")


def test_both_events_of_one_mention_share_a_key_and_say_the_same() -> None:
    text = "<@U_BOT> restart"
    one, two = heard(event(type="app_mention", text=text), ME), heard(event(text=text), ME)
    assert one is not None
    assert two is not None
    assert one.keys[1] == two.keys[1]
    assert (one.text, one.starts, one.place) == (two.text, two.starts, two.place)


def test_a_reply_in_a_thread_only_goes_on_with_a_chat() -> None:
    found = heard(event(thread_ts="1.000000"), ME)
    assert found is not None
    assert found.starts is False
    assert found.place.root == "1.000000"


def test_every_direct_message_starts_a_chat_even_if_it_names_others() -> None:
    found = heard(event(channel="D1", channel_type="im", text="ask <@U_BEN>"), ME)
    assert found is not None
    assert found.starts is True
    assert found.text == "ask <@U_BEN>"


@pytest.mark.parametrize(
    "given",
    [
        {},  # channel talk
        {"thread_ts": "1.000000", "text": "<@U_BEN> look"},
        {"thread_ts": "1.000000", "text": "look, <@U_BEN|ben>"},
        {"thread_ts": "1.000000", "text": "<!subteam^S1> look"},
        {"subtype": "message_changed", "hidden": True, "thread_ts": "1.000000"},
        {"subtype": "message_deleted", "thread_ts": "1.000000"},
        {"subtype": "channel_join", "thread_ts": "1.000000"},
        {"subtype": "bot_message", "bot_id": "B2", "thread_ts": "1.000000"},
        {"bot_id": "B2", "thread_ts": "1.000000", "text": "<@U_BOT> go"},
        {"type": "app_mention", "bot_id": "B2", "text": "<@U_BOT> go"},
        {"type": "app_mention", "text": "<@U_BOT> go", "edited": {"user": "U_ANA", "ts": "2.0"}},
        {"user": "U_BOT", "thread_ts": "1.000000"},
        {"user": "USLACKBOT", "thread_ts": "1.000000"},
        {"user": None, "thread_ts": "1.000000"},
        {"type": "reaction_added", "thread_ts": "1.000000"},
    ],
)
def test_what_is_nobodys_business_is_dropped(given: dict[str, Any]) -> None:
    assert heard(event(**given), ME) is None


def test_a_mention_among_others_in_a_thread_is_for_the_bot() -> None:
    found = heard(event(thread_ts="1.000000", text="<@U_BEN> <@U_BOT> look"), ME)
    assert found is not None
    assert found.starts is True


def test_an_event_of_another_workspace_is_dropped_unless_ours_is_authorised() -> None:
    foreign = event(type="app_mention") | {"team_id": "T2"}
    assert heard(foreign, ME) is None
    shared = foreign | {"authorizations": [{"team_id": "T1"}]}
    found = heard(shared, ME)
    assert found is not None
    assert found.place.organisation == "T1"


def test_a_sender_of_another_workspace_is_named_with_it() -> None:
    found = heard(event(type="app_mention", user_team="T2"), ME)
    assert found is not None
    assert found.person == Person("U_ANA", "T2")


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("<@U_BOT> hi", "hi"),
        ("hi <@U_BOT|interlock>!", "hi !"),
        ("<@U_BEN|ben> said", "<@U_BEN> said"),
        ("<#C1|general> and <#C2>", "#general and #C2"),
        ("<!here> <!subteam^S1|@ops>", "@here @ops"),
        ("<https://a.test/x> <https://a.test|site>", "https://a.test/x site (https://a.test)"),
        ("<mailto:a@b.test|a@b.test>", "a@b.test (a@b.test)"),
        ("a &lt;b&gt; &amp;amp;", "a <b> &amp;"),
    ],
)
def test_what_a_person_wrote_is_read_without_the_markup_of_slack(text: str, read: str) -> None:
    assert readable(text, "U_BOT") == read


def pressed(**given: Any) -> dict[str, Any]:
    return {
        "type": "block_actions",
        "user": {"id": "U_ANA", "team_id": "T1"},
        "container": {"type": "message", "message_ts": "2.000000", "thread_ts": "1.000000"},
        "channel": {"id": "C_OPS"},
        "trigger_id": "1.2.3",
        "response_url": "https://hooks.test/1",
        "actions": [{"action_id": "interlock.approve", "value": "n0nce"}],
    } | given


def test_a_click_names_the_question_by_its_nonce_and_the_thread_by_its_message() -> None:
    found = click(pressed(), ME)
    assert (found.action, found.nonce) == ("approve", "n0nce")
    assert found.place == Place("slack", "T1", "C_OPS", "1.000000")
    assert found.person == Person("U_ANA", "T1")


def test_a_click_on_a_message_without_a_thread_is_at_that_message() -> None:
    found = click(pressed(container={"type": "message", "message_ts": "2.000000"}), ME)
    assert found.place == Place("slack", "T1", "C_OPS", "2.000000")


def test_a_click_in_a_modal_has_no_place() -> None:
    assert click(pressed(container={"type": "view"}, channel=None), ME).place is None


@pytest.mark.parametrize(
    ("number", "read"),
    [("3", 3), ("", 1), ("0", 1), ("-1", 1), ("١", 1), ("99999", 1), (None, 1), (7, 1)],
)
def test_a_click_on_a_home_page_has_no_place_and_names_the_page(number: Any, read: int) -> None:
    view = {"type": "home", "private_metadata": number}
    found = click(pressed(container={"type": "view"}, channel=None, view=view), ME)
    assert (found.place, found.home) == (None, read)
    assert page(number) == read


def test_a_click_elsewhere_is_on_no_home_page() -> None:
    modal = {"type": "modal", "private_metadata": "3"}
    assert click(pressed(container={"type": "view"}, view=modal), ME).home is None
    assert click(pressed(), ME).home is None


def test_an_opened_tab_is_somebodys_and_says_nothing() -> None:
    body = event(type="app_home_opened", tab="home", ts=None)
    assert opened(body, ME) == Opened("home", Person("U_ANA"))
    assert heard(body, ME) is None
    assert opened(event(), ME) is None
    assert opened({**body, "team_id": "T2"}, ME) is None


@pytest.mark.parametrize("given", [{"user": "<!here>"}, {"user": None}, {"tab": None}, {"tab": 1}])
def test_a_malformed_opening_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(Malformed):
        opened(event(type="app_home_opened", **({"tab": "home"} | given)), ME)


def test_a_button_of_somebody_else_names_no_action() -> None:
    assert click(pressed(actions=[{"action_id": "approve"}]), ME).action == ""


@pytest.mark.parametrize(
    "given",
    [
        {"type": "message_action"},
        {"actions": []},
        {"actions": [7]},
        {"actions": [{"action_id": 7}]},
        {"actions": [{"action_id": "interlock.approve", "value": ["n"]}]},
        {"user": None},
        {"user": {"id": "<@U>"}},
        {"channel": {"id": "../x"}},
        {"container": {"type": "message", "message_ts": "now"}},
        {"trigger_id": {"a": 1}},
    ],
)
def test_a_malformed_click_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(Malformed):
        click(pressed(**given), ME)


def test_a_malformed_modal_is_refused() -> None:
    good = {
        "type": "view_submission",
        "user": {"id": "U_ANA", "team_id": "T1"},
        "view": {
            "callback_id": "interlock.form",
            "private_metadata": "n0nce",
            "state": {"values": {}},
        },
    }
    assert submission(good).nonce == "n0nce"
    wrong: list[dict[str, object]] = [
        {"view": None},
        {"user": {}},
        {"type": "view_closed"},
        {"view": {"state": 1}},
    ]
    for broken in wrong:
        with pytest.raises(Malformed):
            submission(good | broken)


def slashed(**given: Any) -> dict[str, Any]:
    return {
        "command": "/interlock",
        "text": " status  2 ",
        "user_id": "U_ANA",
        "team_id": "T1",
        "channel_id": "C_OPS",
        "response_url": "https://hooks.test/1",
    } | given


def test_a_slash_command_has_a_name_an_argument_and_no_thread() -> None:
    found = typed(slashed(), ME)
    assert (found.name, found.argument) == ("status", "2")
    assert found.place == Place("slack", "T1", "C_OPS", "")
    assert found.person == Person("U_ANA", "T1")


def test_what_slack_escaped_in_a_slash_command_is_read_as_it_was_written() -> None:
    assert typed(slashed(text="task <@U_BEN|ben> &lt;x&gt;"), ME).argument == "<@U_BEN> <x>"


@pytest.mark.parametrize(
    "given",
    [{"user_id": None}, {"channel_id": "c"}, {"text": ["stop"]}, {"response_url": 1}],
)
def test_a_malformed_slash_command_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(Malformed):
        typed(slashed(**given), ME)


def picked(**given: Any) -> dict[str, Any]:
    return {
        "type": "message_action",
        "callback_id": "interlock.status",
        "user": {"id": "U_ANA", "team_id": "T1"},
        "channel": {"id": "C_OPS"},
        "message_ts": "2.000000",
        "message": {"ts": "2.000000", "thread_ts": "1.000000"},
        "trigger_id": "1.2.3",
        "response_url": "https://hooks.test/1",
    } | given


def test_a_shortcut_of_a_message_is_about_its_thread() -> None:
    reply, root = shortcut(picked(), ME), shortcut(picked(message={"ts": "2.000000"}), ME)
    assert (reply.place, reply.in_thread) == (Place("slack", "T1", "C_OPS", "1.000000"), True)
    assert (root.place, root.in_thread) == (Place("slack", "T1", "C_OPS", "2.000000"), False)


def test_a_global_shortcut_has_no_place() -> None:
    assert shortcut(picked(type="shortcut"), ME).place is None


@pytest.mark.parametrize(
    "given",
    [
        {"user": {}},
        {"message": None},
        {"message": {"thread_ts": "now"}},
        {"message": {}, "message_ts": 2},
        {"channel": {"id": "<!here>"}},
        {"trigger_id": 7},
        {"callback_id": ""},
    ],
)
def test_a_malformed_shortcut_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(Malformed):
        shortcut(picked(**given), ME)


@pytest.mark.parametrize("value", ["0", "-1", "x", "99999", "", "１"])
def test_a_page_that_is_no_number_is_refused(value: str) -> None:
    turn = pressed(actions=[{"action_id": "interlock.page.next", "value": value}])
    with pytest.raises(Malformed):
        turned(turn | {"view": {"id": "V1"}}, ME)


@pytest.mark.parametrize(
    "body",
    [
        {"type": "shortcut"},
        {"type": "message_action", "callback_id": 7},
        {"command": {"a": 1}},
        {"type": "block_actions", "actions": [{}]},
        [],
    ],
)
def test_a_shape_that_bolt_would_fail_on_is_none_of_slacks(body: object) -> None:
    assert not shaped(body)


def test_a_thread_has_an_address_in_its_workspace() -> None:
    me = Identity("T1", "U_BOT", "B_BOT", "https://acme.slack.com/")
    place = Place("slack", "T1", "C1", "1700000000.000100")
    assert permalink(me, place) == "https://acme.slack.com/archives/C1/p1700000000000100"
    assert permalink(me, Place("slack", "T1", "C1", "")) == "https://acme.slack.com/archives/C1"


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("", Place("slack", "T1", "C1", "1.000000")),
        ("javascript:x", Place("slack", "T1", "C1", "1.000000")),
        ("https://acme.slack.com/", Place("slack", "T1", "C1)", "1.000000")),
        ("https://acme.slack.com/", Place("slack", "T1", "C1", "main")),
    ],
)
def test_what_is_no_place_of_slack_has_no_address(url: str, place: Place) -> None:
    assert permalink(Identity("T1", "U_BOT", "B_BOT", url), place) is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)
KEYS = ("type", "user", "team", "channel", "ts", "thread_ts", "text", "subtype", "channel_type")


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(KEYS), JSON)
def test_whatever_stands_in_an_event_it_is_read_dropped_or_refused(key: str, value: Any) -> None:
    body = event(text="<@U_BOT> hi")
    body["event"][key] = value
    with contextlib.suppress(Malformed):
        found = heard(body, ME)
        assert found is None or found.place.channel.isascii()
