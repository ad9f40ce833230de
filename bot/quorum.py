"""Several people who must all say yes: who has, of how many. The decisions on record are the truth;
the names on the card are for reading."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bot.approvers import Policy, Who
from bot.question import QuestionError, Verb
from bot.surface import Actor
from storage import questions
from storage.database import Tx
from storage.questions import QuestionRow

YES = (Verb.APPROVE, Verb.ANSWER)  # what an approval is recorded as
_NAMES = 200  # characters that a row has for the names of those who settled it


class ApprovedAlready(QuestionError):
    """The same person again: nothing changed."""


@dataclass(frozen=True, slots=True)
class Tally:
    """How an approval stands with this person's: `count` people of `needed`, and their names."""

    count: int
    needed: int
    names: tuple[str, ...]

    @property
    def reached(self) -> bool:
        return self.count >= self.needed

    @property
    def sentence(self) -> str:
        """What the person is told while others still have to approve."""
        return f"Recorded: {self.count} of {self.needed}."

    @property
    def label(self) -> str:
        """Who approved, as the settled card says it."""
        return (", ".join(self.names[:-1]) + " and " if self.names[1:] else "") + self.names[-1]

    def body(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """The body of the question, for its card to say who approved."""
        return {
            **body,
            "approved": {"by": list(self.names), "count": self.count, "needed": self.needed},
        }


async def tally(tx: Tx, question: QuestionRow, policy: Policy, by: Actor, who: Who) -> Tally:
    """With the approval of this person, who counts once however they are linked. Raises
    ApprovedAlready where theirs was counted and others still have to approve."""
    before = await questions.decisions_on(tx, question.id)
    people = {who(one.actor) for one in before if one.verb in YES}
    names = list(question.body.get("approved", {}).get("by", ()))
    mine = {who(key) for key in by.keys}
    if people.isdisjoint(mine):
        names.append(by.label)
    elif len(people) < policy.quorum:
        raise ApprovedAlready(
            f"You approved this before, and somebody else has to: {len(people)} of "
            f"{policy.quorum} so far."
        )
    found = Tally(len(people - mine) + 1, policy.quorum, tuple(names) or (by.label,))
    return found if len(found.label) <= _NAMES else Tally(found.count, found.needed, (by.label,))
