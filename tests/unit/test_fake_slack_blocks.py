"""The fake's judge of blocks: what it lets through and what it refuses, and by which table."""

import copy
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import slackblocks
from hypothesis import given
from hypothesis import strategies as st
from slackblocks import _limits as registry
from slackblocks import _surfaces as surfaces

from tests.fakes.slack import buttons_of, text_of, validate_blocks, validate_view
from tests.fakes.slack.blocks import message_error
from tests.fakes.slack.limits import LIMITS, OWN_LIMITS, UNMODELLED_LIMITS
from tests.fakes.slack.pings import pings_in

Json = dict[str, Any]


def plain(text: str) -> Json:
    return {"type": "plain_text", "text": text}


def mrkdwn(text: str) -> Json:
    return {"type": "mrkdwn", "text": text}


def option(text: str, value: str) -> Json:
    return {"text": plain(text), "value": value}


def button(**more: Any) -> Json:
    return {"type": "button", "action_id": "go", "text": plain("Go"), "value": "1", **more}


def actions(*elements: Json) -> Json:
    return {"type": "actions", "elements": list(elements)}


def asked(element: Json, **more: Any) -> Json:
    return {"type": "input", "label": plain("Label"), "element": element, **more}


def number(**more: Any) -> Json:
    return {"type": "number_input", "action_id": "n", "is_decimal_allowed": False, **more}


def choice(type_: str, options: list[Json], **more: Any) -> Json:
    return {"type": type_, "action_id": "c", "options": options, **more}


def table(cell: str, rows: int, columns: int) -> Json:
    row = [{"type": "raw_text", "text": cell}] * columns
    return {"type": "table", "rows": [row] * rows}


def modal(*blocks: Json, **more: Any) -> Json:
    return {"type": "modal", "title": plain("Title"), "blocks": list(blocks), **more}


def without(whole: Json, key: str) -> Json:
    return {k: v for k, v in whole.items() if k != key}


TWO = [option("A", "0"), option("B", "1")]
MANY = [option(str(n), str(n)) for n in range(101)]
TEXT: Json = {"type": "plain_text_input", "action_id": "t"}
DIVIDER: Json = {"type": "divider"}
SECTION: Json = {"type": "section", "text": mrkdwn("x")}

ACCEPTED: list[Json] = [
    {"type": "header", "text": plain("x" * 150)},
    SECTION,
    {"type": "section", "fields": [plain("x" * 2000)] * 10},
    {**SECTION, "accessory": button()},
    {"type": "context", "elements": [mrkdwn("a"), plain("b")] * 5},
    actions(*(button(action_id=str(n)) for n in range(25))),
    actions(button(url="https://example.org/a?b=c", style="danger")),
    actions(choice("static_select", MANY[:100], initial_option=MANY[7], placeholder=plain("Pick"))),
    actions({"type": "overflow", "action_id": "o", "options": TWO}),
    asked(number(min_value="-1", max_value="2", initial_value="0"), optional=True),
    asked({**TEXT, "multiline": True, "min_length": 0, "max_length": 3000}, hint=plain("x")),
    asked(choice("checkboxes", [*TWO, {**option("C", "2"), "text": mrkdwn("*C*")}])),
    asked(choice("radio_buttons", TWO, initial_option=TWO[1])),
    asked({"type": "datepicker", "action_id": "d", "initial_date": "2026-11-30"}),
    {"type": "image", "image_url": "https://example.org/a.png", "alt_text": "a"},
    {"type": "markdown", "text": "x" * 12000},
    table("x" * 5, 100, 20),
    {
        "type": "rich_text",
        "elements": [
            {"type": "rich_text_preformatted", "elements": [{"type": "text", "text": "<!here>"}]}
        ],
    },
    {"type": "task_card", "task_id": "1", "title": "Deploy", "status": "in_progress"},
    {"type": "plan", "title": "Plan", "tasks": [{"task_id": "1", "title": "x"}]},
    {"type": "card", "title": mrkdwn("x"), "actions": [button()]},
]

