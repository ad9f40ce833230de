"""Whether a value fits the schema of a server, in a time that the server cannot stretch.

The schema is JSON Schema, draft 2020-12, checked by jsonschema. A server that nobody vouches for
may write one that keeps jsonschema busy for years: with a pattern, which it gives to `re`, with
references that double at each level, with long lists. So patterns go to the engine of bot.value,
sizes are limited, and a check ends after a while. No address that a `$ref` names is asked.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from itertools import islice
from typing import Any, Final

from jsonschema import Draft202012Validator, ValidationError, validators
from pydantic_core import SchemaError, SchemaValidator
from referencing import Registry
from referencing.exceptions import Unresolvable

from bot.value import pattern_finder
from storage.database import canonical

SCHEMA_LIMIT: Final = 400_000  # characters of a schema; each value in it counts as EACH more
VALUE_LIMIT: Final = 10_000_000  # the same of what is checked: servers say long texts in it too
EACH: Final = 20
DEPTH_LIMIT: Final = 64  # levels of either
SECONDS: Final = 0.5  # of the processor, for one check
SEARCH_LIMIT: Final = 5_000_000  # parts of a pattern times characters of a text: 0.1 s at worst
FAULTS_LIMIT: Final = 10

_WORDS: Final = 300  # characters of a fault

Keyword = Callable[[Any, Any, Any, Any], Iterable[ValidationError] | None]


class Unchecked(Exception):
    """It cannot be told whether the value fits; the text is why, for the end of a sentence."""


class _Unreadable(Unchecked):
    """A pattern that our engine cannot run, such as one with look-around."""


def faults(schema: Mapping[str, Any], value: Any, whole: str) -> list[str]:
    """What does not fit, each with its place; `whole` is the place of the value itself.

    Empty: the value fits. The first FAULTS_LIMIT are enough. Raises Unchecked."""
    _limit("the schema", schema, SCHEMA_LIMIT)
    _limit("what is checked", value, VALUE_LIMIT)
    token = _CHECK.set(_Check())
    try:
        # An empty registry: by default jsonschema fetches whatever address a `$ref` names.
        found = _Checker(schema, registry=Registry()).iter_errors(_told_shortly(value))
        return [
            f"{'.'.join(map(str, one.absolute_path))[:_WORDS] or whole}: {one.message[:_WORDS]}"
            for one in islice(found, FAULTS_LIMIT)
        ]
    except Unchecked:
        raise
    except RecursionError:
        raise Unchecked("the schema leads round in a circle") from None
    except Unresolvable:
        raise Unchecked("the schema refers to something that is not in it") from None
    except Exception as error:  # jsonschema fails in many ways on what is no schema
        raise Unchecked("the schema is malformed") from error
    finally:
        _CHECK.reset(token)


def _limit(what: str, value: Any, limit: int) -> None:
    """Level by level: what is nested too deeply for recursion comes here too."""
    size, level = 0, [value]
    for _ in range(DEPTH_LIMIT):
        size += EACH * len(level) + sum(len(one) for one in level if isinstance(one, str))
        if size > limit:
            raise Unchecked(f"{what} is too large")
        inner: list[Any] = []
        for one in level:
            if isinstance(one, Mapping):
                inner += one.keys()
                inner += one.values()
            elif isinstance(one, list | tuple):
                inner += one
        if not inner:
            return
        level = inner
    raise Unchecked(f"{what} has more than {DEPTH_LIMIT} levels")


class _Long(str):
    """A text as it is, except where a fault quotes it."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"{self[:_WORDS]!r}…"


def _told_shortly(value: Any) -> Any:
    """The same value. A schema can have a thousand faults found, each of which quotes it."""
    match value:
        case str() if len(value) > _WORDS:
            return _Long(value)
        case dict():
            return {_told_shortly(key): _told_shortly(one) for key, one in value.items()}
        case list():
            return [_told_shortly(one) for one in value]
        case _:
            return value


# --- Time and patterns


