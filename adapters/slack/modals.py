"""Modals: the form of a question, the note of a refusal, the link of a page, and short sayings.

A view carries the nonce in `private_metadata` and nothing else that is believed; an option's value
is the index of the choice. Bounds and formats are checked by `bot.field` alone, which answers with
one sentence per input."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any, Final, assert_never

from adapters.slack import limits
from adapters.slack.blocks import ACTION, SHOW_LABEL, VISIT, rich, shown_address, words
from adapters.slack.text import plain, shorten
from bot import address
from bot.card import Card, revealed
from bot.field import Field, FieldType, Format, Value, written
from bot.text import chunks, reveal, visible

View = dict[str, Any]
Block = dict[str, Any]

FORM: Final = ACTION + "form"  # callback ids
NOTE: Final = ACTION + "note"
SAYING: Final = ACTION + "saying"

_INPUT: Final = "input"  # the action id in every input block
_NOTE_BLOCK: Final = "note"
_LEFT_OUT: Final = "none"  # the value of the option that takes an answer back
_ADDRESS_PARTS: Final = 60  # of an address; with its message it fits one view
_YES_NO: Final = ("Yes", "No")


class NotOurs(ValueError):
    """A view state that none of our views gives: refused as a whole."""


def form(card: Card) -> View:
    """What a question asks."""
    return inputs(card, FORM, "Answer", "Send")


def inputs(card: Card, callback: str, title: str, submit: str) -> View:
    """What is asked and its fields; a form with more inputs than a modal holds says so instead."""
    card = revealed(card)
    view = fitted(card, callback, title, _message(card), submit=submit)
    return view or saying(
        "This form is too long for Slack. Please decline it with a note saying so."
    )


def fitted(
    card: Card, callback: str, title: str, above: list[Block], *, submit: str, emptied: bool = False
) -> View | None:
    """One input per field of a revealed card, under some blocks; None where a modal does not hold
    them. `emptied`: an input that is left empty is no answer, although the field has a default.

    Where choices that a menu cuts do not all fit in full before it, the hint says where they do;
    lists too long for Slack's menus become a text input that takes the value itself."""
    for listed, menus in ((True, True), (False, True), (False, False)):
        blocks = [*above]
        for number, field in enumerate(card.fields):
            blocks += _field_blocks(
                card, number, field, listed=listed, menus=menus, emptied=emptied
            )
        view = _view(callback, card.nonce, title, blocks, submit=submit)
        size = len(json.dumps(view, ensure_ascii=False).encode())
        if len(blocks) <= limits.VIEW_BLOCKS and size <= limits.VIEW_BYTES:
            return view
    return None


def note(card: Card) -> View:
    """Why not, for the agent to read."""
    card = revealed(card)
    blocks = [
        _section(card.title),
        _input_block(
            _NOTE_BLOCK,
            "Your note to the agent",
            {"type": "plain_text_input", "multiline": True, "max_length": limits.INPUT},
            optional=False,
        ),
    ]
    return _view(NOTE, card.nonce, "Decline with a note", blocks, submit="Decline")


def link(card: Card) -> View:
    """The whole address of a page, and the button that leads there: the person asked for it."""
    card = revealed(card)
    blocks: list[Block] = _message(card)
    if len(reveal(card.url)) > limits.SECTION:
        host = address.read(card.url).host
        blocks.append(
            _section(f"It leads to {reveal(host)}." if host else "Its host cannot be read.")
        )
        parts = chunks(visible(card.url), limits.SECTION)
        blocks += [_section(part) for part in parts[:_ADDRESS_PARTS]]
        if parts[_ADDRESS_PARTS:]:
            blocks.append(_section(f"Cut here: press “{SHOW_LABEL}” on the card to read the rest."))
    else:
        blocks += shown_address(card.url)
    if len(card.url) > limits.BUTTON_URL:
        blocks.append(_section("The address is too long for a button: copy it."))
    elif address.read(card.url).host:
        button = {"type": "button", "action_id": ACTION + VISIT, "url": card.url}
        blocks.append({"type": "actions", "elements": [button | {"text": plain("Open the page")}]})
    told = "Opening the page decides nothing. When you are done there, press “I have finished”."
    return _view(SAYING, card.nonce, "Visit a page", [*blocks, _section(told)])


