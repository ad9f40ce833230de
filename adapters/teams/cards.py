"""Cards as Adaptive Cards 1.5. Untrusted text stands in TextRuns, in which no client reads markup;
the one TextBlock, with the mentions of those who may decide, holds cleaned names alone.

A card is the same for everybody, and what a button sends back names a question and nothing else."""

from __future__ import annotations

from typing import Final, assert_never

from adapters.teams import actions, forms, group, limits, tasks
from adapters.teams.approval import EVERYTHING, STANDING, approve, decline, everything
from adapters.teams.elements import (
    MARKS,
    TYPE,
    Element,
    adaptive,
    back,
    buttons,
    execute,
    heading,
    left_out,
    line,
    lines,
    size,
    subtle,
)
from adapters.teams.mentions import NOBODY, Names, addressed, who_may
from adapters.teams.text import message as text_message
from adapters.teams.text import shorten, whole
from bot import address
from bot.card import Card, CardState, Kind, TaskCard, revealed
from bot.excerpt import excerpt
from bot.group import GroupCard
from bot.surface import Content, File, Place, Reply
from bot.text import blank, reveal

REPEATED: Final = (
    "This may stand here twice, since Teams did not confirm the first copy. Both count as one."
)
_ROOMS: Final = (9_000, 6_000, 4_000, 2_500, 1_200, 400)  # characters of what is asked
_FORM: Final = 6_000  # characters of what is said of the fields of a form
_LEAST: Final = 120  # characters of an argument that is shown in part
_NAME: Final = 80
_TOOL: Final = 200
_NOTICES: Final = 10
_NOTICE: Final = 1_000
_COLOURS: Final = {CardState.DONE: "Good", CardState.REFUSED: "Attention"}


def activity(
    content: Content,
    place: Place,
    names: Names = NOBODY,
    *,
    repeated: bool = False,
) -> Element:
    """What is posted in a place. `names`: people who may be mentioned, by key. `repeated`: an
    earlier copy may be there."""
    match content:
        case Reply():
            told = f"{content.text}\n\n*{REPEATED}*" if repeated else content.text
            return addressed(text_message(told), content.mentions, names)
        case File():
            return text_message(f"The file `{content.name}` cannot be shown in Teams yet.")
        case Card():
            summary = f"{content.title} — {content.outcome}" if content.outcome else content.title
            shown = draw(content, place, names, repeated=repeated)
        case GroupCard():
            summary, shown = (
                content.title,
                group.draw(content, place, names, extra=[REPEATED] if repeated else []),
            )
        case TaskCard():
            summary, shown = content.title, tasks.draw(content)
        case _:
            assert_never(content)
    return {
        "type": "message",
        "summary": whole(" ".join(summary.split()), limits.SUMMARY),
        "attachments": [{"contentType": TYPE, "content": shown}],
    }


def draw(
    card: Card,
    place: Place,
    names: Names = NOBODY,
    *,
    repeated: bool = False,
    home: bool = False,
) -> Element:
    """The card as it stands in a place, with as much of what is asked as fits. `home`: it was
    opened from a list, for the one who did."""
    seen = revealed(card)
    extra = [REPEATED] if repeated else []
    if card.thread is not None and card.thread != place and card.askers:
        extra.append(_requested(card, names))
    for room in _ROOMS:
        drawn = _drawn(seen, names, room, extra, home)
        if size(drawn) <= limits.CARD_BYTES:
            return drawn
    told = line((shorten(seen.title, limits.TITLE), True)), subtle(_too_long(card))
    return adaptive([*told, buttons([everything(card, home=home), *_rest(card, home)])])


def _drawn(card: Card, names: Names, room: int, extra: list[str], home: bool) -> Element:
    body = [heading(card.title), *_facts(card)]
    asked, whole = _asked(card, room)
    whole = whole and len(card.title) <= limits.TITLE and len(card.tool) <= _TOOL
    body += asked
    notices = [*card.notices, *extra]
    if card.open and card.complete and whole and card.remember is not None:
        notices.append(f"“{STANDING}” means: {card.remember}.")
    if card.open and not whole:
        notices.append(_too_long(card))
    entities: list[Element] = []
    if card.open:
        who, entities = who_may(card, names)
        body += who
    else:
        body += [*_outcome(card), *([] if whole else [buttons([everything(card, home=home)])])]
        body += group.again(card)
    body += [subtle(shorten(one, _NOTICE)) for one in notices[:_NOTICES]]
    if card.open:
        whole = whole and not notices[_NOTICES:] and max(map(len, notices), default=0) <= _NOTICE
        body += _actions(card, whole, home)
    body += [buttons([back(card.nonce, home=True)])] if home else []
    drawn = adaptive(body)
    return drawn | {"msteams": {"entities": entities}} if entities else drawn


# --- What is asked


def _facts(card: Card) -> list[Element]:
    told: list[tuple[str, bool]] = []
    for name, value in (("Tool: ", card.tool), ("Agent: ", card.agent)):
        if value:
            apart = "\xa0\xa0 " if told else ""  # three plain spaces are drawn as one
            told += [(apart, False), (name, True), (shorten(value, _TOOL), False)]
    return [line(*told)] if told else []