class _Check:
    """One check under way: when it has to be over, and the patterns that it has met."""

    def __init__(self) -> None:
        self._end = time.thread_time() + SECONDS
        self._patterns: dict[str, tuple[SchemaValidator, int]] = {}

    def step(self) -> None:
        if time.thread_time() > self._end:
            raise Unchecked("it takes too long")

    def finds(self, pattern: str, text: str) -> bool:
        """Whether a pattern is anywhere in a text."""
        self.step()
        if pattern not in self._patterns:
            try:
                self._patterns[pattern] = pattern_finder(pattern), _parts(pattern)
            except (SchemaError, ValueError):
                raise _Unreadable(f"the pattern {pattern[:80]!r} cannot be read") from None
        finder, parts = self._patterns[pattern]
        if parts * len(text) > SEARCH_LIMIT:
            raise Unchecked(f"a text is too long for the pattern {pattern[:80]!r}")
        return finder.isinstance_python(text)


_CHECK: Final[ContextVar[_Check]] = ContextVar("check")

_TOKEN: Final = re.compile(
    r"(?P<verbose>\(\?[A-Za-z-]*x)|(?P<open>\()|(?P<close>\))"
    r"|(?P<set>\[(?!\^?\])(?:\\.|[^\[\]\\])+\])|(?P<other>\[)"
    r"|\{(?P<count>[0-9, ]+)\}|(?P<repeat>[*+?])|(?P<part>\\.|.)",
    re.DOTALL,
)


def _parts(pattern: str) -> int:
    """How many parts the engine makes of a pattern that it reads: each is one step for each
    character of a text, and `(a{300}){300}` is 90,000.

    Raises ValueError for what it would count wrong and JavaScript does not have: sets in sets,
    and patterns with comments."""
    totals, last = [0], 1
    for token in _TOKEN.finditer(pattern):
        match token.lastgroup:
            case "verbose" | "other":
                raise ValueError(pattern)
            case "open":
                totals.append(0)
            case "close":
                last = max(1, totals.pop())
                totals[-1] += last
            case "count":
                times = max(1, *map(int, re.findall("[0-9]+", token["count"])))
                totals[-1] += last * (times - 1)
                last *= times
            case "repeat":
                pass
            case _:
                last = 1
                totals[-1] += 1
    return max(1, totals[0])


# --- Keywords


def _pattern(_: Any, pattern: Any, value: Any, __: Any) -> Iterator[ValidationError]:
    try:
        fits = not isinstance(value, str) or _CHECK.get().finds(pattern, value)
    except _Unreadable:
        return  # as a keyword that we do not know: the server checks its own arguments
    if not fits:
        yield ValidationError(f"{value!r} does not match {pattern!r}")


def _pattern_properties(checker: Any, told: Any, value: Any, _: Any) -> Iterator[ValidationError]:
    if isinstance(value, dict):
        for pattern, inner in told.items():
            for key in value:
                if _CHECK.get().finds(pattern, key):
                    yield from checker.descend(value[key], inner, path=key)


def _additional_properties(
    checker: Any, told: Any, value: Any, schema: Any
) -> Iterator[ValidationError]:
    if isinstance(value, dict):
        seen = schema.get("properties", {}).keys() | _matching(value, schema)
        yield from _rest(checker, told, value, (key for key in value if key not in seen))


def _unevaluated_properties(
    checker: Any, told: Any, value: Any, schema: Any
) -> Iterator[ValidationError]:
    if isinstance(value, dict):
        seen = _seen(checker, value, schema, outermost=True)
        yield from _rest(checker, told, value, (key for key in value if key not in seen))


def _unevaluated_items(
    checker: Any, told: Any, value: Any, schema: Any
) -> Iterator[ValidationError]:
    if isinstance(value, list):
        seen = _seen(checker, value, schema, outermost=True)
        left = (index for index in range(len(value)) if index not in seen)
        yield from _rest(checker, told, value, left)


def _rest(checker: Any, told: Any, value: Any, places: Iterable[Any]) -> Iterator[ValidationError]:
    for place in places:
        if told is False:
            yield ValidationError("is not expected", path=[place])
        else:
            yield from checker.descend(value[place], told, path=place)


