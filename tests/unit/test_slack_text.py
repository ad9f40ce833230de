"""Text for Slack: inert whatever it says, and nothing lost when it is cut."""

import re

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from adapters.slack import limits
from adapters.slack.blocks import message
from adapters.slack.parts import split
from adapters.slack.text import (
    escape,
    inert_markdown,
    link,
    plain,
    sections,
    shorten,
)
from bot.confusable import imitations
from bot.surface import Reply
from bot.text import chunks, visible
from tests.fakes.slack import text_of
from tests.fakes.slack.blocks import message_error, validate_blocks
from tests.fakes.slack.pings import pings_in
from tests.hostile import read_back

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


@settings(max_examples=300)
@given(TEXTS)
def test_whatever_the_model_says_pings_nobody_and_links_only_to_web_addresses(text: str) -> None:
    for ping in pings_in(shown_with(text), "C1"):
        assert ping.kind == "link", ping
        assert re.match(r"<https?://", ping.token), ping


@settings(max_examples=200)
@given(TEXTS)
def test_whatever_the_model_says_slack_takes_the_message(text: str) -> None:
    for part in split(text):
        shown = message(Reply(part), "T1")
        assert validate_blocks(shown["blocks"]) == []
        assert 0 < len(shown["text"]) <= limits.FALLBACK_TEXT


@settings(max_examples=200)
@given(st.text())
def test_escaped_text_has_no_token_and_reads_as_it_was(text: str) -> None:
    escaped = escape(text)
    assert "<" not in escaped
    assert ">" not in escaped
    back = escaped.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
    assert back == visible(text, part=True)


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


@pytest.mark.row("B82")
def test_text_table_text_table_keep_their_order() -> None:
    [drawn] = sections("before\n\n| a |\n|---|\n| 1 |\n\nbetween\n\n| b |\n|---|\n| 2 |\n\nafter")
    places = [drawn.index(text) for text in ("before", "a\n-\n1", "between", "b\n-\n2", "after")]
    assert places == sorted(places)
    assert "|" not in drawn


@pytest.mark.row("B80")
@pytest.mark.parametrize(
    ("table", "drawn"),
    [
        ("| a | b |\n|---|---|\n| | |", "a | b\n--+--\n  |"),
        ("| | |\n|---|---|\n| 1 | |", "  |\n--+-\n1 |"),
        ("| a |\n|---|", "a\n-"),
        ("| a | b |\n|---|---|\n| 1 |", "a | b\n--+--\n1 |"),
        (
            "| a |\n|---|\n| 1 | **2** | [x](https://a.test) |",
            "a |   |\n--+---+-------------------\n1 | 2 | x (https://a.test)",
        ),
        ("> | a |\n> |---|\n> | 1 | 2 |", "a |\n--+--\n1 | 2"),
        ("| a |\n|---|\n| x\\|y | z\\|w |", "a   |\n----+----\nx|y | z|w"),
        (f"| a | b |\n|---|---|\n| {'x' * 200} | 1 |\n| | 2 |", f"a: {'x' * 200}\nb: 1\n\na\nb: 2"),
        (f"| {'h' * 200} | b |\n|---|---|", f"{'h' * 200}\nb"),
    ],
)
def test_odd_tables_are_drawn_with_every_cell(table: str, drawn: str) -> None:
    [whole] = sections(table)
    lines = [line.rstrip() for line in whole.removeprefix(">\n").split("\n")]
    assert "\n".join(lines[1:-1]) == drawn


CELL = st.text(st.characters(exclude_categories=["C", "Z", "P", "S"]), max_size=70)


@pytest.mark.row("B80")
@settings(max_examples=60)
@given(st.integers(1, 5), st.lists(st.lists(CELL, max_size=7), max_size=30))
def test_every_cell_of_a_table_is_shown(columns: int, rows: list[list[str]]) -> None:
    head = "|" + "h|" * columns + "\n|" + "---|" * columns + "\n"
    table = head + "".join(
        "|" + "".join(f" {cell} |" for cell in row) + "\n" for row in rows if row
    )
    drawn = read_back("\n\n".join(sections(table)))  # what imitates depends on its neighbours
    for row in rows:
        for cell in row:
            assert read_back(visible(cell)) in drawn


def table_of(name: str, rows: int) -> str:
    body = "".join(f"| {name}{n} | {'v' * 40} |\n" for n in range(rows))
    return f"| name | value |\n|---|---|\n{body}"


