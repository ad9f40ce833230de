"""Deciding several approvals of one card at once. Each is authorised, decided and recorded by
itself, as if the person had pressed its own button: what holds for one holds for all."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import structlog

from bot.desk import Desk
from bot.question import QuestionError, UnknownQuestion, Verb
from bot.surface import GroupDecision, Response
from storage import questions
from storage.database import DatabaseUnavailable
from storage.questions import QuestionRow, QuestionState

log = structlog.get_logger(__name__)

SETTLED = "All of these were settled before; the card says how."


@dataclass
class _Tally:
    """What came of it so far. `refused` counts by the sentence that says why."""

    asked: int
    done: int = 0
    settled: int = 0
    open: int = 0  # of those done, what others have to approve too
    refused: Counter[str] = field(default_factory=Counter)


async def decide_together(desk: Desk, event: GroupDecision) -> Response:
    """Decides the questions that the event means; what was decided is durable when it returns."""
    if event.only is not None and not event.only:
        return Response(done=False, sentence="Select the calls first, then press the button again.")
    try:
        chosen, strange = await _chosen(desk, event)
    except QuestionError as error:
        return Response(done=False, sentence=str(error))
    except DatabaseUnavailable as error:
        return Response(done=False, sentence=f"{error} Nothing was decided.")
    if not chosen and not strange:
        return Response(done=False, sentence=SETTLED)
    tally = _Tally(asked=len(chosen) + strange)
    if strange:
        tally.refused[str(UnknownQuestion())] += strange
    for row in chosen:
        try:
            ruling = await desk.decide(
                row.nonce, event.verb, by=event.actor, via=event.via, place=event.place
            )
        except QuestionError as error:
            tally.refused[str(error)] += 1
        except DatabaseUnavailable as error:
            log.warning("not all of a group could be decided", via=event.via)
            tally.refused[f"{error} The card shows what was decided."] += (
                tally.asked - tally.done - tally.settled - tally.refused.total()
            )
            break
        else:
            counts = ruling.first or bool(ruling.recorded)
            tally.done += counts
            tally.settled += not counts
            tally.open += bool(ruling.recorded)
    return Response(done=tally.done == tally.asked, sentence=_sentence(tally, event.verb))


async def _chosen(desk: Desk, event: GroupDecision) -> tuple[list[QuestionRow], int]:
    """The questions to decide, and how many of the selected ones are not of this card. What
    somebody else has settled is among them, so that whoever thought otherwise is told. Raises
    UnknownQuestion."""
    async with desk.core.db.read() as tx:
        named = await questions.by_nonce(tx, event.nonce)
        if named is None or named.card is None:
            raise UnknownQuestion
        rows = await questions.of_card(tx, named.card)
    if event.only is None:
        mine = event.actor.key
        return [r for r in rows if r.state == QuestionState.OPEN or r.settled_by != mine], 0
    wanted = set(event.only)
    chosen = [row for row in rows if row.nonce in wanted]
    return chosen, len(wanted) - len(chosen)


def _sentence(tally: _Tally, verb: Verb) -> str:
    """What the person is told; nothing where all of it counts, for then the card says it."""
    if tally.done == tally.asked:
        return f"Recorded; {_others(tally.open)}." if tally.open else ""
    if tally.settled == tally.asked:
        return SETTLED
    if len(tally.refused) == 1 and tally.refused.total() == tally.asked:
        return next(iter(tally.refused))
    what = "approved" if verb is Verb.APPROVE else "declined"
    parts = [f"{tally.done} of {tally.asked} {_were(tally.done)} {what}"]
    if tally.open:
        parts.append(_others(tally.open))
    if tally.settled:
        parts.append(f"{tally.settled} {_were(tally.settled)} settled before")
    parts += [
        f"{count} {_were(count)} refused: {why.rstrip('.')}" for why, count in tally.refused.items()
    ]
    return "; ".join(parts) + "."


def _others(count: int) -> str:
    return f"others have to approve {count} of them too"


def _were(count: int) -> str:
    return "was" if count == 1 else "were"
