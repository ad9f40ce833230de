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
    changed,
    heard,
    opened,
    permalink,
    readable,
    shaped,
    shortcut,
    stopped,
    typed,
)
from bot.surface import Changed, FileRef, Place

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
        {"bot_profile": {"id": "B2"}, "text": "<@U_BOT> go"},
        {"app_id": "A2", "text": "<@U_BOT> go"},  # an app that posts with a person's token
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


FILE = {
    "id": "F1",
    "name": "a.pdf",
    "mimetype": "application/pdf",
    "size": 7,
    "url_private": "https://files.slack.com/files-pri/T1-F1/a.pdf",
    "url_private_download": "https://files.slack.com/files-pri/T1-F1/download/a.pdf",
}


def test_a_message_of_files_alone_is_heard_with_what_slack_says_of_them() -> None:
    found = heard(event(channel_type="im", subtype="file_share", text="", files=[FILE]), ME)
    assert found is not None
    assert (found.text, found.lean) == ("", False)
    reference = {"id": "F1", "url": FILE["url_private_download"], "size": 7}
    assert found.files == (FileRef("a.pdf", "application/pdf", 7, reference),)


def test_a_file_of_another_organisation_goes_by_its_id() -> None:
    shared = {"id": "F1", "mode": "file_access", "file_access": "check_file_info"}
    found = heard(event(channel_type="im", files=[shared]), ME)
    assert found is not None
    assert found.files == (FileRef("", "", 0, {"id": "F1", "url": "", "size": 0}),)


def test_the_event_of_a_mention_may_lack_the_files() -> None:
    lean = heard(event(type="app_mention", text="<@U_BOT> look"), ME)
    full = heard(event(type="app_mention", text="<@U_BOT> look", files=[FILE]), ME)
    assert lean is not None
    assert full is not None
    assert (lean.lean, full.lean) == (True, False)


@pytest.mark.parametrize("files", ["F1", {"id": "F1"}, ["F1"], [None], 1])
def test_files_in_a_shape_that_slack_does_not_send_are_refused(files: Any) -> None:
    with pytest.raises(Malformed):
        heard(event(channel_type="im", files=files), ME)


def altered(old: dict[str, Any], new: dict[str, Any] | None, **given: Any) -> dict[str, Any]:
    base = {"type": "message", "user": "U_ANA", "ts": "1.000005", "thread_ts": "1.000001"}
    edited = {"edited": {"user": "U_ANA", "ts": "1.000009"}}
    how: dict[str, Any] = {"deleted_ts": "1.000005", "subtype": "message_deleted"}
    if new is not None:
        how = {"message": base | edited | new, "subtype": "message_changed"}
    body = event(hidden=True, ts="1.000010", user=None, text=None, **(how | given))
    body["event"]["previous_message"] = base | old
    return body


def test_an_edit_names_what_was_edited_and_its_new_words() -> None:
    body = altered({"text": "staging"}, {"text": "<@U_BOT> prod"})
    assert changed(body, ME) == Changed(
        keys=("slack:Ev1", "slack:T1/C_OPS/1.000005/edited/1.000009"),
        place=Place("slack", "T1", "C_OPS", "1.000001"),
        source="1.000005",
        text="prod",
    )
    assert heard(body, ME) is None


def test_a_deletion_names_what_was_deleted() -> None:
    found = changed(altered({"text": "staging"}, None), ME)
    assert found is not None
    assert (found.source, found.text) == ("1.000005", None)
    assert found.place.root == "1.000001"
    assert found.keys[1] == "slack:T1/C_OPS/1.000005/deleted"


def test_both_events_of_a_deletion_that_leaves_a_tombstone_are_one() -> None:
    tombstone = {"user": "USLACKBOT", "subtype": "tombstone", "text": "This message was deleted."}
    one = changed(altered({"text": "staging"}, tombstone), ME)
    two = changed(altered(tombstone, None), ME)
    assert one is not None
    assert two is not None
    assert one.keys[1] == two.keys[1]
    assert one.text is two.text is None


def test_an_edit_at_the_root_belongs_to_the_thread_that_it_begins() -> None:
    body = altered({"text": "a", "thread_ts": None}, {"text": "b", "thread_ts": None})
    found = changed(body, ME)
    assert found is not None
    assert found.place.root == found.source == "1.000005"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"text": "a"}, {"text": "a", "attachments": [{"title": "unfolded"}]}),
        ({"text": "a", "bot_id": "B2"}, {"text": "b", "bot_id": "B2"}),
        ({"text": "a", "user": "U_BOT"}, {"text": "b", "user": "U_BOT"}),
        ({"text": "a", "bot_profile": {"id": "B2"}}, None),
        ({"text": "a", "app_id": "A2"}, None),
    ],
)
def test_what_no_person_edited_is_no_change(
    old: dict[str, Any], new: dict[str, Any] | None
) -> None:
    assert changed(altered(old, new), ME) is None