@pytest.mark.row("B81")
def test_two_tables_of_6000_characters_in_one_reply_are_both_whole() -> None:
    parts = split(f"First:\n\n{table_of('a', 110)}\nSecond:\n\n{table_of('b', 110)}\nEnd.")
    shown = [message(Reply(part), "T1") for part in parts]
    for payload in shown:
        assert message_error(payload["text"], payload["blocks"], None) is None
    whole = "\n".join(map(text_of, shown))
    assert all(f"{name}{n} " in whole for name in "ab" for n in range(110))
    assert whole.index("First:") < whole.index("a109") < whole.index("Second:")
    assert "| name" not in whole


@pytest.mark.row("B82")
def test_a_table_longer_than_a_message_is_split_into_tables_with_the_header() -> None:
    parts = split(f"Intro\n\n{table_of('row ', 900)}\nEnd")
    assert len(parts) > 3
    rows = []
    for part in parts:
        assert sum(map(len, sections(part))) <= limits.MESSAGE_TEXT
        drawn = "\n".join(sections(part))
        assert "name" in drawn
        assert "| row" not in drawn
        rows += re.findall(r"row (\d+)", drawn)
    assert rows == [str(n) for n in range(900)]


def test_a_list_longer_than_a_message_is_split_between_its_items() -> None:
    items = "".join(f"{n}. item {'w ' * 30}\n      - nested {'z ' * 40}\n" for n in range(1, 151))
    parts = split(items)
    assert len(parts) > 1
    drawn = "\n".join(section for part in parts for section in sections(part))
    assert "```" not in drawn
    assert re.findall(r"(?m)^(\d+)\. item", drawn) == [str(n) for n in range(1, 151)]
    assert drawn.count("    • nested") == 150


@pytest.mark.parametrize("prefix", ["- ", "> "])
def test_a_fence_inside_a_list_or_quote_is_split_into_fences(prefix: str) -> None:
    rest = "> " if prefix == "> " else "  "
    code = [f"line {n}" for n in range(3_000)]
    inside = "\n".join(f"{rest}{line}" for line in ["```", *code, "```", "", "after"])
    parts = split(f"{prefix}before\n{rest}\n{inside}\n{prefix}end\n")
    assert len(parts) > 1
    drawn = [line for part in parts for section in sections(part) for line in section.split("\n")]
    fenced, inside_fences = False, []
    for line in drawn:
        fenced ^= line == "```"
        inside_fences += [line] if fenced and line != "```" else []
    assert inside_fences == code
    assert not fenced
    assert any("after" in line for line in drawn)
    assert any("end" in line for line in drawn)


def test_a_link_that_is_defined_in_another_part_keeps_its_address() -> None:
    parts = split("See [docs][1].\n\n" + "word " * 4_000 + "\n\n[1]: https://a.test/x\n")
    assert "<https://a.test/x|docs> (a.test)" in sections(parts[0])[0]


@settings(max_examples=25)
@given(TEXTS.map(lambda text: text * 200))
def test_whatever_is_split_every_part_is_a_message_that_slack_takes(text: str) -> None:
    for part in split(text[:25_000]):
        payload = message(Reply(part), "T1")
        assert message_error(payload["text"], payload["blocks"], None) is None


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


@settings(max_examples=25)
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


@settings(max_examples=100)
@given(st.text(), st.integers(2, 20))
def test_chunks_joined_are_the_text(text: str, size: int) -> None:
    pieces = chunks(text, size)
    assert "".join(pieces) == text
    assert all(len(piece) <= size for piece in pieces)


# --- Text that streams


@pytest.mark.row("B84")
@settings(max_examples=300)
@given(TEXTS)
def test_in_a_stream_whatever_the_model_says_pings_nobody_and_links_nothing(text: str) -> None:
    assert pings_in({"markdown_text": inert_markdown(text), "ts": "1.000001"}, "C1") == []


@settings(max_examples=200)
@given(TEXTS, TEXTS)
def test_what_streams_of_a_text_is_how_more_of_it_begins(text: str, more: str) -> None:
    assume(not imitations(text + more))
    assert inert_markdown(text + more).startswith(inert_markdown(text))


@settings(max_examples=200)
@given(TEXTS)
def test_what_streams_is_the_text_with_nothing_to_be_seen_added(text: str) -> None:
    text = visible(text)
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
