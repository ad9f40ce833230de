"""Text for Slack: inert whatever it says, and nothing lost when it is cut."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adapters.slack import limits
from adapters.slack.blocks import message
from adapters.slack.text import (
    chunks,
    escape,
    inert_markdown,
    link,
    plain,
    sections,
    shorten,
    split,
)
from bot.surface import Reply
from tests.fakes.slack.blocks import validate_blocks
from tests.fakes.slack.pings import pings_in

HOSTILE = st.one_of(
    st.sampled_from(
        [
            "<!channel>",
            "<!here|here>",
            "<@U123>",
            "<#C123|general>",
            "<!subteam^S1>",
            "<https://evil.test|Approve>",
            "&lt;!channel&gt;",
            "&amp;lt;!channel>",
            "```",
            "``",
            "`",
            "\\`",
            "[x](https://ok.test)",
            "[<!here>](https://ok.test/a|b)",
            "![<@U1>](https://ok.test/p.png)",
            "[y](javascript:alert)",
            "<https://ok.test/<!here>>",
            "https://ok.test/?a=<!channel>&b",
            "**",
            "_",
            "~~",
            "> ",
            "- ",
            "1. ",
            "# ",
            "| a | b |\n|---|---|\n| <!here> | x |\n",
            "\n",
            "\n\n",
            "    ",
            " ",
            "[r]: https://ok.test\n",
            "&#60;!here&#62;",
        ]
    ),
    st.text(max_size=8),
)
TEXTS = st.lists(HOSTILE, max_size=25).map("".join)


def shown_with(text: str) -> dict[str, object]:
    return {"ts": "1.000001", **message(Reply(text), "T1")}


@settings(max_examples=300, deadline=None)
@given(TEXTS)
def test_whatever_the_model_says_pings_nobody_and_links_only_to_web_addresses(text: str) -> None:
    for ping in pings_in(shown_with(text), "C1"):
        assert ping.kind == "link", ping
        assert re.match(r"<https?://", ping.token), ping


@settings(max_examples=200, deadline=None)
@given(TEXTS)
def test_whatever_the_model_says_slack_takes_the_message(text: str) -> None:
    for part in split(text):
        shown = message(Reply(part), "T1")
        assert validate_blocks(shown["blocks"]) == []
        assert 0 < len(shown["text"]) <= limits.FALLBACK_TEXT


@settings(max_examples=200, deadline=None)
@given(st.text())
def test_escaped_text_has_no_token_and_reads_as_it_was(text: str) -> None:
    escaped = escape(text)
    assert "<" not in escaped
    assert ">" not in escaped
    back = escaped.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
    assert back == text


@pytest.mark.parametrize(
    ("markdown", "drawn"),
    [
        ("**bold** and *italic* and ~~gone~~", "*bold* and _italic_ and ~gone~"),
        ("# A *title*", "*A _title_*"),
        ("# A **title**", "*A title*"),
        ("run `a < b`", "run `a &lt; b`"),
        ("run ``a`b``", "run a`b"),
        ("- one\n- two\n  - three", "• one\n• two\n    • three"),
        ("3. one\n4. two", "3. one\n4. two"),
        ("> said\n> so", "> said\n> so"),
        ("<b>html</b>", "&lt;b&gt;html&lt;/b&gt;"),
        ("```py\na < b\n```", "```\na &lt; b\n```"),
        ("    code", "```\ncode\n```"),
        ("a\n\nb", "a\n\nb"),
        ("snake_case_name 2 * 3", "snake_case_name 2 * 3"),
    ],
)
def test_markdown_becomes_the_markup_of_slack(markdown: str, drawn: str) -> None:
    assert sections(markdown) == [drawn]


def test_a_table_is_preformatted_and_aligned() -> None:
    [drawn] = sections("| name | n |\n|---|---|\n| a<b | 10 |\n| longer | 2 |")
    assert drawn == "```\nname   | n\n-------+---\na&lt;b    | 10\nlonger | 2\n```"


def test_backticks_of_a_text_never_make_a_fence() -> None:
    [drawn] = sections("\\`\\`\\` not a fence")
    assert "```" not in drawn


def test_a_fence_inside_a_fence_does_not_end_it() -> None:
    [drawn] = sections("````\n```\ninner\n```\n````")
    assert drawn.count("```") == 2
    assert drawn.startswith("```\n")
    assert drawn.endswith("\n```")


@pytest.mark.parametrize(
    ("address", "label", "token"),
    [
        ("https://a.test/x", "runbook", "<https://a.test/x|runbook> (a.test)"),
        ("https://a.test", "a.test", "<https://a.test|a.test>"),
        ("https://a.test/x", "https://a.test/x", "<https://a.test/x|https://a.test/x>"),
        ("https://good.test@evil.test/", "", "<https://good.test@evil.test/> (evil.test)"),
        ("https://a.test/?a|b<c>", "x", "<https://a.test/?a%7Cb%3Cc%3E|x> (a.test)"),
        ("https://a.test/?a=1&b=2", "x", "<https://a.test/?a=1&amp;b=2|x> (a.test)"),
        ("javascript:alert(1)", "x", "x (javascript:alert(1))"),
        ("https://[", "x", "x (https://[)"),
        ("https://a.test", "<!here>", "<https://a.test|&lt;!here&gt;> (a.test)"),
    ],
)
def test_a_link_shows_its_host_and_leads_only_to_the_web(
    address: str, label: str, token: str
) -> None:
    assert link(address, label) == token


def test_a_bare_address_is_a_link_that_shows_itself_without_the_full_stop() -> None:
    assert sections("See https://a.test/x_y.") == ["See <https://a.test/x_y|https://a.test/x_y>."]


def test_other_names_are_never_linked() -> None:
    [block] = message(Reply("ask @here in #general at a.test"), "T1")["blocks"]
    assert block["text"]["verbatim"] is True


def test_a_long_fence_is_closed_and_opened_again_in_every_section() -> None:
    code = "\n".join(f"line {n} & more" for n in range(600))
    drawn = sections(f"```\n{code}\n```")
    assert len(drawn) > 1
    for section in drawn:
        assert len(section) <= limits.SECTION
        assert section.startswith("```\n")
        assert section.endswith("\n```")
    lines = [line for section in drawn for line in section.split("\n") if line != "```"]
    assert lines == [escape(line) for line in code.split("\n")]


def test_no_section_is_cut_inside_an_entity_or_a_link() -> None:
    text = "a&" * 3_000 + "https://a.test/" + "x" * 900
    drawn = sections(text)
    assert all(len(section) <= limits.SECTION for section in drawn)
    assert "".join(drawn).count("&amp;") == 3_000
    for section in drawn:
        assert section.count("<") == section.count(">")
        assert not re.search(r"&(?!amp;|lt;|gt;)", section)


def test_a_short_text_is_one_part() -> None:
    assert split("hello\n\nworld") == ["hello\n\nworld"]
    assert split("") == [""]


@settings(max_examples=25, deadline=None)
@given(
    st.lists(
        st.text("ab <>&\n", min_size=1, max_size=40).map(lambda text: text * 60),
        min_size=1,
        max_size=12,
    )
)
def test_every_part_fits_one_message_and_nothing_is_left_out(texts: list[str]) -> None:
    whole = "\n\n".join(texts)
    parts = split(whole)
    assert "".join(parts) == whole
    for part in parts:
        assert sum(map(len, sections(part))) <= limits.MESSAGE_TEXT


def test_a_long_fence_is_split_into_fences() -> None:
    code = "".join(f"line {n}\n" for n in range(3_000))
    parts = split(f"before\n\n```sh\n{code}```\n\nafter")
    fenced = [line for part in parts for line in part.split("\n") if line.startswith("line ")]
    assert "\n".join(fenced) + "\n" == code
    assert all(part.count("```") % 2 == 0 for part in parts)
    assert "after" in parts[-1]


def test_text_nested_too_deep_to_draw_is_shown_as_it_is() -> None:
    text = ">" * 60 + " <!here> deep"
    assert sections(text) == [escape(text)]


def test_a_cut_is_visible_and_never_longer() -> None:
    assert shorten("abc", 3) == "abc"
    assert shorten("a" * 100, 50).endswith("… (cut)")
    assert len(shorten("a" * 10_000, 50)) <= 50
    assert len(shorten("abcdef", 3)) == 3
    assert plain("  ")["text"] == "—"


@settings(max_examples=100, deadline=None)
@given(st.text(), st.integers(2, 20))
def test_chunks_joined_are_the_text(text: str, size: int) -> None:
    pieces = chunks(text, size)
    assert "".join(pieces) == text
    assert all(len(piece) <= size for piece in pieces)


# --- Text that streams


@pytest.mark.row("B84")
@settings(max_examples=300, deadline=None)
@given(TEXTS)
def test_in_a_stream_whatever_the_model_says_pings_nobody_and_links_nothing(text: str) -> None:
    assert pings_in({"markdown_text": inert_markdown(text), "ts": "1.000001"}, "C1") == []


@settings(max_examples=200, deadline=None)
@given(TEXTS, TEXTS)
def test_what_streams_of_a_text_is_how_more_of_it_begins(text: str, more: str) -> None:
    assert inert_markdown(text + more).startswith(inert_markdown(text))


@settings(max_examples=200, deadline=None)
@given(TEXTS)
def test_what_streams_is_the_text_with_nothing_to_be_seen_added(text: str) -> None:
    shown = inert_markdown(text).replace("\u200b", "")
    back = shown.replace("&lt;", "<").replace("&gt;", ">")
    assert back == text.replace("\u200b", "").replace("&lt;", "<").replace("&gt;", ">")


@pytest.mark.parametrize(
    "text",
    [
        "[Approve](https://evil.test)",
        "[Approve][1]\n\n[1]: https://evil.test",
        "![pixel](https://evil.test/p.png?secret)",
        "https://evil.test/?secret",
        "<https://evil.test>",
    ],
)
def test_in_a_stream_nothing_leads_anywhere(text: str) -> None:
    shown = inert_markdown(text)
    assert not re.search(r"\]\(|\]\[|\]:|://|<", shown)
