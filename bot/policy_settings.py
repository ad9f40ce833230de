"""Policies as interlock.toml says them: who may approve what, and who is the same person."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Annotated, Any, Final

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    StrictFloat,
    StrictInt,
    model_validator,
)

from bot.approvers import ANYONE, REQUESTER, Policies, Policy, unreachable
from bot.hours_settings import HoursSettings, Waiting, seconds_of
from bot.rules import Comparison, Condition
from bot.secrets import ConfigError

ASKER: Final = "anybody:who/asks"  # one person more, where the requester may approve

_PERSON: Final = re.compile(r"[a-z]+:[^/\s]+/(?!role:)[^/\s@#][^/\s]*")
_GROUP: Final = re.compile(
    r"slack:(T[A-Z0-9]+/@S|E[A-Z0-9]+/@T[A-Z0-9]+/S|[TE][A-Z0-9]+/#[CG])[A-Z0-9]+"
)
_TEAMS_CHANNEL: Final = re.compile(r"teams:[0-9a-f-]{36}/#19:[A-Za-z0-9_-]+@[a-z0-9.]+")
_NAME: Final = re.compile(r"[^:/]+")


def _person(key: str) -> str:
    if not _PERSON.fullmatch(key):
        raise ValueError("must name a person as surface:organisation/user, like slack:T0123/U0456")
    return key


def _approver(entry: str) -> str:
    named = any(one.fullmatch(entry) for one in (_PERSON, _GROUP, _TEAMS_CHANNEL))
    if named or entry in (REQUESTER, ANYONE):
        return entry
    raise ValueError(
        "must name a person as surface:organisation/user, like slack:T0123/U0456, a user group as "
        "slack:T0123/@S0456 (slack:E0123/@T0456/S0789 where an Enterprise Grid installed the app "
        "as a whole), a channel as slack:T0123/#C0456 or teams:TENANT/#19:ID@thread.tacv2, or be "
        f"“{REQUESTER}” or “{ANYONE}”"
    )


def _seconds(text: str | None) -> float | None:
    return None if text is None else seconds_of(text)


def _next(entry: str) -> str:
    if entry == REQUESTER:
        raise ValueError("names the requester: escalate to somebody who did not ask")
    return _approver(entry)


def _people(people: Mapping[str, Sequence[str]]) -> Mapping[str, Sequence[str]]:
    seen: dict[str, str] = {}
    for name, keys in people.items():
        if not _NAME.fullmatch(name):
            raise ValueError(f"names somebody {name!r}: use a name without : and /")
        for key in keys:
            if seen.setdefault(key, name) != name:
                raise ValueError(f"gives {key} to {seen[key]} and to {name}: remove one")
    return people


def _admin(key: str) -> str:
    if key.startswith("console:"):
        raise ValueError(f"names {key}, who cannot be sent a direct message: name them on Slack")
    return _person(key)


Admin = Annotated[str, AfterValidator(_admin)]
Person = Annotated[str, AfterValidator(_person)]
People = Annotated[dict[str, tuple[Person, ...]], AfterValidator(_people)]
_Number = Annotated[StrictInt | StrictFloat, Field(allow_inf_nan=False)]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ConditionSettings(_Section):
    """One test on one argument; `at_least` and `at_most` may stand together."""

    argument: str = Field(min_length=1)
    equals: JsonValue = None
    one_of: list[JsonValue] | None = Field(default=None, min_length=1)
    at_least: _Number | None = None
    at_most: _Number | None = None
    under: str | None = None

    @model_validator(mode="after")
    def _is_one(self) -> ConditionSettings:
        given = self.model_fields_set - {"argument"}
        if len(given) != 1 and given != {"at_least", "at_most"}:
            raise ValueError(
                "needs one of equals, one_of, at_least, at_most and under beside its argument"
            )
        self.condition()
        return self

    def condition(self) -> Condition:
        """Raises bot.rules.BadRule."""
        test: Comparison
        value: Any
        if self.one_of is not None:
            test, value = Comparison.ONE_OF, self.one_of
        elif self.under is not None:
            test, value = Comparison.UNDER, self.under
        elif self.at_least is not None or self.at_most is not None:
            test, value = Comparison.RANGE, [self.at_least, self.at_most]
        else:
            test, value = Comparison.EQUAL, self.equals
        return Condition(self.argument, test, value)


class PolicySettings(Waiting, _Section):
    """Who may approve which calls; the first policy that covers a call counts."""

    name: str
    tools: tuple[str, ...] = ("*",)
    agents: tuple[str, ...] = ("*",)
    servers: tuple[str, ...] = ("*",)
    when: tuple[ConditionSettings, ...] = ()
    approvers: tuple[Annotated[str, AfterValidator(_approver)], ...] = ()
    quorum: int = Field(default=1, ge=1)
    self_approval: bool = False
    ask: bool = False
    remember: bool = True
    escalate_to: tuple[Annotated[str, AfterValidator(_next)], ...] = ()

    @model_validator(mode="after")
    def _escalates_from_somebody(self) -> PolicySettings:
        if self.escalate_to and not self.approvers:
            raise ValueError("has escalate_to but no approvers: name those who may approve first")
        return self

    rule_makers: tuple[Person, ...] = ()

    @model_validator(mode="after")
    def _remembers_one(self) -> PolicySettings:
        if self.quorum > 1 and "remember" in self.model_fields_set and self.remember:
            raise ValueError(
                "has remember and a quorum: what several people must approve is not remembered, "
                "so remove remember"
            )
        return self

    def policy(self, hours: Mapping[str, HoursSettings]) -> Policy:
        return Policy(
            name=self.name,
            tools=self.tools,
            agents=self.agents,
            servers=self.servers,
            when=tuple(one.condition() for one in self.when),
            approvers=frozenset(self.approvers),
            quorum=self.quorum,
            self_approval=self.self_approval,
            ask=self.ask,
            remember=self.remember,
            escalate_to=frozenset(self.escalate_to),
            hours=None if self.hours is None else hours[self.hours].hours(),
            remind_after=_seconds(self.remind_after),
            escalate_after=_seconds(self.escalate_after),
            expires_after=_seconds(self.expires_after),
            rule_makers=frozenset(self.rule_makers),
        )


def policies_from(
    settings: Sequence[PolicySettings],
    people: Mapping[str, Sequence[str]],
    servers: Collection[str],
    admins: Collection[str] = (),
    hours: Mapping[str, HoursSettings] | None = None,
) -> Policies:
    """`servers`: the names that are configured. Raises ConfigError for what could never hold."""
    hours = hours or {}
    for number, given in enumerate(settings):
        if given.hours is not None and given.hours not in hours:
            raise ConfigError(
                f"policies.{number}.hours names {given.hours}: there is no [hours.{given.hours}]."
            )
    links = {key: name for name, keys in people.items() for key in keys}
    policies = Policies(tuple(one.policy(hours) for one in settings), links, frozenset(admins))
    wrong: list[str] = []
    names = [one.name for one in policies.policies]
    for number, one in enumerate(policies.policies):
        if one.name in names[:number]:  # an escalation holds for the policy of this name alone
            wrong.append(f"policies.{number}.name is {one.name}, as of another: give it its own.")
        for pattern in one.servers:
            if not any(fnmatchcase(name, pattern) for name in (*servers, "")):
                wrong.append(
                    f"policies.{number}.servers names {pattern}: there is no [servers.{pattern}]."
                )
        if one.approvers and one.quorum > 1:
            why = unreachable(one, askers=(ASKER,), tool="anything", who=policies.who)
            if why is not None:
                wrong.append(
                    f"policies.{number}.quorum is {one.quorum}, but approvers names fewer people: "
                    "name more or lower it."
                )
    if wrong:
        raise ConfigError("\n".join(wrong))
    return policies


def weak(policies: Policies) -> Iterator[str]:
    """What is allowed and should be known, a sentence each."""
    for one in policies.policies:
        for group in sorted(one.in_the_end.groups - {REQUESTER, ANYONE}):
            if "/#" in group:
                yield (
                    f"The policy {one.name} lets the members of {group} approve, which is weak: "
                    "whoever is let into that channel can approve. A user group is safer."
                )