def loading() -> View:
    return saying("One moment…")


def saying(text: str, *, last: bool = True) -> View:
    """A sentence. `last`: closing it closes what lies under it as well."""
    text = visible(text)
    told = shorten(text, limits.VIEW_TEXT)
    blocks = [_section(part) for part in chunks(told, limits.SECTION)]
    return {**_view(SAYING, "", "Interlock", blocks), "clear_on_close": last}


# --- Reading what was sent


def read_note(values: Mapping[str, Any]) -> str:
    """The note of a refusal. Raises NotOurs."""
    return str(_entry(values, _NOTE_BLOCK).get("value") or "")


def read_state(card: Card, values: Mapping[str, Any]) -> dict[str, Any]:
    """The answer by field name, as `bot.field.coerce` takes it; what is left out is absent.
    Raises NotOurs."""
    answer: dict[str, Any] = {}
    for number, field in enumerate(card.fields):
        given = _given(field, _entry(values, _block_id(number)))
        if field.allow_other:
            other = _entry(values, _other_id(number)).get("value")
            selected = given if isinstance(given, list) else [] if given is None else [given]
            answer[field.name] = {"selected": selected, "other_text": other}
        elif given is not None:
            answer[field.name] = given
    return answer


def errors_for(card: Card, errors: Mapping[str, str]) -> dict[str, str]:
    """The sentences by the block id of their input; what belongs to none stands at the first."""
    placed: dict[str, str] = {}
    numbers = {field.name: number for number, field in enumerate(card.fields)}
    for name, sentence in errors.items():
        block = _block_id(numbers.get(name, 0))
        placed[block] = f"{placed[block]} {sentence}" if block in placed else sentence
    return placed


def error_everywhere(callback: str, sentence: str) -> dict[str, str]:
    """A sentence about the whole, at the first input of the view."""
    return {_NOTE_BLOCK if callback == NOTE else _block_id(0): sentence}


def _entry(values: Mapping[str, Any], block: str) -> Mapping[str, Any]:
    inside = values.get(block, {})
    entry = inside.get(_INPUT, {}) if isinstance(inside, Mapping) else None
    if not isinstance(entry, Mapping):
        raise NotOurs("The form came back in a shape that Slack does not give.")
    return entry


def _given(field: Field, entry: Mapping[str, Any]) -> Any:
    """The value, a list of values, or None for what was left out."""
    if "selected_options" in entry:
        options = entry["selected_options"]
        if not isinstance(options, list):
            raise NotOurs("The form came back in a shape that Slack does not give.")
        return [_offered(field, option) for option in options]
    if "selected_option" in entry:
        option = entry["selected_option"]
        return None if option is None else _offered(field, option)
    if "selected_date" in entry:
        return entry["selected_date"]
    typed = entry.get("value")
    if isinstance(typed, str) and field.type is FieldType.CHOICES:
        return [line for line in typed.split("\n") if line.strip()]
    return typed


def _offered(field: Field, option: Any) -> Value | None:
    value = option.get("value") if isinstance(option, Mapping) else None
    if value == _LEFT_OUT:
        return None
    offered: Sequence[Value] = [choice.value for choice in field.choices]
    if field.type is FieldType.BOOLEAN:
        offered = (True, False)
    if not isinstance(value, str) or not value.isascii() or not value.isdigit():
        raise NotOurs("The form came back with a choice that was not offered.")
    if len(value) > 6 or int(value) >= len(offered):
        raise NotOurs("The form came back with a choice that was not offered.")
    return offered[int(value)]


# --- Drawing


def _message(card: Card) -> list[Block]:
    parts = chunks(card.message, limits.SECTION) if card.message.strip() else [card.title]
    most = limits.VIEW_TEXT // limits.SECTION
    blocks = [_section(part) for part in parts[:most]]
    if len(parts) > most:
        left = sum(map(len, parts[most:]))
        told = f"Cut here: press “{SHOW_LABEL}” on the card to read {left:,} more characters."
        blocks.append(_section(told))
    return blocks


