"""What a person types to make a standing rule, read exactly or not at all (`SHAPE`).

Pure and total: whatever is typed is read, or a sentence says what is wrong with it."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Final

from bot.markdown import code
from bot.rule_text import condition
from bot.rule_wish import Wish
from bot.rules import BadRule, Condition, Effect
from storage.database import canonical
from storage.rules import Scope

SHAPE: Final = (
    "rules add TOOL allow|ask|deny [when ARGUMENT=VALUE and …] "
    "[in thread|channel|workspace|everywhere] [for 2h|7d] [3 times] [only for me]"
)
CONDITIONS: Final = (
    "`amount>=100`, `amount<=500`, `env=prod`, `host in a,b`, `path under /srv`; a value with "
    'spaces stands in quotes, as in `team="on call"`'
)

_MOST: Final = 1_000  # characters of one command
_SECONDS: Final = {"m": 60.0, "h": 3_600.0, "d": 86_400.0, "w": 7 * 86_400.0}
_WHERE: Final = {
    "thread": Scope.CHAT,
    "channel": Scope.CHANNEL,
    "workspace": Scope.ORGANISATION,
    "everywhere": Scope.SURFACE,
}

_QUOTES: Final = '"“”„‟'  # a phone makes the latter of the first
_ENDS: Final = r"(?=\s|$)"
_QUOTED: Final = rf"[{_QUOTES}](?P<quoted>[^{_QUOTES}]*)[{_QUOTES}]"
_BARE: Final = rf"(?P<bare>[^\s=<>{_QUOTES}]\S*)"
_ITEM: Final = rf"[{_QUOTES}][^,{_QUOTES}]*[{_QUOTES}]|[^\s,{_QUOTES}]+"
_NAME: Final = r"(?P<name>\w[\w.-]*)"

_TOOL: Final = re.compile(rf"(`?)([A-Za-z0-9_-]{{1,64}})\1{_ENDS}\s*")
_EFFECT: Final = re.compile(rf"(allow|ask|deny){_ENDS}\s*", re.IGNORECASE)
_WHEN: Final = re.compile(r"when\s+", re.IGNORECASE)
_AND: Final = re.compile(r"and\s+", re.IGNORECASE)
_IN: Final = re.compile(rf"in\s+({'|'.join(_WHERE)}){_ENDS}\s*", re.IGNORECASE)
_FOR: Final = re.compile(rf"for\s+([1-9][0-9]{{0,3}})([mhdw]){_ENDS}\s*", re.IGNORECASE)
_TIMES: Final = re.compile(rf"([1-9][0-9]{{0,5}})\s+times?{_ENDS}\s*", re.IGNORECASE)
_ME: Final = re.compile(rf"only\s+for\s+me{_ENDS}\s*", re.IGNORECASE)
_YES: Final = re.compile(r"yes\s*", re.IGNORECASE)
_TESTS: Final = (
    re.compile(rf"{_NAME}\s*(?P<sign>>=|<=|=)\s*(?:{_QUOTED}|{_BARE}){_ENDS}\s*"),
    re.compile(rf"{_NAME}\s+(?P<sign>under)\s+(?:{_QUOTED}|{_BARE}){_ENDS}\s*"),
    re.compile(
        rf"{_NAME}\s+(?P<sign>in)\s+(?P<items>(?:{_ITEM})(?:\s*,\s*(?:{_ITEM}))*){_ENDS}\s*"
    ),
)


class Unread(ValueError):
    """What was typed is no such command: one sentence. `bad`: it has its shape all the same."""

    def __init__(self, sentence: str, *, bad: bool = False) -> None:
        super().__init__(sentence)
        self.bad = bad


def wish(text: str) -> Wish:
    """What follows `rules add`. Raises Unread."""
    if len(text) > _MOST:
        raise Unread(f"A command for a rule has at most {_MOST:,} characters.")
    rest = _Rest(text.strip())
    tool, effect = rest.take(_TOOL), rest.take(_EFFECT)
    if tool is None or effect is None:
        raise Unread(f"Name a tool and what is done with its calls: `{SHAPE}`.")
    found = Wish(tool=tool[2], effect=Effect(effect[1].casefold()))
    bad: BadRule | None = None
    if rest.take(_WHEN):
        tests = [_test(rest)]
        while rest.take(_AND):
            tests.append(_test(rest))
        try:
            found = replace(found, conditions=tuple(map(_condition, tests)))
        except BadRule as error:
            bad = error
    found = _ended(found, rest)
    if bad is not None:
        raise Unread(str(bad), bad=True)
    return found


def conditions(text: str) -> tuple[Condition, ...]:
    """One condition a line, as `when` takes them; blank lines are none. Raises Unread."""
    found = []
    for line in filter(None, map(str.strip, text.splitlines())):
        rest = _Rest(line)
        test = _test(rest)
        if rest.text:
            raise Unread(f"{code(line, 80)} is more than a condition: write one on each line.")
        try:
            found.append(_condition(test))
        except BadRule as error:
            raise Unread(str(error)) from error
    return tuple(found)


def is_command(text: str) -> bool:
    """Whether what follows `rules` has exactly the shape of `add`; a sentence has not."""
    word, _, rest = text.strip().partition(" ")
    if word.casefold() != "add":
        return False
    try:
        wish(rest)
    except Unread as unread:
        return unread.bad
    return True


class _Rest:
    """What is not read yet."""

    def __init__(self, text: str) -> None:
        self.text = text

    def take(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        found = pattern.match(self.text)
        if found is not None:
            self.text = self.text[found.end() :]
        return found


def _test(rest: _Rest) -> re.Match[str]:
    found = next((one for one in map(rest.take, _TESTS) if one is not None), None)
    if found is None:
        told = f"{code(rest.text, 80)} is none" if rest.text else "One is missing"
        raise Unread(f"{told}: conditions are {CONDITIONS}.")
    return found


def _condition(test: re.Match[str]) -> Condition:
    """Raises BadRule."""
    given, sign = test.groupdict(), test["sign"].casefold()
    if sign == "in":
        items = [_written(one) for one in re.findall(_ITEM, given["items"])]
        return _made(f"{given['name']} in {','.join(items)}")
    if sign == "under":
        return _made(f"{given['name']} under {given['quoted'] or given['bare'] or ''}")
    quoted = given["quoted"]
    return _made(f"{given['name']}{sign}{given['bare'] if quoted is None else json.dumps(quoted)}")


def _written(item: str) -> str:
    return json.dumps(item[1:-1]) if item[0] in _QUOTES else item


def _made(text: str) -> Condition:
    try:
        made = condition(text)
        canonical(made.to_json())
    except (RecursionError, ValueError) as error:  # brackets in brackets, or no number: NaN
        if isinstance(error, BadRule):
            raise
        raise BadRule("The value of a condition cannot be kept; correct it.") from None
    return made


def _ended(found: Wish, rest: _Rest) -> Wish:
    """With what follows the conditions, each at most once."""
    given: set[str] = set()
    while rest.text:
        before = rest.text
        if place := rest.take(_IN):
            name, found = "in", replace(found, scope=_WHERE[place[1].casefold()])
        elif long := rest.take(_FOR):
            seconds = int(long[1]) * _SECONDS[long[2].casefold()]
            name, found = "for", replace(found, seconds=seconds)
        elif times := rest.take(_TIMES):
            name, found = "times", replace(found, uses=int(times[1]))
        elif rest.take(_ME):
            name, found = "only for me", replace(found, mine=True)
        elif _YES.fullmatch(rest.text):
            return replace(found, sure=True)
        else:
            raise Unread(f"{code(before, 80)} cannot be read here: `{SHAPE}`.")
        if name in given:
            raise Unread(f"`{name}` is there twice: leave one of them.")
        given.add(name)
    return found
