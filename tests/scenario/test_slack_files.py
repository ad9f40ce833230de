"""Fetching files and reading threads: the Slack surface against the strict fake."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web

from adapters.slack import twins
from bot.surface import DeliveryError, Earlier, Place
from tests.fakes.slack import BOT_TOKEN, TEAM
from tests.fakes.slack.web import Bucket
from tests.scenario.slack_world import World, living

PNG = b"\x89PNG\r\n\x1a\n" + b"pixels"
MOST = 1_000_000


@pytest.fixture(params=["http", "socket"])
async def world(request: pytest.FixtureRequest) -> AsyncIterator[World]:
    async for made in living(request.param):
        yield made


@pytest.fixture
async def http() -> AsyncIterator[World]:
    async for made in living("http"):
        yield made


PLACE = Place("slack", TEAM, "C_OPS", "1.000000")


async def fetch(world: World, file: dict[str, Any], most: int = MOST, **changed: Any) -> bytes:
    reference = {"id": file["id"], "url": file["url_private_download"], "size": file["size"]}
    return await world.surface.fetch(PLACE, reference | changed, most)


async def refused(world: World, file: dict[str, Any], **options: Any) -> DeliveryError:
    with pytest.raises(DeliveryError) as error:
        await fetch(world, file, **options)
    assert BOT_TOKEN not in str(error.value)
    return error.value


# --- What people send


async def test_a_mention_with_files_is_heard_once_with_its_files(world: World) -> None:
    file = world.slack.file("a.png", PNG)
    ts = await world.slack.send_files("U_ANA", "C_OPS", [file], "<@U_BOT> look")

    (message,) = world.entry.messages
    assert (message.text, message.source, message.starts) == ("look", ts, True)
    (ref,) = message.files
    assert (ref.name, ref.mime_type, ref.size) == ("a.png", "image/png", len(PNG))
    assert await world.surface.fetch(message.place, ref.reference, MOST) == PNG


async def test_a_mention_whose_other_event_does_not_come_is_heard_all_the_same(
    http: World,
) -> None:
    http.slack.bot_events -= {"message"}
    file = http.slack.file("a.png", PNG)
    await http.slack.send_files("U_ANA", "C_OPS", [file], "<@U_BOT> look")

    (message,) = http.entry.messages
    assert (message.text, message.files) == ("look", ())


async def test_of_a_mention_the_event_that_has_the_files_goes_first(
    http: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(twins, "SECONDS", 60.0)
    http.slack.bot_events -= {"message"}
    file = http.slack.file("a.png", PNG)
    sending = asyncio.create_task(http.slack.send_files("U_ANA", "C_OPS", [file], "<@U_BOT> look"))
    await http.slack.until(lambda: http.slack.world.channels["C_OPS"].messages)
    await asyncio.sleep(0.1)
    assert http.entry.messages == []
    (stored,) = http.slack.world.channels["C_OPS"].messages.values()
    await http.slack.send_event(stored | {"channel": "C_OPS", "channel_type": "channel"})
    assert [len(one.files) for one in http.entry.messages] == [1]
    await sending

    assert len(http.entry.messages) == 1
    assert all(delivery.acked for _, delivery in http.slack.deliveries.sent)


async def test_a_file_alone_is_heard_in_a_thread_and_in_a_direct_message(http: World) -> None:
    place = await http.thread()
    file = http.slack.file("a.txt", b"hello")
    await http.slack.send_files("U_ANA", "C_OPS", [file], thread_ts=place.root)
    direct = http.slack.direct_channel("U_ANA")
    await http.slack.send_files("U_ANA", direct, [file])

    assert [(one.text, len(one.files)) for one in http.entry.messages] == [("", 1), ("", 1)]


# --- Downloads


async def test_a_file_is_fetched_with_our_token(http: World) -> None:
    file = http.slack.file("log of today.txt", b"hello")

    assert await fetch(http, file) == b"hello"
    assert http.slack.world.downloads == [(file["id"], BOT_TOKEN)]


@pytest.mark.row("B86")
async def test_a_login_page_is_no_file(http: World) -> None:
    http.slack.world.scopes.discard("files:read")

    error = await refused(http, http.slack.file("a.png", PNG))

    assert str(error) == "Slack answered with a login page; an admin has to add files:read"
    assert error.permanent


@pytest.mark.row("B86")
@pytest.mark.parametrize("name", ["a.png", "a.txt", "a.html"])
async def test_a_login_page_that_comes_as_the_file_itself_is_none(http: World, name: str) -> None:
    """HTTP 200 and text/html at the file's own address, as cc-connect#185 saw it."""
    file = http.slack.file(name, b"<!DOCTYPE html><title>Sign in</title>", size=70_000)

    assert "login page" in str(await refused(http, file))


