"""What Teams sends, translated."""

from __future__ import annotations

import contextlib
import copy
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from adapters.teams.events import (
    Edited,
    Heard,
    Malformed,
    Present,
    Pressed,
    is_person,
    read,
    thread_of,
)
from bot.surface import Place

TENANT = "aaaaaaaa-0000-0000-0000-00000000000a"
ANA = "00000000-0000-0000-0000-000000000001"
BOT = "28:11111111-2222-3333-4444-555555555555"
CHANNEL = "19:ops@thread.tacv2"


def activity(**given: Any) -> dict[str, Any]:
    return {
        "type": "message",
        "id": "1700",
        "channelId": "msteams",
        "serviceUrl": "https://smba.trafficmanager.net/emea/",
        "from": {"id": "29:ana", "name": "Ana", "aadObjectId": ANA},
        "recipient": {"id": BOT, "name": "Ops"},
        "conversation": {"id": f"{CHANNEL};messageid=1699", "conversationType": "channel"},
        "text": "<at>Ops</at> restart it",
        "entities": [{"type": "mention", "mentioned": {"id": BOT}, "text": "<at>Ops</at>"}],
    } | given


def heard(**given: Any) -> Heard:
    event = read(activity(**given), TENANT)
    assert isinstance(event, Heard)
    return event


def pressed(**given: Any) -> Pressed:
    value = {"action": {"type": "Action.Execute", "verb": "approve", "data": {"interlock": "n"}}}
    event = read(
        activity(
            type="invoke", name="adaptiveCard/action", value=value, text=None, replyToId="1701"
        )
        | given,
        TENANT,
    )
    assert isinstance(event, Pressed)
    return event


def test_a_reply_in_a_thread_of_a_channel() -> None:
    said = heard()
    assert said.place == Place("teams", TENANT, CHANNEL, "1699")
    assert thread_of(said.place) == f"{CHANNEL};messageid=1699"
    assert said.person.user == ANA
    assert said.text == "restart it"
    assert said.named
    assert said.starts
    assert said.conversation.address == "https://smba.trafficmanager.net/emea/"
    assert said.conversation.bot == BOT


def test_a_chat_without_threads_is_one_place() -> None:
    for kind, id_ in (("personal", "a:1x-y_z"), ("groupChat", "19:g@thread.v2")):
        said = heard(conversation={"id": id_, "conversationType": kind}, entities=[], text="hi")
        assert said.place == Place("teams", TENANT, id_, "chat")
        assert thread_of(said.place) == id_
        assert said.starts is (kind == "personal")


def test_a_post_in_a_channel_is_its_own_root() -> None:
    said = heard(conversation={"id": CHANNEL, "conversationType": "channel"})
    assert said.place.root == "1700"


@pytest.mark.parametrize(
    ("text", "read_as"),
    [
        ("<at>Ops</at>&nbsp;restart it", "restart it"),
        ("  <at>Ops</at> restart the Ops box", "restart the Ops box"),
        ("restart <at>Ops</at> box", "restart @Ops box"),
        ("<at>Ops</at> ask <at>Ben</at>", "ask @Ben"),
        ('<at>Ops</at> <at id="0">Ben</at> knows', "@Ben knows"),
        ("<at>Ops</at> <at>Ops</at> twice", "@Ops twice"),
        ("<at>Ops</at> a &lt;b&gt; &amp;amp; c", "a <b> &amp; c"),
        ("<at>Ops</at>", ""),
        ("", ""),
        (None, ""),
        ("<at>Ops</at> a\x00b\ud800", "a\ufffdb\ufffd"),
    ],
)
def test_only_the_mention_that_calls_is_taken_away(text: str | None, read_as: str) -> None:
    assert heard(text=text).text == read_as


def test_a_second_mention_of_the_bot_is_part_of_what_is_said() -> None:
    mention = {"type": "mention", "mentioned": {"id": BOT}, "text": "<at>Ops</at>"}
    said = heard(text="<at>Ops</at> <at>Ops</at> again", entities=[mention, mention])
    assert said.text == "@Ops again"


def test_a_mention_of_somebody_else_does_not_call() -> None:
    mention = {"type": "mention", "mentioned": {"id": "29:ben"}, "text": "<at>Ops</at>"}
    said = heard(entities=[mention])
    assert not said.named
    assert said.text == "@Ops restart it"


@pytest.mark.parametrize(
    "sender",
    [
        {"id": "28:other-bot", "aadObjectId": ANA},
        {"id": "29:ana"},
        {"id": "29:ana", "aadObjectId": None},
        {"id": "29:ana", "aadObjectId": ANA, "role": "bot"},
    ],
)
def test_who_is_no_person_of_entra_says_nothing(sender: dict[str, Any]) -> None:
    assert read(activity(**{"from": sender}), TENANT) is None
    with pytest.raises(Malformed):
        pressed(**{"from": sender})


def test_a_click_is_believed_in_nothing_but_its_nonce_and_verb() -> None:
    data = {"interlock": "n0nce", "do": "decline", "user": "29:ben", "tenantId": "x", "f0": "1"}
    value = {"action": {"verb": "approve", "data": data}, "trigger": "manual"}
    click = pressed(value=value)
    assert (click.verb, click.nonce, click.message) == ("approve", "n0nce", "1701")
    assert click.person.user == ANA
    assert click.place == Place("teams", TENANT, CHANNEL, "1699")
    assert click.inputs["f0"] == "1"
    assert click.invoked


