"""What a person has on the terminal: the cards under their numbers, and what was said so far."""

from __future__ import annotations

from dataclasses import dataclass, replace

from rich.console import Console, RenderableType

from adapters.console import draw
from bot.card import Card, TaskCard
from bot.surface import DeliveryError, Place

_REPLIES_KEPT = 100  # of which the printed text is known, to print only what is new


@dataclass(slots=True)
class Shown:
    """A card as it was last printed. `fresh`: it settled since the person last typed a line."""

    number: int
    place: Place
    card: Card
    fresh: bool = False


class NoCard(Exception):
    """The number names no open card: one sentence for the person."""


class Screen:
    """Prints, and knows what it printed. A terminal takes nothing back: what changes is printed
    again below."""

    def __init__(self, console: Console, thread: str) -> None:
        """`thread` is the root of the thread that is shown without its name."""
        self._console = console
        self._thread = thread
        self._cards: dict[str, Shown] = {}
        self._tasks: dict[str, tuple[int, Place, TaskCard]] = {}
        self._replies: dict[str, str] = {}

    def card(self, place: Place, card: Card) -> None:
        """Prints a card that is new or changed; an open one anew, a settled one as its line."""
        card = card.for_one()  # a terminal is one person's
        shown = self._cards.get(card.nonce)
        if shown is None:
            shown = self._cards[card.nonce] = Shown(len(self._cards) + 1, place, card)
        elif card == shown.card or card.version < shown.card.version:
            return
        else:
            shown.fresh = shown.fresh or (shown.card.open and not card.open)
            shown.card = card
        self._print(draw.card(card, shown.number, self._elsewhere(place)))

    def task(self, place: Place, task: TaskCard) -> None:
        """Prints what is new of a background call, under the number that cancels it."""
        number, _, before = self._tasks.get(task.nonce, (len(self._tasks) + 1, place, None))
        self._tasks[task.nonce] = (number, place, task)
        if before is None or replace(before, version=task.version) != task:
            self._print(draw.task(task, number, self._elsewhere(place)))

    def pick_task(self, number: int | None) -> tuple[Place, TaskCard]:
        """The running background call of this number, or the only one. Raises NoCard."""
        running = {key: (place, one) for key, place, one in self._tasks.values() if one.open}
        if number is None and len(running) == 1:
            return next(iter(running.values()))
        if number in running:
            return running[number]
        numbers = ", ".join(str(key) for key in running)
        raise NoCard(f"Name one of these: {numbers}." if running else "No background call runs.")

    def reply(self, place: Place, message_id: str, text: str) -> None:
        """Prints what the agent says; of a message that grew, what is new."""
        before = self._replies.pop(message_id, "")
        self._replies[message_id] = text
        if len(self._replies) > _REPLIES_KEPT:
            del self._replies[next(iter(self._replies))]
        news = _news(before, text)
        if news.strip():
            self._print(draw.reply(news, self._elsewhere(place)))

    def say(self, text: str) -> None:
        """Prints a sentence for the person who sits here."""
        self._print(draw.sentence(text))

    def show(self, drawn: RenderableType) -> None:
        self._print(drawn)

    def pick(self, number: int | None) -> Shown:
        """The open card of this number; without one, the only card a person can mean. Raises
        NoCard.

        A card that settled after the person last typed may be the one they meant, so another that
        came up meanwhile is not taken for it."""
        if number is not None:
            return self._numbered(number)
        meant = [one for one in self._cards.values() if one.card.open or one.fresh]
        match meant:
            case []:
                raise NoCard("No card is open here.")
            case [only]:
                return self._numbered(only.number)
            case _:
                numbers = ", ".join(f"#{one.number}" for one in meant)
                raise NoCard(f"That could mean {numbers}: add the number, as in /approve 1.")

    def pick_expired(self, number: int | None) -> Shown:
        """The expired card of this number, or the only one. Raises NoCard."""
        expired = [one for one in self._cards.values() if one.card.again]
        found = [one for one in expired if number in (None, one.number)]
        if len(found) == 1:
            return found[0]
        numbers = ", ".join(f"#{one.number}" for one in expired)
        raise NoCard(f"Name one of these: {numbers}." if expired else "No card here has expired.")

    def typed(self) -> None:
        """A person typed a line, so they have seen what was printed before."""
        for shown in self._cards.values():
            shown.fresh = False

    def _numbered(self, number: int) -> Shown:
        found = next((one for one in self._cards.values() if one.number == number), None)
        if found is None:
            raise NoCard(f"There is no card #{number}.")
        if not found.card.open:
            raise NoCard(f"#{number} was settled before: {found.card.outcome}")
        return found

    def _elsewhere(self, place: Place) -> str:
        return "" if place.root == self._thread else place.root

    def _print(self, drawn: RenderableType) -> None:
        try:
            self._console.print(drawn)
        except OSError as error:
            raise DeliveryError(f"the terminal cannot be written to: {error}") from error


def _news(before: str, now: str) -> str:
    """What to print of a message that said `before`: its further text, from the beginning of the
    word that was cut; all of it when it was rewritten."""
    if not before or not now.startswith(before):
        return now
    new = now[len(before) :]
    cut = max(before.rfind(" "), before.rfind("\n")) + 1
    if cut == len(before) or not new:
        return new
    return new[1:] if new[0] in " \n" else f"…{now[cut:]}"