async def test_a_page_that_a_person_sent_is_a_file(http: World) -> None:
    page = b"<!DOCTYPE html><title>Our runbook</title>"

    assert await fetch(http, http.slack.file("runbook.html", page)) == page


async def test_the_token_goes_nowhere_but_to_slack(http: World) -> None:
    seen: list[str] = []

    async def elsewhere(request: web.Request) -> web.Response:
        seen.append(request.path)
        return web.Response(body=PNG)

    app = web.Application()
    app.router.add_get("/{rest:.*}", elsewhere)
    runner = web.AppRunner(app, shutdown_timeout=1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    address = "http://{}:{}/a.png".format(*runner.addresses[0][:2])
    try:
        moved = http.slack.file("a.png", PNG, moved_to=address)
        assert "outside of Slack" in str(await refused(http, moved))
        assert "outside of Slack" in str(await refused(http, moved, url=address))
    finally:
        await runner.cleanup()
    assert seen == []


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("", "Slack gave no address for it"),
        ("files-pri/T1-F1/a.png", "Slack gave no address for it"),
        ("http://[", "Slack gave no address for it"),
        ("file:///etc/passwd", "Slack gave no address for it"),
        ("https://files.slack.com.evil.test/a.png", "it is kept outside of Slack"),
        ("https://docs.example.com/a", "it is kept outside of Slack"),
    ],
)
async def test_an_address_that_is_none_of_slacks_is_not_visited(
    http: World, url: str, said: str
) -> None:
    file = http.slack.file("a.png", PNG, url_private="", url_private_download="")
    error = await refused(http, file, url=url)

    assert str(error) == said
    assert error.permanent


async def test_a_file_that_is_moved_within_slack_is_followed(http: World) -> None:
    there = http.slack.file("b.png", PNG)
    here = http.slack.file("a.png", b"", moved_to=there["url_private"])

    assert await fetch(http, here) == PNG


async def test_a_file_that_is_moved_in_a_circle_is_given_up(http: World) -> None:
    file = http.slack.file("a.png", b"")
    file["moved_to"] = file["url_private"]

    assert (await refused(http, file)).permanent
    assert len(http.slack.world.downloads) == 3


async def test_a_file_is_not_read_beyond_the_most(http: World) -> None:
    file = http.slack.file("a.bin", b"x" * 3_000_001, size=10)

    assert len(await fetch(http, file, most=3_000_001)) == 3_000_001
    error = await refused(http, file, most=3_000_000)
    assert str(error) == "it is larger than 3 MB"
    assert error.permanent


@pytest.mark.parametrize(
    ("fault", "said", "retry_after", "permanent"),
    [
        ({"status": 500}, "status 500", None, False),
        ({"status": 429, "retry_after": 7.0}, "asked to wait", 7.0, False),
        ({"status": 404}, "not in Slack any more", None, True),
        ({"status": 403}, "files:read", None, True),
        ({"status": 418}, "status 418", None, True),
    ],
)
async def test_a_failed_download_says_whether_and_when_to_try_again(
    http: World, fault: dict[str, Any], said: str, retry_after: float | None, permanent: bool
) -> None:
    http.slack.fail_next("download", **fault)
    error = await refused(http, http.slack.file("a.png", PNG))

    assert said in str(error)
    assert (error.retry_after, error.permanent) == (retry_after, permanent)


