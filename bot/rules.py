"""Standing rules: what they say of a call, decided on typed argument values (spec: Rules).

Deny beats ask beats allow. A condition looks at the validated value of an argument, never at how it
is drawn (row B64). What is odd counts against the caller: it does not meet the condition of a rule
that allows, and meets that of a rule that asks or denies."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, assert_never

from storage.redact import mask_all, mask_field
from storage.rules import RuleRow


class Effect(StrEnum):
    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"


class Comparison(StrEnum):
    EXACT = "exact"  # all arguments are these, and there are no others
    EQUAL = "equal"
    ONE_OF = "one_of"
    RANGE = "range"  # a number between two bounds, both inclusive; None: no bound
    UNDER = "under"  # a path that is the value or lies below it, by whole segments


class BadRule(ValueError):
    """The conditions contradict themselves or cannot be kept: one sentence."""


@dataclass(frozen=True, slots=True)
class Condition:
    """One test on one argument. `argument` names it, with dots into objects; empty for EXACT."""

    argument: str
    test: Comparison
    value: Any

    def __post_init__(self) -> None:
        if (self.argument == "") is not (self.test is Comparison.EXACT):
            raise BadRule("A condition needs the name of an argument.")
        match self.test:
            case Comparison.EXACT if not isinstance(self.value, Mapping):
                raise BadRule("The arguments of an exact call are an object.")
            case Comparison.ONE_OF if not (isinstance(self.value, list) and self.value):
                raise BadRule(f"{self.argument} needs a list of values.")
            case Comparison.RANGE if not _is_range(self.value):
                raise BadRule(f"{self.argument} needs a lower and an upper bound, or one of them.")
            case Comparison.UNDER if not (isinstance(self.value, str) and _clean(self.value)):
                raise BadRule(f"{self.argument} needs a plain path, without . or .. in it.")
            case _:
                pass

    def to_json(self) -> dict[str, Any]:
        return {"argument": self.argument, "test": self.test.value, "value": self.value}

    def sentence(self) -> str:
        """What it asks for, to follow "when", without secrets of known shapes."""
        value = mask_field(self.argument, self.value)
        match self.test:
            case Comparison.EXACT:
                return "the arguments are exactly those of this call"
            case Comparison.EQUAL:
                return f"{self.argument} is {_spelled(value)}"
            case Comparison.ONE_OF:
                return f"{self.argument} is one of {', '.join(map(_spelled, value))}"
            case Comparison.RANGE:
                low, high = self.value
                if low is None or high is None:
                    bound = f"at most {high}" if low is None else f"at least {low}"
                    return f"{self.argument} is {bound}"
                return f"{self.argument} is between {low} and {high}"
            case Comparison.UNDER:
                return f"{self.argument} is {value} or below it"
            case unreachable:
                assert_never(unreachable)

    def holds(self, args: Mapping[str, Any], *, doubt: bool) -> bool:
        """Whether the arguments meet it. `doubt`: what is returned where it cannot be told."""
        if self.test is Comparison.EXACT:
            return same(args, self.value)
        found = [self._fits(value, doubt) for value in _read(args, self.argument)]
        return bool(found) and (any(found) if doubt else all(found))

    def _fits(self, value: Any, doubt: bool) -> bool:
        match self.test:
            case Comparison.EQUAL:
                return same(value, self.value)
            case Comparison.ONE_OF:
                return any(same(value, one) for one in self.value)
            case Comparison.RANGE:
                return _within(value, self.value, doubt)
            case Comparison.UNDER:
                return _under(value, self.value, doubt)
            case Comparison.EXACT:
                return same(value, self.value)
            case unreachable:
                assert_never(unreachable)

    def excludes(self, other: Condition) -> bool:
        """Whether no arguments that meet this one can meet the other, even in doubt."""
        if self.test is Comparison.EXACT:
            return not other.holds(self.value, doubt=True)
        if self.argument != other.argument:
            return False
        match self.test:
            case Comparison.EQUAL:
                return not other._fits(self.value, True)
            case Comparison.ONE_OF:
                return not any(other._fits(one, True) for one in self.value)
            case Comparison.RANGE if other.test is Comparison.RANGE:
                low, high = self.value
                least, most = other.value
                return _below(high, least) or _below(most, low)
            case _ if other.test is Comparison.EQUAL:
                return not self._fits(other.value, False)
            case _ if other.test is Comparison.ONE_OF:
                return not any(self._fits(one, False) for one in other.value)
            case _:
                return False


def conditions_of(stored: Any) -> tuple[Condition, ...]:
    """The conditions of a row. Raises BadRule."""
    try:
        return tuple(
            Condition(one["argument"], Comparison(one["test"]), one["value"]) for one in stored
        )
    except (TypeError, KeyError, ValueError) as error:
        raise BadRule(str(error) or "The conditions cannot be read.") from error


def masked(stored: Any) -> Any:
    """The conditions of a row as a log may hold them, without secrets of known shapes."""
    try:
        conditions = conditions_of(stored)
    except BadRule:
        return mask_all(stored)
    return [one.to_json() | {"value": mask_field(one.argument, one.value)} for one in conditions]


def effect_of(rule: RuleRow) -> Effect:
    """What the rule does; one that cannot be read asks."""
    return Effect(rule.effect) if rule.effect in set(Effect) else Effect.ASK


def covers(rule: RuleRow, *, server: str, tool: str, args: Mapping[str, Any]) -> bool:
    """Whether the rule speaks of such a call; a rule that cannot be read allows nothing, and asks
    or denies for all calls of its tool."""
    if (rule.server, rule.tool) != (server, tool):
        return False
    doubt = effect_of(rule) is not Effect.ALLOW
    try:
        conditions = conditions_of(rule.conditions)
    except BadRule:
        return doubt
    return all(one.holds(args, doubt=doubt) for one in conditions)


def strongest(rules: Iterable[RuleRow]) -> RuleRow | None:
    """The rule that counts among those that cover a call: deny, else ask, else allow; the oldest
    of equals."""
    order = (Effect.DENY, Effect.ASK, Effect.ALLOW)
    found = sorted(rules, key=lambda rule: order.index(effect_of(rule)))
    return found[0] if found else None


def told(conditions: Sequence[Condition]) -> str:
    """When the rule speaks, in words; empty: always."""
    return " and ".join(one.sentence() for one in conditions)


def same(one: Any, other: Any) -> bool:
    """Equality of JSON values: numbers by their value, and true is no 1."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, int | float) and isinstance(other, int | float):
        return one == other
    return type(one) is type(other) and bool(one == other)


