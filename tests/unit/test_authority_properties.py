"""What holds of the one authoriser and of the identity of a call, whatever they are asked."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from hypothesis import assume, given
from hypothesis import strategies as st

from bot.approvers import ANYONE, REQUESTER, Policies, Policy, refusal
from bot.gate import digest
from bot.question import Purpose
from bot.rules import Comparison, Condition
from bot.surface import Actor

KEYS = [f"slack:T{team}/U{user}" for team in (1, 2) for user in "ABC"]
GROUPS = ["slack:T1/@S1", "slack:T1/#C1"]
NAMES = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(["ana", "ben"]), max_size=4)


@st.composite
def actors(draw: st.DrawFn) -> Actor:
    surface, _, rest = draw(st.sampled_from(KEYS)).partition(":")
    team, _, user = rest.partition("/")
    return Actor(
        surface,
        team,
        user,
        is_bot=draw(st.booleans()),
        is_guest=draw(st.booleans()),
        is_external=draw(st.booleans()),
        roles=draw(st.frozensets(st.sampled_from(GROUPS))),
    )


POLICIES = st.builds(
    Policy,
    name=st.just("p"),
    approvers=st.frozensets(st.sampled_from([*KEYS, *GROUPS, REQUESTER, ANYONE])),
    self_approval=st.booleans(),
    quorum=st.integers(1, 3),
)
ASKERS = st.frozensets(st.sampled_from(KEYS), min_size=1, max_size=2)
PURPOSES = st.sampled_from(Purpose)


def asked(
    actor: Actor,
    policy: Policy,
    askers: frozenset[str],
    names: dict[str, str],
    purpose: Purpose = Purpose.APPROVAL,
) -> str | None:
    who = Policies(people=names).who
    return refusal(actor, purpose=purpose, policy=policy, askers=askers, tool="t", who=who)


@given(actors(), POLICIES, ASKERS, NAMES, PURPOSES)
def test_a_bot_is_always_refused_and_a_stranger_unless_named(
    actor: Actor, policy: Policy, askers: frozenset[str], names: dict[str, str], purpose: Purpose
) -> None:
    assert asked(replace(actor, is_bot=True), policy, askers, names, purpose) is not None
    who = Policies(people=names).who
    named = who(actor.key) in {who(one) for one in policy.people}
    if not named:
        for stranger in (replace(actor, is_guest=True), replace(actor, is_external=True)):
            assert asked(stranger, policy, askers, names, purpose) is not None


@given(actors(), POLICIES, ASKERS, NAMES)
def test_who_asked_approves_only_where_the_policy_says_so(
    actor: Actor, policy: Policy, askers: frozenset[str], names: dict[str, str]
) -> None:
    who = Policies(people=names).who
    assume(who(actor.key) in {who(one) for one in askers})
    strict = replace(policy, self_approval=False, approvers=policy.approvers - {REQUESTER})
    assert asked(actor, strict, askers, names) is not None


@given(actors(), ASKERS, NAMES)
def test_nobody_approves_where_nobody_is_named(
    actor: Actor, askers: frozenset[str], names: dict[str, str]
) -> None:
    assert asked(actor, Policy(name="p", self_approval=True), askers, names) is not None


@given(actors(), POLICIES, ASKERS, NAMES, PURPOSES, st.text(max_size=9))
def test_neither_a_name_nor_a_strange_group_helps(
    actor: Actor,
    policy: Policy,
    askers: frozenset[str],
    names: dict[str, str],
    purpose: Purpose,
    name: str,
) -> None:
    dressed = replace(actor, name=name, roles=actor.roles | {"slack:T9/@S1", "slack:T1/@S9", name})
    plain = asked(actor, policy, askers, names, purpose)
    assert asked(dressed, policy, askers, names, purpose) == plain


@given(actors(), POLICIES, ASKERS, NAMES)
def test_fewer_approvers_let_nobody_in_who_was_out(
    actor: Actor, policy: Policy, askers: frozenset[str], names: dict[str, str]
) -> None:
    if asked(actor, policy, askers, names) is not None:
        for one in policy.approvers:
            fewer = replace(policy, approvers=policy.approvers - {one})
            assert asked(actor, fewer, askers, names) is not None


@given(actors(), POLICIES, ASKERS, PURPOSES)
def test_two_accounts_of_one_person_get_the_same_answer(
    actor: Actor, policy: Policy, askers: frozenset[str], purpose: Purpose
) -> None:
    other = Actor("console", "local", "x", roles=actor.roles)
    other = replace(other, is_bot=actor.is_bot, is_guest=actor.is_guest)
    other = replace(other, is_external=actor.is_external)
    names = {actor.key: "one", other.key: "one"}
    first = asked(actor, policy, askers, names, purpose)
    assert asked(other, policy, askers, names, purpose) == first


# The identity of a call

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from([0.5, 1.0]) | st.text("aß1 "),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab"), inner, max_size=3),
    max_leaves=6,
)
ARGS = st.dictionaries(st.text("abc", min_size=1, max_size=2), JSON, max_size=4)


def turned(value: Any) -> Any:
    """The same with every object's names in the other order."""
    match value:
        case dict():
            return {name: turned(inner) for name, inner in reversed(value.items())}
        case list():
            return [turned(inner) for inner in value]
        case _:
            return value


def told(args: Any) -> str:
    """By type too: 1, 1.0, true and "1" are four values."""
    return json.dumps(args, sort_keys=True)


@given(ARGS)
def test_the_order_of_names_is_no_difference(args: dict[str, Any]) -> None:
    assert digest("s", "t", "d", args) == digest("s", "t", "d", turned(args))


@given(ARGS, ARGS)
def test_any_other_arguments_are_another_call(one: dict[str, Any], other: dict[str, Any]) -> None:
    same = digest("s", "t", "d", one) == digest("s", "t", "d", other)
    assert same is (told(one) == told(other))


@given(ARGS, st.data())
def test_one_changed_value_is_another_call(args: dict[str, Any], data: st.DataObject) -> None:
    assume(args)
    name = data.draw(st.sampled_from(sorted(args)))
    value = data.draw(JSON)
    assume(told(value) != told(args[name]))
    changed = {**args, name: value}
    assert digest("s", "t", "d", args) != digest("s", "t", "d", changed)
    without = {key: value for key, value in args.items() if key != name}
    assert digest("s", "t", "d", args) != digest("s", "t", "d", without)


THREE = st.tuples(*[st.text('ab",[] ', max_size=4)] * 3)


@given(THREE, THREE)
def test_server_tool_and_schema_do_not_run_into_each_other(
    one: tuple[str, str, str], other: tuple[str, str, str]
) -> None:
    assert (digest(*one, {}) == digest(*other, {})) is (one == other)


@given(ARGS)
def test_the_order_of_names_chooses_no_other_policy(args: dict[str, Any]) -> None:
    exact = Policy(name="exact", when=(Condition("", Comparison.EXACT, args),))
    some = [
        Policy(name=name, when=(Condition(name, Comparison.ONE_OF, [value]),))
        for name, value in args.items()
        if not isinstance(value, dict | list)
    ]
    found = Policies([*some, exact])
    assert found.of("a", "t", "", args) == found.of("a", "t", "", turned(args))
    assert Policies([exact]).of("a", "t", "", args) == exact