async def test_a_download_whose_connection_dropped_may_be_tried_again(http: World) -> None:
    file = http.slack.file("a.png", PNG)
    http.slack.drop_next("download", times=2)  # aiohttp asks again by itself, once
    assert not (await refused(http, file)).permanent

    assert await fetch(http, file) == PNG


async def test_a_file_of_another_organisation_is_looked_up_by_its_id(http: World) -> None:
    file = http.slack.file("a.png", PNG)

    assert await fetch(http, file, url="") == PNG
    assert "not in Slack any more" in str(await refused(http, file, url="", id="F_NONE"))
    assert "which file" in str(await refused(http, file, url="", id=""))
    http.slack.world.scopes.discard("files:read")
    assert "files:read" in str(await refused(http, file, url=""))


# --- Threads


async def before(world: World, root: str, ts: str) -> Earlier:
    return await world.surface.earlier(Place("slack", TEAM, "C_OPS", root), ts)


async def test_a_thread_is_read_up_to_the_mention_with_people_and_programs(http: World) -> None:
    slack = http.slack
    root = await slack.bot_message("C_OPS", "checkout is <https://x.test|slow>")
    slack.world.channels["C_OPS"].messages[root] |= {
        "attachments": [
            {"title": "Alert", "text": "p99 is 4 s", "fields": [{"title": "host", "value": "a1"}]}
        ]
    }
    await slack.send_files("U_BEN", "C_OPS", [slack.file("a.png", PNG)], "see &lt;this&gt;", root)
    ts = await slack.mention("U_ANA", "C_OPS", "what is this?", root)
    await slack.say("U_CYN", "C_OPS", "later", root)

    alert, ben = (await before(http, root, ts)).messages

    assert alert.bot
    assert alert.text == "checkout is slow (https://x.test)\nAlert\np99 is 4 s\nhost: a1"
    assert (ben.name, ben.bot, ben.text, ben.files) == ("ben", False, "see <this>", ("a.png",))
    assert ben.at == pytest.approx(http.clock.now(), abs=1)


async def test_an_alert_whose_words_are_in_its_blocks_is_read(http: World) -> None:
    root = await http.slack.bot_message("C_OPS", "")
    blocks = [
        {"type": "header", "text": {"type": "plain_text", "text": "Firing"}},
        {"type": "section", "fields": [{"type": "mrkdwn", "text": "host a1"}]},
        {"type": "actions", "elements": [{"type": "button", "text": {"text": "Mute"}}]},
    ]
    http.slack.world.channels["C_OPS"].messages[root] |= {"blocks": blocks}
    ts = await http.slack.mention("U_ANA", "C_OPS", "what is this?", root)

    (alert,) = (await before(http, root, ts)).messages

    assert alert.text == "Firing\nhost a1\nMute"


async def test_of_a_long_thread_its_beginning_and_its_end_are_read(http: World) -> None:
    slack = http.slack
    root = await slack.say("U_BEN", "C_OPS", "the beginning")
    where = slack.world.channels["C_OPS"]
    for number in range(1_200):
        said = {"user": "U_BEN", "text": str(number), "thread_ts": root}
        slack.world.store(where, said)
    ts = await slack.mention("U_ANA", "C_OPS", "what is this?", root)

    found = await before(http, root, ts)

    assert [one.text for one in found.messages] == [
        "the beginning",
        *map(str, range(1_151, 1_200)),
    ]
    assert (found.left_out, found.missing) == (1_151, "")
    assert len(slack.calls_of("conversations.replies")) == 2


async def test_a_thread_without_an_end_is_read_as_far_as_is_reasonable(http: World) -> None:
    root = await http.slack.say("U_BEN", "C_OPS", "the beginning")
    where = http.slack.world.channels["C_OPS"]
    for number in range(3_500):
        http.slack.world.store(where, {"user": "U_BEN", "text": str(number), "thread_ts": root})
    ts = await http.slack.mention("U_ANA", "C_OPS", "what is this?", root)

    found = await before(http, root, ts)

    assert found.missing == "the thread is too long"
    assert len(http.slack.calls_of("conversations.replies")) == 3