REFUSED: dict[str, tuple[Json, str]] = {
    "no type": ({"text": plain("x")}, "/blocks/0"),
    "an unknown type": ({"type": "banner"}, "/blocks/0/type"),
    "an unknown key": ({**DIVIDER, "colour": "red"}, "/blocks/0/colour"),
    "a modal's block": ({"type": "alert", "text": plain("x")}, "/blocks/0/type"),
    "a long block id": ({**DIVIDER, "block_id": "x" * 256}, "/blocks/0/block_id"),
    "an empty section": ({"type": "section"}, "/blocks/0"),
    "an empty text": ({"type": "section", "text": mrkdwn("")}, "/blocks/0/text/text"),
    "a null": ({**SECTION, "accessory": None}, "/blocks/0/accessory"),
    "a long section": ({"type": "section", "text": mrkdwn("x" * 3001)}, "/blocks/0/text/text"),
    "escapes that make it long": (
        {"type": "section", "text": mrkdwn("&amp;" * 601)},
        "/blocks/0/text/text",
    ),
    "a long field": ({"type": "section", "fields": [plain("x" * 2001)]}, "/blocks/0/fields/0/text"),
    "eleven fields": ({"type": "section", "fields": [plain("x")] * 11}, "/blocks/0/fields"),
    "a long header": ({"type": "header", "text": plain("x" * 151)}, "/blocks/0/text/text"),
    "mrkdwn in a header": ({"type": "header", "text": mrkdwn("x")}, "/blocks/0/text/type"),
    "eleven in a context": (
        {"type": "context", "elements": [plain("x")] * 11},
        "/blocks/0/elements",
    ),
    "a button in a context": (
        {"type": "context", "elements": [button()]},
        "/blocks/0/elements/0/type",
    ),
    "empty actions": (actions(), "/blocks/0/elements"),
    "26 actions": (
        actions(*(button(action_id=str(n)) for n in range(26))),
        "/blocks/0/elements",
    ),
    "the same action id twice": (actions(button(), button()), "/blocks/0/elements/1/action_id"),
    "an input in actions": (actions(TEXT), "/blocks/0/elements/0/type"),
    "mrkdwn on a button": (actions(button(text=mrkdwn("x"))), "/blocks/0/elements/0/text/type"),
    "a long button": (actions(button(text=plain("x" * 76))), "/blocks/0/elements/0/text/text"),
    "a long value": (actions(button(value="x" * 2001)), "/blocks/0/elements/0/value"),
    "an empty value": (actions(button(value="")), "/blocks/0/elements/0/value"),
    "a javascript address": (actions(button(url="javascript:x")), "/blocks/0/elements/0/url"),
    "an unknown style": (actions(button(style="default")), "/blocks/0/elements/0/style"),
    "a long confirm": (
        actions(
            button(
                confirm={
                    "title": plain("x" * 101),
                    "text": plain("x"),
                    "confirm": plain("x"),
                    "deny": plain("x"),
                }
            )
        ),
        "/blocks/0/elements/0/confirm/title/text",
    ),
    "no options": (asked(choice("static_select", [])), "/blocks/0/element/options"),
    "101 options": (asked(choice("static_select", MANY)), "/blocks/0/element/options"),
    "eleven checkboxes": (asked(choice("checkboxes", MANY[:11])), "/blocks/0/element/options"),
    "eleven radios": (asked(choice("radio_buttons", MANY[:11])), "/blocks/0/element/options"),
    "six in an overflow": (
        actions({"type": "overflow", "options": MANY[:6]}),
        "/blocks/0/elements/0/options",
    ),
    "an option value twice": (
        asked(choice("radio_buttons", [TWO[0], TWO[0]])),
        "/blocks/0/element/options/1/value",
    ),
    "a long option": (
        asked(choice("static_select", [option("x" * 76, "0")])),
        "/blocks/0/element/options/0/text/text",
    ),
    "a long option value": (
        asked(choice("static_select", [option("x", "x" * 151)])),
        "/blocks/0/element/options/0/value",
    ),
    "a long description": (
        asked(choice("checkboxes", [{**TWO[0], "description": plain("x" * 76)}])),
        "/blocks/0/element/options/0/description/text",
    ),
    "mrkdwn in a menu": (
        asked(choice("static_select", [{"text": mrkdwn("x"), "value": "0"}])),
        "/blocks/0/element/options/0/text/type",
    ),
    "a choice that is not offered": (
        asked(choice("static_select", TWO, initial_option=option("C", "2"))),
        "/blocks/0/element/initial_option",
    ),
    "more chosen than allowed": (
        asked(choice("multi_static_select", TWO, initial_options=TWO, max_selected_items=1)),
        "/blocks/0/element/initial_options",
    ),
    "options and groups": (
        asked(choice("static_select", TWO, option_groups=[{"label": plain("x"), "options": TWO}])),
        "/blocks/0/element",
    ),
    "a number that does not say if it is whole": (
        asked(without(number(), "is_decimal_allowed")),
        "/blocks/0/element",
    ),
    "a limit that is a number": (asked(number(min_value=1)), "/blocks/0/element/min_value"),
    "a decimal limit of whole numbers": (
        asked(number(min_value="1.5")),
        "/blocks/0/element/min_value",
    ),
    "a minimum over the maximum": (
        asked(number(min_value="3", max_value="2")),
        "/blocks/0/element/min_value",
    ),
    "an initial number over the maximum": (
        asked(number(initial_value="3", max_value="2")),
        "/blocks/0/element/initial_value",
    ),
    "a length over 3000": (asked({**TEXT, "max_length": 3001}), "/blocks/0/element/max_length"),
    "min_length over max_length": (
        asked({**TEXT, "min_length": 5, "max_length": 4}),
        "/blocks/0/element/min_length",
    ),
    "a button as an input": (asked(button()), "/blocks/0/element/type"),
    "a long label": (
        {**asked(TEXT), "label": plain("x" * 2001)},
        "/blocks/0/label/text",
    ),
    "mrkdwn in a label": ({**asked(TEXT), "label": mrkdwn("x")}, "/blocks/0/label/type"),
    "a long placeholder": (
        asked({**TEXT, "placeholder": plain("x" * 151)}),
        "/blocks/0/element/placeholder/text",
    ),
    "long markdown": ({"type": "markdown", "text": "x" * 12001}, "/blocks/0/text"),
    "101 rows": (table("x", 101, 1), "/blocks/0/rows"),
    "21 columns": (table("x", 1, 21), "/blocks/0/rows/0"),
    "a table over 10,000 characters": (table("x" * 51, 100, 2), "/blocks"),
    "an empty rich text": (
        {
            "type": "rich_text",
            "elements": [{"type": "rich_text_section", "elements": [{"type": "text", "text": ""}]}],
        },
        "/blocks/0/elements/0/elements/0/text",
    ),
    "a mention in preformatted text": (
        {
            "type": "rich_text",
            "elements": [
                {"type": "rich_text_preformatted", "elements": [{"type": "user", "user_id": "U1"}]}
            ],
        },
        "/blocks/0/elements/0/elements/0/type",
    ),
    "a task that waits outside a plan": (
        {"type": "task_card", "task_id": "1", "title": "x", "status": "pending"},
        "/blocks/0/status",
    ),
    "an empty card": ({"type": "card", "subtitle": plain("x")}, "/blocks/0"),
}


