"""Standing rules, whatever they are: stronger ones win, and typed values are all that counts."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from bot.approvers import Policy
from bot.gate import Answer, AskFirst, Deny, Run, digest, gate
from bot.rules import Comparison, Condition, covers, same
from bot.tool import Tool, tool
from storage.database import canonical
from storage.rules import RuleRow

BEN = "slack:T1/BEN"
MAKES = Policy(name="ops", approvers=frozenset({BEN}), rule_makers=frozenset({BEN}))

SCALARS = (
    st.none() | st.booleans() | st.integers(-3, 3) | st.floats(-3, 3) | st.text("ab/.", max_size=4)
)
JSON = st.recursive(
    SCALARS,
    lambda one: (
        st.lists(one, max_size=3) | st.dictionaries(st.text("ab.", max_size=2), one, max_size=3)
    ),
    max_leaves=6,
)
NAMES = st.sampled_from(["a", "b", "a.b"])
ARGS = st.dictionaries(NAMES, JSON, max_size=3)


@tool(approval="always")
async def pay() -> str:
    """Pays."""
    return ""


@tool(name="pay", approval="never")
async def free() -> str:
    """Pays."""
    return ""


@st.composite
def conditions(draw: st.DrawFn) -> Condition:
    test = draw(st.sampled_from(list(Comparison)))
    match test:
        case Comparison.EXACT:
            return Condition("", test, draw(ARGS))
        case Comparison.EQUAL:
            value: Any = draw(JSON)
        case Comparison.ONE_OF:
            value = draw(st.lists(JSON, min_size=1, max_size=3))
        case Comparison.RANGE:
            low, high = sorted([draw(st.integers(-3, 3)), draw(st.integers(-3, 3))])
            value = draw(st.sampled_from([[low, high], [low, None], [None, high]]))
        case Comparison.UNDER:
            value = draw(st.sampled_from(["/", "/a", "a", "a/b", "/a/b"]))
    return Condition(draw(NAMES), test, value)


@st.composite
def rule_rows(draw: st.DrawFn, effect: str | None = None) -> RuleRow:
    return RuleRow(
        id=draw(st.text("ab", min_size=1, max_size=6)),
        effect=effect or draw(st.sampled_from(["allow", "ask", "deny"])),
        scope="surface",
        scope_key="slack",
        server="",
        tool="pay",
        schema_digest=draw(st.sampled_from([pay.schema_digest, free.schema_digest])),
        conditions=[one.to_json() for one in draw(st.lists(conditions(), max_size=2))],
        created_by=draw(st.sampled_from([BEN, BEN, "slack:T1/CYN"])),
        created_name="somebody",
        created_at=0.0,
    )


RULES = st.lists(rule_rows(), max_size=4)
TOOLS = st.sampled_from([pay, free])


def judged(tool: Tool, args: dict[str, Any], rules: list[RuleRow]) -> Answer:
    return gate(tool, args, policy=MAKES, askers={"slack:T1/ANA"}, rules=rules)


def strictness(answer: Answer) -> int:
    match answer:
        case Run():
            return 0
        case AskFirst():
            return 1
        case Deny():
            return 2


@given(TOOLS, ARGS, RULES, rule_rows("deny") | rule_rows("ask"))
def test_a_rule_that_asks_or_denies_never_lets_more_run(
    tool: Tool, args: dict[str, Any], rules: list[RuleRow], one: RuleRow
) -> None:
    assert strictness(judged(tool, args, [*rules, one])) >= strictness(judged(tool, args, rules))


@given(TOOLS, ARGS, RULES, rule_rows("allow"))
def test_a_rule_that_allows_changes_nothing_that_another_asks_or_denies(
    tool: Tool, args: dict[str, Any], rules: list[RuleRow], one: RuleRow
) -> None:
    stronger = [
        r for r in rules if r.effect != "allow" and covers(r, server="", tool="pay", args=args)
    ]
    before, after = judged(tool, args, rules), judged(tool, args, [*rules, one])
    if stronger:
        assert strictness(after) == strictness(before) > 0
    else:
        assert strictness(after) <= strictness(before)


@given(TOOLS, ARGS, RULES, st.randoms())
def test_the_order_of_rules_does_not_matter(
    tool: Tool, args: dict[str, Any], rules: list[RuleRow], dice: Any
) -> None:
    other = list(rules)
    dice.shuffle(other)
    assert strictness(judged(tool, args, rules)) == strictness(judged(tool, args, other))


@given(ARGS, ARGS)
def test_an_exact_rule_is_for_the_very_arguments_and_their_types(
    args: dict[str, Any], other: dict[str, Any]
) -> None:
    exact = Condition("", Comparison.EXACT, args)
    alike = canonical(_numbers(args)) == canonical(_numbers(other))
    assert exact.holds(args, doubt=False)
    assert exact.holds(other, doubt=False) is alike


def _numbers(value: Any) -> Any:
    """A JSON value with every number spelled by its value alone."""
    match value:
        case bool() | None | str():
            return value
        case int() | float():
            return {"number": float(value) + 0.0}
        case dict():
            return {key: _numbers(one) for key, one in value.items()}
        case _:
            return [_numbers(one) for one in value]


@given(JSON, JSON)
def test_equal_is_what_json_says_whichever_comes_first(one: Any, other: Any) -> None:
    assert same(one, other) is same(other, one)
    assert same(one, json.loads(json.dumps(one)))


@given(conditions(), ARGS)
def test_what_a_condition_surely_means_it_means_in_doubt(
    one: Condition, args: dict[str, Any]
) -> None:
    if one.holds(args, doubt=False):
        assert one.holds(args, doubt=True)


RANGES = st.tuples(st.integers(-3, 3), st.integers(0, 3)).flatmap(
    lambda one: st.sampled_from([[one[0], one[0] + one[1]], [one[0], None], [None, one[0]]])
)


@given(
    st.builds(Condition, st.just("a"), st.just(Comparison.RANGE), RANGES) | conditions(),
    st.builds(Condition, st.just("a"), st.just(Comparison.RANGE), RANGES) | conditions(),
    ARGS | st.fixed_dictionaries({"a": st.integers(-4, 4)}),
)
def test_conditions_that_exclude_each_other_never_hold_together(
    one: Condition, other: Condition, args: dict[str, Any]
) -> None:
    if one.excludes(other):
        assert not (one.holds(args, doubt=False) and other.holds(args, doubt=True))


def test_bounds_exclude_what_lies_beyond_them() -> None:
    def bounds(low: int | None, high: int | None) -> Condition:
        return Condition("a", Comparison.RANGE, [low, high])

    assert bounds(None, 99).excludes(bounds(100, None))
    assert bounds(100, 200).excludes(bounds(None, 99))
    assert not bounds(None, 100).excludes(bounds(100, None))
    assert not bounds(1, None).excludes(bounds(2, None))
    assert not bounds(1, 5).excludes(bounds(0, 9))


PATHS = st.lists(st.sampled_from(["a", "b", "ab", "..", ".", "", "~", "*"]), max_size=4)


@given(st.sampled_from(["/a", "/a/b", "a"]), PATHS, st.booleans())
def test_a_path_is_below_another_by_whole_plain_segments_only(
    top: str, parts: list[str], rooted: bool
) -> None:
    path = ("/" if rooted else "") + "/".join(parts)
    holds = Condition("p", Comparison.UNDER, top).holds({"p": path}, doubt=False)
    if holds:
        assert path.rstrip("/").split("/")[: len(top.split("/"))] == top.split("/")
        assert not {"..", ".", "~", "*"} & set(parts)
        assert "//" not in path


@given(st.sampled_from(["safe", 7]), st.sampled_from(["safe", "evil"]))
def test_an_argument_named_like_a_path_hides_nothing_from_a_rule(beside: Any, inside: str) -> None:
    args = {"a.b": beside, "a": {"b": inside}}
    evil = Condition("a.b", Comparison.EQUAL, "evil")
    safe = Condition("a.b", Comparison.EQUAL, "safe")
    assert evil.holds(args, doubt=True) is (inside == "evil")
    assert safe.holds(args, doubt=False) is (beside == inside == "safe")


@given(ARGS)
def test_equal_arguments_have_one_digest_whatever_their_order(args: dict[str, Any]) -> None:
    turned = dict(reversed(args.items()))
    assert digest("", "pay", "s", args) == digest("", "pay", "s", turned)


@given(ARGS, ARGS)
def test_other_arguments_have_another_digest(args: dict[str, Any], other: dict[str, Any]) -> None:
    alike = json.dumps(args, sort_keys=True) == json.dumps(other, sort_keys=True)
    assert (digest("", "pay", "s", args) == digest("", "pay", "s", other)) is alike


def test_a_carrier_is_never_let_run_whatever_its_arguments() -> None:
    @tool(name="pay", carrier=True)
    async def shell(command: str) -> str:
        """Runs."""
        return command

    def row(*held: Condition) -> RuleRow:
        return RuleRow(
            id="r",
            effect="allow",
            scope="surface",
            scope_key="slack",
            server="",
            tool="pay",
            schema_digest=shell.schema_digest,
            conditions=[one.to_json() for one in held],
            created_by=BEN,
            created_name="ben",
            created_at=0.0,
        )

    args = {"command": "ls"}
    assert judged(shell, args, [row()]) == AskFirst()
    exact = row(Condition("", Comparison.EXACT, args))
    assert judged(shell, args, [exact]) == Run(exact)
    assert judged(shell, {"command": "ls "}, [exact]) == AskFirst()