def test_a_nonce_is_one_that_every_database_takes() -> None:
    click = pressed(value={"action": {"verb": "approve", "data": {"interlock": "a\x00\ud800"}}})
    assert click.nonce == "a\ufffd\ufffd"


def test_an_old_client_sends_a_message_with_the_data() -> None:
    event = read(
        activity(text=None, value={"interlock": "n", "do": "note", "note": "no"}, replyToId="1701"),
        TENANT,
    )
    assert isinstance(event, Pressed)
    assert (event.verb, event.nonce, event.invoked) == ("note", "n", False)


@pytest.mark.parametrize(
    "value", [None, {}, {"action": {}}, {"action": {"data": {"interlock": 7, "do": "approve"}}}]
)
def test_a_click_of_the_wrong_shape(value: Any) -> None:
    with pytest.raises(Malformed):
        pressed(value=value)


def test_files_are_named_and_nothing_else_of_them_is_believed() -> None:
    said = heard(
        attachments=[
            {"contentType": "text/html", "content": "<p>restart it</p>"},
            {"contentType": "image/png", "contentUrl": "https://evil.test/x.png"},
            {
                "contentType": "application/vnd.microsoft.teams.file.download.info",
                "name": "log.txt",
                "content": {"downloadUrl": "https://evil.test"},
            },
            "odd",
        ]
    )
    assert [(one.name, one.mime_type) for one in said.files] == [
        ("a file", "image/png"),
        ("log.txt", ""),
    ]
    assert "evil" not in str(said.files)


def test_an_edit_and_a_deletion() -> None:
    edited = read(activity(type="messageUpdate", timestamp="T1"), TENANT)
    deleted = read(activity(type="messageDelete", text=None), TENANT)
    assert isinstance(edited, Edited)
    assert isinstance(deleted, Edited)
    assert (edited.change.source, edited.change.text) == ("1700", "restart it")
    assert deleted.change.text is None
    assert edited.change.keys != deleted.change.keys


def test_where_the_bot_is() -> None:
    came = read(activity(type="installationUpdate", action="add"), TENANT)
    went = read(activity(type="installationUpdate", action="remove"), TENANT)
    left = read(activity(type="conversationUpdate", membersRemoved=[{"id": BOT}]), TENANT)
    other = read(activity(type="conversationUpdate", membersRemoved=[{"id": "29:x"}]), TENANT)
    gone = [one.gone for one in (came, went, left, other) if isinstance(one, Present)]
    assert gone == [False, True, True, False]


@pytest.mark.parametrize(
    "wrong",
    [
        {"conversation": None},
        {"conversation": {"id": "19:x;messageid="}},
        {"conversation": {"id": "19:x;messageid=1;messageid=2"}},
        {"conversation": {"id": "19:x/../members"}},
        {"conversation": {"id": "x" * 201}},
        {"recipient": None},
        {"id": None},
        {"id": "a b"},
        {"from": "29:ana"},
        {"from": {"id": "29:ana", "aadObjectId": "ana"}},
        {"text": 7},
        {"entities": "x"},
    ],
)
def test_what_teams_does_not_send(wrong: dict[str, Any]) -> None:
    with pytest.raises(Malformed):
        read(activity() | wrong, TENANT)


ODD: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.integers(),
    st.floats(),
    st.text(max_size=5),
    st.sampled_from([[], {}, [[]], [{}], True, "\ud800", "\x00", "a" * 300]),
)
KINDS = ("message", "invoke", "messageUpdate", "messageDelete", "installationUpdate")


@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.data())
def test_whatever_is_odd_about_an_activity_it_is_refused_and_nothing_else(data: Any) -> None:
    sent = copy.deepcopy(activity(type=data.draw(st.sampled_from(KINDS))))
    sent |= {"timestamp": "2026-11-30T20:00:00.000Z", "entities": [], "attachments": []}
    sent |= {"name": "adaptiveCard/action", "value": {"action": {"data": {"interlock": "n"}}}}
    for key in data.draw(st.lists(st.sampled_from(sorted(sent)), max_size=3)):
        if isinstance(sent[key], dict) and sent[key] and data.draw(st.booleans()):
            sent[key][data.draw(st.sampled_from(sorted(sent[key])))] = data.draw(ODD)
        elif key not in ("type", "serviceUrl"):  # the gate has looked at those
            sent[key] = data.draw(ODD)
    with contextlib.suppress(Malformed):
        read(sent, TENANT)


def test_an_edit_is_read_whatever_stands_in_its_time() -> None:
    edited = read(activity(type="messageUpdate", timestamp="\ud800"), TENANT)
    assert isinstance(edited, Edited)


def test_a_person_is_a_place_without_a_root() -> None:
    assert is_person(Place("teams", TENANT, ANA, ""))
    assert not is_person(Place("teams", TENANT, ANA, "chat"))
    assert not is_person(Place("teams", TENANT, CHANNEL, ""))