@pytest.mark.parametrize("block", ACCEPTED, ids=lambda block: str(block["type"]))
def test_what_slack_takes_is_accepted(block: Json) -> None:
    assert validate_blocks([block]) == []


@pytest.mark.parametrize("case", REFUSED)
def test_what_slack_refuses_is_refused_where_it_is_wrong(case: str) -> None:
    block, pointer = REFUSED[case]
    assert pointer in [problem.pointer for problem in validate_blocks([block])]


def test_a_message_takes_fifty_blocks_and_a_modal_a_hundred() -> None:
    assert validate_blocks([DIVIDER] * 50) == []
    assert validate_blocks([DIVIDER] * 51) != []
    assert validate_blocks([DIVIDER] * 100, "modal") == []
    assert validate_blocks([DIVIDER] * 101, "modal") != []


def test_rules_over_all_blocks_of_a_message() -> None:
    named = {**DIVIDER, "block_id": "same"}
    assert [p.pointer for p in validate_blocks([named, named])] == ["/blocks/1/block_id"]
    assert validate_blocks([table("x", 1, 1)] * 2) != []
    assert validate_blocks([{"type": "markdown", "text": "x" * 6001}] * 2) != []


def test_a_message_as_a_whole_has_limits_too() -> None:
    big = {"type": "section", "text": mrkdwn("x" * 2640)}
    assert message_error("x" * 4000, [big] * 5, None) is None
    assert message_error("x" * 4001, None, None) == ("msg_too_long", [])
    assert message_error("", [big] * 5 + [SECTION], None) == ("msg_blocks_too_long", [])
    refused = message_error("", None, [{"blocks": [{"type": "section"}]}])
    assert refused is not None
    assert [p.pointer for p in refused[1]] == ["/attachments/0/blocks/0"]