def _field_blocks(
    card: Card, number: int, field: Field, *, listed: bool, menus: bool, emptied: bool
) -> list[Block]:
    label, hint = field.label, field.description
    if card.choosing and field.description:
        label, hint = f"{field.label}: {field.description}", ""
    blocks: list[Block] = []
    if len(label) > limits.LABEL or len(hint) > limits.HINT:
        blocks += [_section(part) for part in chunks(f"{label}\n{hint}", limits.SECTION)]
        label, hint = shorten(field.label, limits.LABEL), ""
    element, told = _element(field, menus)
    if emptied and field.default is not None:  # a pick can be taken back all the same
        bare = _element(replace(field, default=None), menus)[0]
        element |= {key: bare[key] for key in ("options", "option_groups") if key in bare}
    if any(
        len(choice.title) > limits.OPTION or len(choice.description) > limits.OPTION
        for choice in field.choices
    ):
        if listed:
            blocks += _listed(field)
        else:
            told = f"{told} “{SHOW_LABEL}” on the card has all choices in full.".strip()
    hint = "\n".join(part for part in (hint, told) if part)
    optional = not field.required or field.allow_other
    optional = optional or (field.default is not None and not emptied)
    blocks.append(_input_block(_block_id(number), label, element, optional=optional, hint=hint))
    if field.allow_other:
        typed = {"type": "plain_text_input", "max_length": limits.INPUT}
        other = f"{shorten(field.label, 200)}: other, in your own words"
        blocks.append(_input_block(_other_id(number), other, typed, optional=True))
    return blocks


def _listed(field: Field) -> list[Block]:
    """Every choice in full, because the widget cuts it."""
    blocks: list[Block] = []
    room = 0
    for choice in field.choices:
        told = f" — {choice.description}" if choice.description else ""
        size = len(choice.title) + len(told)
        items = [words((choice.title, True), (told, False))]
        if size > limits.SECTION:
            items = [words((part, False)) for part in chunks(choice.title + told, limits.SECTION)]
        for item in items:
            if size > room:
                blocks.append(rich({"type": "rich_text_list", "style": "bullet", "elements": []}))
                room = limits.SECTION
            blocks[-1]["elements"][0]["elements"].append(item)
            room -= size
    return blocks


def _element(field: Field, menus: bool) -> tuple[dict[str, Any], str]:
    """The input element, and what the hint must say about it."""
    default = field.default
    match field.type:
        case FieldType.TEXT:
            return _text_element(field)
        case FieldType.INTEGER | FieldType.NUMBER:
            decimal = field.type is FieldType.NUMBER
            element: dict[str, Any] = {"type": "number_input", "is_decimal_allowed": decimal}
            if default is not None:
                element["initial_value"] = format(Decimal(str(default)), "f")
            return element, ""
        case FieldType.BOOLEAN:
            options = [_option(str(index), name) for index, name in enumerate(_YES_NO)]
            initial = [] if default is None else [options[0 if default else 1]]
            return _one_of("radio_buttons", field, options, initial), ""
        case FieldType.CHOICE | FieldType.CHOICES:
            return _menu(field, menus)
        case _:
            assert_never(field.type)


def _text_element(field: Field) -> tuple[dict[str, Any], str]:
    default = field.default if isinstance(field.default, str) else ""
    typed = {"initial_value": default} if 0 < len(default) <= limits.INPUT else {}
    told = ""
    if len(default) > limits.INPUT:
        told = "Left empty, it keeps a default that is too long to be shown here."
    if (field.min_length or 0) > limits.INPUT:
        told = f"Slack takes at most {limits.INPUT:,} characters, and more are asked for."
    match field.format:
        case Format.EMAIL:
            return {"type": "email_text_input", **typed}, told
        case Format.URI if not default or default.startswith(("http://", "https://")):
            return {"type": "url_text_input", **typed}, told
        case Format.DATE:
            return {"type": "datepicker", **({"initial_date": default} if default else {})}, told
        case Format.DATE_TIME:
            return {"type": "plain_text_input", **typed}, "Such as 2025-12-31T18:30:00Z."
        case Format.URI | None:
            element = {"type": "plain_text_input", "multiline": field.multiline, **typed}
            if "\n" in default:
                element["multiline"] = True
            return element, told
        case _:
            assert_never(field.format)


