"""Standing rules as interlock.toml says them, and how they become rows when the program starts."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, time
from typing import Annotated, Any, Final

import structlog
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator

from bot.approvers import FILE
from bot.core import Core
from bot.policy_settings import ConditionSettings
from bot.rule_text import place
from bot.rulebook import (
    keep,
    pinned,
    policies_of,
    server_of,
    suspended,
    take_back,
    unknown,
    wrong_with,
)
from bot.rules import Effect, effect_of
from storage import rules
from storage.database import Tx, canonical
from storage.rules import RuleRow

log = structlog.get_logger(__name__)

MAKER: Final = "interlock.toml"


def _place(text: str) -> str:
    place(text)
    return text


class RuleSettings(BaseModel):
    """One standing rule. `until`: it ends as this day begins, in UTC. `note`: why it is there."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    tool: str = Field(min_length=1)
    effect: Effect
    where: Annotated[str, AfterValidator(_place)]
    when: tuple[ConditionSettings, ...] = ()
    until: date | None = None
    uses: int | None = Field(default=None, ge=1)
    note: str = ""

    @field_validator("until", mode="before")
    @classmethod
    def _is_a_day(cls, value: Any) -> Any:
        if isinstance(value, datetime):
            raise ValueError("must be a day, like 2027-01-31")
        return value

    def rule_id(self, number: int) -> str:
        """The id of the rule of this entry that was made after `number` others that ended when
        the entry was removed."""
        text = canonical([self.model_dump(mode="json"), number])
        return f"rule_{hashlib.sha256(text.encode()).hexdigest()[:20]}"

    def rule(self, core: Core, number: int = 0) -> RuleRow:
        kind, key = place(self.where)
        ends = None if self.until is None else datetime.combine(self.until, time(), UTC)
        return RuleRow(
            id=self.rule_id(number),
            effect=self.effect.value,
            scope=kind,
            scope_key=key,
            server=server_of(core, self.tool),
            tool=self.tool,
            schema_digest="",
            conditions=[one.condition().to_json() for one in self.when],
            created_by=FILE,
            created_name=MAKER,
            created_at=core.now(),
            expires_at=None if ends is None else ends.timestamp(),
            uses_left=self.uses,
            note=self.note or None,
        )


def problems(core: Core, entries: Sequence[RuleSettings]) -> Iterator[str]:
    """What could never hold, or not as it reads, a sentence each. Tools of a server that did not
    tell them yet are not judged."""
    made = [one.rule(core) for one in entries]
    for number, rule in enumerate(made):
        name = f"rules.{number}"
        why = None if unknown(core, rule) else wrong_with(core, rule)
        if why is not None:
            yield f"{name}: {why}"
            continue
        if rule.id in {one.id for one in made[:number]}:
            yield f"{name} stands there twice: remove one."
        if effect_of(rule) is not Effect.ALLOW:
            continue
        might = list(policies_of(core, rule))
        if might and all(one.quorum > 1 for one in might):
            yield (
                f"{name} allows {rule.tool}, for which the policy {might[0].name} wants "
                f"{might[0].quorum} people, so it never counts: remove it."
            )
        for other, stronger in enumerate(made):
            if _silences(stronger, rule):
                yield (
                    f"{name} allows what rules.{other} "
                    f"{'denies' if effect_of(stronger) is Effect.DENY else 'asks about'}, which is "
                    "stronger: remove one."
                )


def _silences(stronger: RuleRow, rule: RuleRow) -> bool:
    """Whether a rule that asks or denies speaks wherever this one does."""
    wider = rule.scope_key == stronger.scope_key or rule.scope_key.startswith(
        (f"{stronger.scope_key}:", f"{stronger.scope_key}/")
    )
    return (
        effect_of(stronger) is not Effect.ALLOW
        and stronger.tool == rule.tool
        and wider
        and stronger.expires_at is None
        and stronger.uses_left is None
        and stronger.conditions in ([], rule.conditions)
    )


async def sync(core: Core, entries: Sequence[RuleSettings]) -> None:
    """The rows become what the file says, in one transaction: new entries are made, those that are
    gone end. One that allows is for the tool as it is when it is first seen."""
    async with core.db.transaction("sync_rules") as tx:
        wanted = [await _row(core, tx, one) for one in entries]
        there = {one.id: one for one in await rules.made_by(tx, FILE)}
        kept = {one.id for one in wanted}
        for row in there.values():
            if row.id not in kept:
                await take_back(core, tx, row, by=FILE, via="file")
        for row in wanted:
            known = there.get(row.id)
            seen = pinned(core, row)
            if known is None:
                await keep(core, tx, seen, via="file")
            elif not known.schema_digest and seen.schema_digest:
                await rules.pin(tx, known.id, seen.schema_digest)
        in_force = await rules.made_by(tx, FILE)
    for row in in_force:
        if unknown(core, row):
            log.warning("a rule's tool is not known at the start", rule=row.id, tool=row.tool)
        elif why := suspended(core, row):
            log.warning("a rule allows nothing", rule=row.id, tool=row.tool, why=why)


async def _row(core: Core, tx: Tx, entry: RuleSettings) -> RuleRow:
    """The rule of an entry: that which is in force, or a new one where the last was taken back."""
    number = 0
    while (row := await rules.get(tx, entry.rule_id(number))) and row.revoked_at is not None:
        number += 1
    return entry.rule(core, number)