@pytest.mark.parametrize("surface", ["message", "modal", "home"])
def test_each_surface_takes_the_block_types_that_the_registry_says(
    surface: surfaces.BlockSurface,
) -> None:
    ours = {block["type"]: block for block in ACCEPTED}
    allowed = surfaces._BLOCK_TYPES_BY_SURFACE[surface]
    taken = {kind for kind, block in ours.items() if validate_blocks([block], surface) == []}
    assert taken == set(ours) & allowed


VIEWS: dict[str, tuple[Json, str]] = {
    "no title": (without(modal(DIVIDER), "title"), "/view"),
    "a long title": (modal(DIVIDER, title=plain("x" * 25)), "/view/title/text"),
    "mrkdwn in the title": (modal(DIVIDER, title=mrkdwn("x")), "/view/title/type"),
    "a long submit": (modal(DIVIDER, submit=plain("x" * 25)), "/view/submit/text"),
    "a long close": (modal(DIVIDER, close=plain("x" * 25)), "/view/close/text"),
    "an input without submit": (modal(asked(TEXT)), "/view/submit"),
    "a long private_metadata": (
        modal(DIVIDER, private_metadata="x" * 3001),
        "/view/private_metadata",
    ),
    "a long callback_id": (modal(DIVIDER, callback_id="x" * 256), "/view/callback_id"),
    "a long external_id": (modal(DIVIDER, external_id="x" * 256), "/view/external_id"),
    "an unknown key": (modal(DIVIDER, state={}), "/view/state"),
    "a message's block": (modal({"type": "markdown", "text": "x"}), "/view/blocks/0/type"),
    "a home tab with a title": ({**modal(DIVIDER), "type": "home"}, "/view/title"),
    "no type": ({"blocks": []}, "/view/type"),
}


@pytest.mark.parametrize("case", VIEWS)
def test_a_view_that_slack_refuses_is_refused(case: str) -> None:
    view, pointer = VIEWS[case]
    assert pointer in [problem.pointer for problem in validate_view(view)]


def test_a_view_that_slack_takes_is_accepted() -> None:
    alert = {"type": "alert", "text": plain("x"), "level": "warning"}
    form = modal(alert, asked(TEXT), submit=plain("Send"), private_metadata="", callback_id="c")
    assert validate_view(form) == []
    assert validate_view({"type": "home", "blocks": [SECTION]}) == []


# The limit table


def test_every_limit_we_share_with_the_registry_is_equal() -> None:
    theirs = {name: value for name, value in vars(registry).items() if name.isupper()}
    ours = {name.upper().replace(".", "_"): value for name, value in LIMITS.items()}
    assert {name: ours[name] for name in ours if name in theirs} == {
        name: theirs[name] for name in theirs if name in ours
    }
    own = {name.upper().replace(".", "_") for name in OWN_LIMITS}
    assert set(ours) - set(theirs) == own
    prefixes = tuple(prefix.upper().replace(".", "_") for prefix in UNMODELLED_LIMITS)
    assert [name for name in set(theirs) - set(ours) if not name.startswith(prefixes)] == []


def _refused_by_the_oracle(build: Callable[[], Any]) -> bool:
    try:
        build()
    except slackblocks.errors.InvalidUsageError:
        return True
    return False


BOUNDARIES: dict[str, tuple[int, Callable[[str], Any], Callable[[str], Json]]] = {
    "header": (
        150,
        lambda x: slackblocks.HeaderBlock(text=x),
        lambda x: {"type": "header", "text": plain(x)},
    ),
    "section": (
        3000,
        lambda x: slackblocks.SectionBlock(text=x),
        lambda x: {"type": "section", "text": mrkdwn(x)},
    ),
    "button": (
        75,
        lambda x: slackblocks.Button(text=x, action_id="a"),
        lambda x: actions(button(text=plain(x))),
    ),
    "button value": (
        2000,
        lambda x: slackblocks.Button(text="x", action_id="a", value=x),
        lambda x: actions(button(value=x)),
    ),
    "option": (
        75,
        lambda x: slackblocks.Option(text=x, value="0"),
        lambda x: asked(choice("static_select", [option(x, "0")])),
    ),
    "option value": (
        150,
        lambda x: slackblocks.Option(text="x", value=x),
        lambda x: asked(choice("static_select", [option("x", x)])),
    ),
    "markdown": (
        12000,
        lambda x: slackblocks.MarkdownBlock(text=x),
        lambda x: {"type": "markdown", "text": x},
    ),
}