async def test_a_thread_that_is_read_in_part_says_why(http: World) -> None:
    """Apps that are sold outside of the marketplace get 15 messages of a thread, once a minute."""
    slack = http.slack
    root = await slack.say("U_BEN", "C_OPS", "the beginning")
    where = slack.world.channels["C_OPS"]
    for number in range(1_200):
        slack.world.store(where, {"user": "U_BEN", "text": str(number), "thread_ts": root})
    ts = await slack.mention("U_ANA", "C_OPS", "what is this?", root)
    once_a_minute = Bucket(1, 1 / 60, 1, http.clock.now())
    slack.api.buckets["conversations.replies"] = once_a_minute

    found = await before(http, root, ts)

    assert found.missing == "Slack answered ratelimited"
    assert len(found.messages) == 50


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ({"error": "missing_scope"}, "Slack answered missing_scope"),
        ({"error": "thread_not_found"}, "Slack answered thread_not_found"),
        ({"status": 429, "retry_after": 60}, "Slack answered ratelimited"),
        ({"status": 503}, "Slack answered status 503"),
    ],
)
async def test_a_thread_that_cannot_be_read_says_why(
    http: World, fault: dict[str, Any], said: str
) -> None:
    root = await http.slack.say("U_BEN", "C_OPS", "the beginning")
    http.slack.fail_next("conversations.replies", **fault)

    with pytest.raises(DeliveryError, match=said):
        await before(http, root, "9999999999.000000")


async def test_an_author_slack_says_nothing_about_goes_by_the_id(http: World) -> None:
    root = await http.slack.say("U_BEN", "C_OPS", "the beginning")
    http.slack.fail_next("users.info", error="user_not_found")

    (found,) = (await before(http, root, "9999999999.000000")).messages

    assert (found.name, found.bot) == ("U_BEN", False)


# --- Edits and deletions


async def test_an_edit_and_a_deletion_are_told_once_and_start_nothing(world: World) -> None:
    slack = world.slack
    root = await slack.mention("U_ANA", "C_OPS", "restart staging")
    world.entry.messages.clear()
    await slack.edit("U_ANA", "C_OPS", root, "<@U_BOT> restart prod")
    await slack.redeliver_last()
    reply = await slack.say("U_ANA", "C_OPS", "hurry", root)
    world.entry.messages.clear()
    await slack.delete("U_ANA", "C_OPS", reply)
    await slack.delete("U_ANA", "C_OPS", root)

    edited, gone = world.entry.changes[:2]
    place = Place("slack", TEAM, "C_OPS", root)
    assert (edited.place, edited.source, edited.text) == (place, root, "restart prod")
    assert (gone.place, gone.source, gone.text) == (place, reply, None)
    assert len(world.entry.changes) == 3
    assert world.entry.messages == []


async def test_a_root_that_is_deleted_under_its_answers_is_deleted(http: World) -> None:
    root = await http.slack.mention("U_ANA", "C_OPS", "restart staging")
    await http.slack.say("U_BEN", "C_OPS", "why?", root)
    await http.slack.delete("U_ANA", "C_OPS", root)

    (gone,) = http.entry.changes
    assert (gone.source, gone.text, gone.place.root) == (root, None, root)


async def test_a_link_that_unfolds_and_the_edits_of_a_program_are_no_edits(http: World) -> None:
    root = await http.slack.mention("U_ANA", "C_OPS", "see https://x.test")
    await http.slack.unfurl("C_OPS", root)
    beep = await http.slack.bot_message("C_OPS", "beep", root)
    await http.slack.edit("U_OTHER_BOT", "C_OPS", beep, "boop")
    await http.slack.delete("U_OTHER_BOT", "C_OPS", beep)

    assert http.entry.changes == []


async def test_a_change_that_was_not_stored_comes_again(http: World) -> None:
    root = await http.slack.mention("U_ANA", "C_OPS", "restart staging")
    http.entry.failing = 2
    await http.slack.edit("U_ANA", "C_OPS", root, "<@U_BOT> restart prod")
    assert http.entry.changes == []
    http.clock.advance(60)
    await http.slack.redeliver()

    assert [one.text for one in http.entry.changes] == ["restart prod"]