def _read(args: Mapping[str, Any], argument: str) -> list[Any]:
    """The values that a name with dots may mean: of an argument that is called so, and at the end
    of the path. What is sent beside the one must not hide the other."""
    found = [args[argument]] if argument in args else []
    first, *path = argument.split(".")
    if not path or first not in args:
        return found
    value: Any = args[first]
    for part in path:
        if not isinstance(value, Mapping) or part not in value:
            return found
        value = value[part]
    return [*found, value]


def _below(one: Any, other: Any) -> bool:
    return one is not None and other is not None and one < other


def _within(value: Any, bounds: Sequence[Any], doubt: bool) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return doubt
    low, high = bounds
    return (low is None or low <= value) and (high is None or value <= high)


def _under(value: Any, top: str, doubt: bool) -> bool:
    if not isinstance(value, str):
        return doubt
    if not _clean(value):
        return doubt  # a path with .. and the like may lead anywhere
    return value == top or value.startswith(top.rstrip("/") + "/")


def _clean(path: str) -> bool:
    """Whether every program reads the path alike."""
    odd = {"", ".", ".."}
    segments = path.removeprefix("/").removesuffix("/").split("/")
    plain = path.isprintable() and not set("\\%~$*?") & set(path)
    return plain and (path == "/" or not odd.intersection(segments))


def _is_range(value: Any) -> bool:
    if not isinstance(value, list | tuple) or len(value) != 2:
        return False
    numbers = [one for one in value if one is not None]
    if not numbers or any(
        isinstance(one, bool) or not isinstance(one, int | float) for one in numbers
    ):
        return False
    return len(numbers) < 2 or numbers[0] <= numbers[1]


def _spelled(value: Any) -> str:
    """A text stands in quotes that nothing in it can close, so that it is not read as our words."""
    if not isinstance(value, str):
        return str(value)
    inside = value.replace("“", '"').replace("”", '"')
    return f"“{inside}”"