def _asked(card: Card, room: int) -> tuple[list[Element], bool]:
    """What is asked, and whether all of it is there."""
    elements: list[Element] = []
    whole = True
    if card.message:
        part = excerpt(card.message, max(_LEAST, room // 2))
        elements += lines(part.head, mono=False)
        if part.left_out:
            elements += [left_out(part.left_out), *lines(part.tail, mono=False)]
        whole = not part.left_out
        room -= min(room, len(card.message))
    arguments, there = _arguments(card, room)
    elements += arguments
    whole = whole and there
    match card.kind:
        case Kind.APPROVAL:
            return elements, whole
        case Kind.FORM:
            shown, there = forms.elements(card.fields, open_=card.open, room=_FORM)
            return elements + shown, whole and there
        case Kind.PAGE:
            return elements + _address(card.url), whole
        case _:
            assert_never(card.kind)


def _arguments(card: Card, room: int) -> tuple[list[Element], bool]:
    """Each argument under its name, with a clear line where a part of it is left out."""
    if not card.arguments:
        nothing = card.kind is Kind.APPROVAL and card.complete
        return ([subtle("The call has no arguments.")] if nothing else []), True
    sizes = [len(one.name) + len(one.value) for one in card.arguments]
    if sum(sizes) <= room:
        share, count = room, len(sizes)
    else:
        count = max(1, min(len(sizes), room // _LEAST))
        share = max(_LEAST, room // count)
    elements: list[Element] = []
    whole = count == len(sizes)
    for argument in card.arguments[:count]:
        there = sum(sizes) <= room
        name = argument.name if there else shorten(argument.name, _NAME)
        part = excerpt(argument.value, share)
        whole = whole and name == argument.name and not part.left_out
        elements.append(line((f"{name}:", True), (shorten(blank(argument.value), 300), False)))
        if argument.value.strip():
            elements += lines(part.head)
        if part.left_out:
            elements += [left_out(part.left_out), *lines(part.tail)]
    if missing := len(sizes) - count:
        elements.append(subtle(f"Cut here: {missing:,} more arguments."))
    return elements, whole


def _address(url: str) -> list[Element]:
    """The whole address as text, its host marked, and what is odd about it."""
    read = address.read(url)
    before, host, after = whole(read.before), reveal(read.host), whole(read.after)
    elements = [line((before, False), (host, True), (after, False))]
    if host:
        elements.append(line(("It leads to ", False), (host, True), (".", False)))
    return elements + [subtle(f"⚠️ {whole(warning)}") for warning in read.warnings]


def _too_long(card: Card) -> str:
    if card.kind is Kind.FORM and not forms.elements(card.fields, open_=True, room=_FORM)[1]:
        return "This form is too long for a card of Teams, so it cannot be answered here."
    there = " and it can be approved there" if card.kind is Kind.APPROVAL and card.complete else ""
    return f"Not all of it stands here: “{EVERYTHING}” leads to all of it{there}."


# --- Who may decide, and what came of it


def _requested(card: Card, names: Names) -> str:
    """Who asked the agent for it, in a conversation that is not this one."""
    known = [member.name if (member := names.get(key)) else key for key in card.askers[:3]]
    told = [whole(one, _NAME) for one in known]
    more = f" and {len(card.askers) - 3} more" if len(card.askers) > 3 else ""
    return f"Requested by {', '.join(told)}{more} in another conversation."


def _outcome(card: Card) -> list[Element]:
    mark = MARKS.get(card.state, "")
    told = shorten(f"{mark} {card.outcome or 'This question is closed.'}", limits.NOTE + 500)
    colour = _COLOURS.get(card.state)
    elements = lines(told, mono=False)
    for element in elements:
        for run in element["inlines"]:
            run |= {"weight": "Bolder"} | ({"color": colour} if colour else {})
    return elements


# --- Buttons


def _rest(card: Card, home: bool) -> list[Element]:
    return [
        *([decline(card, home=home)] if card.open else []),
        *([back(card.nonce, home=True)] if home else []),
    ]


def _actions(card: Card, whole: bool, home: bool) -> list[Element]:
    """The buttons of an open card. `whole`: all that would be decided can be read from it; an
    approval of what cannot is given on its pages, a form is answered here if its fields fit."""
    no = decline(card, home=home)
    read = [] if whole and not card.exact else [everything(card, home=home)]
    match card.kind:
        case Kind.APPROVAL:
            first = approve(card, home=home) if whole else read
            more = read if whole else []
            note = execute(
                card.nonce, actions.NOTE, "Decline with the note", inputs=True, home=home
            )
            return [buttons([*first, *more, no]), forms.note(actions.NOTE), buttons([note])]
        case Kind.FORM:
            _, there = forms.elements(card.fields, open_=True, room=_FORM)
            send = execute(
                card.nonce, actions.ANSWER, "Send", style="positive", inputs=True, home=home
            )
            return [buttons([*([send] if there else []), *read, no])]
        case Kind.PAGE:
            opened = address.read(card.url).host and whole
            link = {"type": "Action.OpenUrl", "title": "Open the page", "url": card.url}
            done = execute(card.nonce, actions.FINISHED, "I have finished", home=home)
            return [buttons([*([link] if opened else []), done, *read, no])]
        case _:
            assert_never(card.kind)