def test_other_events_and_other_workspaces_change_nothing() -> None:
    assert changed(event(), ME) is None
    assert changed(event(type="reaction_added"), ME) is None
    assert changed(altered({"text": "a"}, {"text": "b"}) | {"team_id": "T2"}, ME) is None


@pytest.mark.parametrize(
    "given",
    [{"message": None}, {"message": "x"}, {"channel": "?"}, {"message": {"ts": "soon"}}],
)
def test_a_change_in_a_shape_that_slack_does_not_send_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(Malformed):
        changed(altered({"text": "a"}, {"text": "b"}, **given), ME)


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
        ("<mailto:a@b.test|a@b.test>", "a@b.test"),
        ("<mailto:a@b.test|write> host=<http://a.test|a.test>", "write (a@b.test) host=a.test"),
        ("<http://b.test|a.test>", "a.test (http://b.test)"),
        ("a&lt;=1 and b&gt;=2", "a<=1 and b>=2"),
        ("a<=1 and b>=2", "a<=1 and b>=2"),
        ("a &lt;b&gt; &amp;amp;", "a <b> &amp;"),
    ],
)
def test_what_a_person_wrote_is_read_without_the_markup_of_slack(text: str, read: str) -> None:
    assert readable(text, "U_BOT") == read


def test_an_opened_tab_is_somebodys_and_says_nothing() -> None:
    body = event(type="app_home_opened", tab="home", ts=None)
    assert opened(body, ME) == Opened("home", Person("U_ANA"), "C_OPS")
    assert heard(body, ME) is None
    assert opened({**body, "team_id": "T2"}, ME) is None


@pytest.mark.parametrize("given", [{"user": "<!here>"}, {"user": None}, {"tab": None}, {"tab": 1}])
def test_a_malformed_opening_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(Malformed):
        opened(event(type="app_home_opened", **({"tab": "home"} | given)), ME)


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


@settings(max_examples=150)
@given(st.sampled_from(KEYS), JSON)
def test_whatever_stands_in_an_event_it_is_read_dropped_or_refused(key: str, value: Any) -> None:
    body = event(text="<@U_BOT> hi")
    body["event"][key] = value
    with contextlib.suppress(Malformed):
        found = heard(body, ME)
        assert found is None or found.place.channel.isascii()


# The stop button, and what a person opened


def stop_event(**given: Any) -> dict[str, Any]:
    inner = {"type": "agent_session_stopped", "thread_ts": "1.000001", "streaming_message_ts": []}
    return event(**(inner | {"channel_type": None, "text": None, "ts": None} | given))


def test_the_stop_button_is_stop_said_in_its_thread() -> None:
    found = stopped(stop_event(streaming_message_ts=["1.000002"]), ME)
    assert found is not None
    assert found.place == Place("slack", "T1", "C_OPS", "1.000001")
    assert found.person.user == "U_ANA"
    assert (found.text, found.keys, found.at_root) == ("stop", ("slack:Ev1",), False)


@pytest.mark.parametrize("given", [{"user": None}, {"thread_ts": None}])
def test_a_stop_without_a_person_or_a_thread_is_nobodys(given: dict[str, Any]) -> None:
    assert stopped(stop_event(**given), ME) is None


def test_a_stop_in_another_workspace_is_not_ours() -> None:
    assert stopped(stop_event() | {"team_id": "T2"}, ME) is None
    assert opened(event(type="app_home_opened", tab="home") | {"team_id": "T2"}, ME) is None


@pytest.mark.parametrize("given", [{"user": 5}, {"channel": "a b"}, {"thread_ts": "soon"}])
def test_a_stop_in_a_shape_that_slack_does_not_send_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(Malformed):
        stopped(stop_event(**given), ME)


def test_what_a_person_opened_is_read() -> None:
    found = opened(event(type="app_home_opened", tab="messages", channel="D1"), ME)
    assert found is not None
    assert (found.tab, found.person.user, found.channel) == ("messages", "U_ANA", "D1")
    assert isinstance(found, Opened)
    with pytest.raises(Malformed):
        opened(event(type="app_home_opened", channel="D1"), ME)


def test_only_a_direct_message_is_direct() -> None:
    one, two = (
        heard(event(channel_type="im", channel="D1"), ME),
        heard(event(thread_ts="0.000001"), ME),
    )
    assert one is not None
    assert one.direct
    assert not one.named
    assert two is not None
    assert not two.direct