def _items(checker: Any, told: Any, value: Any, schema: Any) -> Iterable[ValidationError] | None:
    """Servers in TypeScript write draft 7, where a list here is what is `prefixItems` now."""
    name = "prefixItems" if isinstance(told, list) else "items"
    keyword: Keyword = _KEYWORDS[name]
    return keyword(checker, told, value, schema)


def _unique_items(_: Any, told: Any, value: Any, __: Any) -> Iterator[ValidationError]:
    if told and isinstance(value, list) and len({canonical(one) for one in value}) < len(value):
        yield ValidationError("has the same item twice")


def _matching(value: Any, schema: Any) -> set[Any]:
    patterns = schema.get("patternProperties", {})
    return {key for key in value if any(_CHECK.get().finds(one, key) for one in patterns)}


def _seen(checker: Any, value: Any, schema: Any, *, outermost: bool = False) -> set[Any]:
    """The keys or indexes of a value that a schema says something of, which it fits."""
    _CHECK.get().step()
    if not isinstance(schema, dict):
        return set()
    seen: set[Any] = set()
    inner: list[Any] = []  # the schemas that count for the same value

    def fits(one: Any, part: Any = value) -> bool:
        return bool(checker.evolve(schema=one).is_valid(part))

    if isinstance(value, dict):
        seen |= schema.get("properties", {}).keys() | _matching(value, schema)
        if "additionalProperties" in schema or (
            "unevaluatedProperties" in schema and not outermost
        ):
            return set(value)
        dependent = schema.get("dependentSchemas", {})
        inner += [one for key, one in dependent.items() if key in value]
    else:
        items, first = schema.get("items"), schema.get("prefixItems", ())
        if isinstance(items, list):
            items, first = None, items
        if items is not None or ("unevaluatedItems" in schema and not outermost):
            return set(range(len(value)))
        seen |= set(range(len(first)))
        if "contains" in schema:
            seen |= {index for index, one in enumerate(value) if fits(schema["contains"], one)}
    for name in ("allOf", "anyOf", "oneOf"):
        inner += [one for one in schema.get(name, ()) if fits(one)]
    if "if" in schema:
        fit = fits(schema["if"])
        inner += [schema["if"], schema.get("then")] if fit else [schema.get("else")]
    for one in inner:
        seen |= _seen(checker, value, one)
    for name in ("$ref", "$dynamicRef"):
        if name in schema:
            found = checker._resolver.lookup(schema[name])
            there = checker.evolve(schema=found.contents, _resolver=found.resolver)
            seen |= _seen(there, value, found.contents)
    return seen


def _in_time(keyword: Keyword) -> Keyword:
    def checked(
        checker: Any, told: Any, value: Any, schema: Any
    ) -> Iterable[ValidationError] | None:
        _CHECK.get().step()
        return keyword(checker, told, value, schema)

    return checked


def _evolve(checker: Any, **changes: Any) -> Any:
    """The checker of a part of the schema.

    jsonschema 4.26 takes another class where the part has a `$schema` of its own, and with it
    keywords that search with `re`. It is gone when test_no_other_dialect_brings_its_own_keywords
    passes without this."""
    _CHECK.get().step()
    return type(checker)(
        changes.get("schema", checker.schema),
        registry=checker._registry,
        _resolver=changes.get("_resolver", checker._resolver),
    )


_KEYWORDS: Final[dict[str, Any]] = {**Draft202012Validator.VALIDATORS}
_OURS: Final[dict[str, Keyword]] = {
    "pattern": _pattern,
    "patternProperties": _pattern_properties,
    # The ones of jsonschema search with `re` too, or compare each item with each other.
    "additionalProperties": _additional_properties,
    "unevaluatedProperties": _unevaluated_properties,
    "unevaluatedItems": _unevaluated_items,
    "uniqueItems": _unique_items,
    "items": _items,
}
_Checker: Final[Any] = validators.extend(  # type: ignore[no-untyped-call]
    Draft202012Validator,
    {name: _in_time(keyword) for name, keyword in (_KEYWORDS | _OURS).items()},
)
_Checker.evolve = _evolve