@pytest.mark.parametrize("name", BOUNDARIES)
def test_the_oracle_draws_the_same_line(name: str) -> None:
    longest, theirs, ours = BOUNDARIES[name]
    for length in (longest, longest + 1):
        refused = _refused_by_the_oracle(partial(theirs, "x" * length))
        assert (validate_blocks([ours("x" * length)]) != []) == refused == (length > longest)


def _built_by_the_oracle() -> list[slackblocks.Block]:
    def label(text: str) -> slackblocks.Text:
        return slackblocks.Text(text, type_=slackblocks.TextType.PLAINTEXT)

    options = [slackblocks.Option(text=label(name), value=name) for name in ("A", "B")]
    confirm = slackblocks.ConfirmationDialogue(title="t", text="x", confirm="y", deny="n")
    inputs = [
        slackblocks.StaticSelectMenu(
            action_id="a", options=options, initial_option=options[0], placeholder="p"
        ),
        slackblocks.StaticMultiSelectMenu(
            action_id="a", options=options, initial_options=[options[0]], max_selected_items=1
        ),
        slackblocks.CheckboxGroup(action_id="a", options=options, initial_options=[options[1]]),
        slackblocks.RadioButtonGroup(action_id="a", options=options, initial_option=options[1]),
        slackblocks.NumberInput(action_id="a", is_decimal_allowed=True, min_value=1.5, max_value=2),
        slackblocks.PlainTextInput(action_id="a", multiline=True, min_length=1, max_length=5),
        slackblocks.UserSelectMenu(action_id="a", placeholder="p"),
        slackblocks.URLInput(action_id="a"),
        slackblocks.RichTextInput(action_id="a"),
        slackblocks.DateTimePicker(action_id="a"),
    ]
    return [
        slackblocks.ActionsBlock(
            elements=[slackblocks.Button(text="x", action_id="a", confirm=confirm)]
        ),
        slackblocks.HeaderBlock(text="x"),
        slackblocks.DividerBlock(),
        slackblocks.ContextBlock(elements=[slackblocks.Text("x")]),
        *(slackblocks.InputBlock(label="l", element=element) for element in inputs),
    ]


def test_what_the_oracle_builds_is_accepted() -> None:
    for block in _built_by_the_oracle():
        assert validate_blocks([block._resolve()]) == []


# What is seen, and what pings


def test_visible_text_and_buttons_are_what_a_person_sees() -> None:
    message = {
        "text": "not seen",
        "blocks": [
            {"type": "header", "text": plain("Title")},
            {"type": "section", "text": mrkdwn("a &lt; b"), "fields": [plain("F1")]},
            asked(choice("radio_buttons", TWO)),
            actions(button()),
        ],
    }
    assert text_of(message) == "Title\na < b\nF1\nLabel\nA\nB\nGo"
    assert buttons_of(message) == ["Go"]
    assert text_of({"text": "a &amp; b"}) == "a & b"


@pytest.mark.parametrize(
    ("message", "kinds"),
    [
        ({"text": "<!channel>"}, ["broadcast"]),
        ({"text": "<@U_ANA|ana> <#C1> <!date^1^{date}|x>"}, ["user", "channel", "special"]),
        ({"text": "&lt;!channel&gt; &amp;lt;!here&amp;gt; < !here> <here>"}, []),
        ({"text": "", "blocks": [{"type": "section", "text": plain("<!here>")}]}, []),
        (
            {"text": "", "blocks": [{"type": "section", "text": mrkdwn("```<!here>```")}]},
            ["broadcast"],
        ),
        ({"text": "", "blocks": [{"type": "markdown", "text": "`[a](https://b)`"}]}, []),
        ({"text": "", "attachments": [{"text": "<http://a|b>"}]}, ["link"]),
        ({"text": "<mailto:a@b|c>"}, ["link"]),
    ],
)
def test_pings_are_what_slack_would_parse(message: Json, kinds: list[str]) -> None:
    before = copy.deepcopy(message)
    assert [ping.kind for ping in pings_in(message, "C_OPS")] == kinds
    assert message == before


@given(st.text(st.sampled_from("<>&!@#|`[]() \nabhttps:/channelhere"), max_size=60))
def test_escaped_text_never_pings_in_mrkdwn(hostile: str) -> None:
    escaped = hostile.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    blocks = [{"type": "section", "text": mrkdwn(escaped)}]
    assert pings_in({"text": escaped, "blocks": blocks}, "C_OPS") == []
    assert text_of({"blocks": blocks}) == hostile