def _menu(field: Field, menus: bool) -> tuple[dict[str, Any], str]:
    several = field.type is FieldType.CHOICES
    options = [
        _option(str(index), choice.title, choice.description)
        for index, choice in enumerate(field.choices)
    ]
    defaults = field.default if isinstance(field.default, tuple) else (field.default,)
    initial = [
        options[index]
        for index, choice in enumerate(field.choices)
        if any(choice.value == one and type(choice.value) is type(one) for one in defaults)
    ]
    if not options or (len(options) > limits.MENU_OPTIONS and not menus):
        typed = {"type": "plain_text_input", "multiline": several, "max_length": limits.INPUT}
        written_out = "\n".join(written(one) for one in defaults if one is not None)
        if 0 < len(written_out) <= limits.INPUT:
            typed["initial_value"] = written_out
        each = ", each on its own line" if several else ""
        told = f"One of {len(options):,} values, too many to list here: type it exactly{each}."
        told += f" “{SHOW_LABEL}” on the card lists them."
        return typed, told
    if not several:
        kind = "radio_buttons" if len(options) < limits.RADIO_OPTIONS else "static_select"
        return _one_of(kind, field, options, initial), ""
    kind = "checkboxes" if len(options) <= limits.RADIO_OPTIONS else "multi_static_select"
    element = {"type": kind, **_options(kind, options)}
    return element | ({"initial_options": initial} if initial else {}), ""


def _one_of(
    kind: str, field: Field, options: list[dict[str, Any]], initial: list[dict[str, Any]]
) -> dict[str, Any]:
    """Radio buttons or a menu. Slack cannot take a pick back, so an optional one offers it."""
    if not field.required and field.default is None and not field.allow_other:
        options = [*options, _option(_LEFT_OUT, "No answer")]
    if field.allow_other:
        options = [*options, _option(_LEFT_OUT, "None of these")]
    element = {"type": kind, **_options(kind, options)}
    return element | ({"initial_option": initial[0]} if initial else {})


def _options(kind: str, options: list[dict[str, Any]]) -> dict[str, Any]:
    if "select" not in kind or len(options) <= limits.MENU_OPTIONS:
        return {"options": options}
    return {
        "option_groups": [
            {
                "label": plain(f"{start + 1:,} and on", limits.OPTION),
                "options": options[start : start + limits.MENU_OPTIONS],
            }
            for start in range(0, len(options), limits.MENU_OPTIONS)
        ]
    }


def _option(value: str, title: str, description: str = "") -> dict[str, Any]:
    told = {"description": plain(description, limits.OPTION)} if description.strip() else {}
    return {"text": plain(title, limits.OPTION), "value": value, **told}


def _input_block(
    block: str, label: str, element: dict[str, Any], *, optional: bool, hint: str = ""
) -> Block:
    return {
        "type": "input",
        "block_id": block,
        "label": plain(label, limits.LABEL),
        "optional": optional,
        "element": {**element, "action_id": _INPUT},
        **({"hint": plain(hint, limits.HINT)} if hint else {}),
    }


def _block_id(number: int) -> str:
    return f"field.{number}"


def _other_id(number: int) -> str:
    return f"other.{number}"


def _section(text: str) -> Block:
    return {"type": "section", "text": plain(text)}


def _view(
    callback: str, nonce: str, title: str, blocks: list[Block], submit: str | None = None
) -> View:
    return {
        "type": "modal",
        "callback_id": callback,
        "private_metadata": nonce,
        "title": plain(title),
        "blocks": blocks,
        "close": plain("Cancel" if submit else "Close"),
        **({"submit": plain(submit)} if submit else {}),
    }
