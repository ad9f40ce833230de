"""What a person changed in the arguments of a call, for people to read: shortened around where it
differs, with secrets of known shapes masked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from bot.markdown import code, literal
from storage.database import canonical
from storage.redact import mask, mask_field

_SIZE: Final = 120  # characters of a value
_BEFORE: Final = 30  # of them before the first difference
_NAME: Final = 80
_SHOWN: Final = 10  # changes in a sentence
_LISTED: Final = 1_800  # characters of a list, which fits one message with what stands before it


@dataclass(frozen=True, slots=True)
class Change:
    """One argument, or with dots one value inside it. The values are JSON, shortened and masked;
    None: it was not there, or is not."""

    argument: str
    before: str | None
    after: str | None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def sentence(self) -> str:
        return f"{self.argument}: {self.before or _NONE} → {self.after or _NONE}"

    def line(self) -> str:
        """The same in Markdown, with all that is not ours as code."""
        before, after = (
            _NONE if one is None else literal(one, _SIZE + 2) for one in (self.before, self.after)
        )
        return f"{code(self.argument, _NAME)}: {before} → {after}"


_NONE: Final = "(nothing)"


def difference(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[Change, ...]:
    """What differs, in the order of the arguments."""
    return tuple(_changes("", before, after))


def changes_of(stored: Any) -> tuple[Change, ...]:
    """What `Change.to_json` wrote."""
    return tuple(Change(**one) for one in stored)


def sentence(changes: Iterable[Change]) -> str:
    """The changes on one line, as far as people read."""
    told = [one.sentence() for one in changes]
    more = [f"and {len(told) - _SHOWN} more"] if len(told) > _SHOWN else []
    return "; ".join([*told[:_SHOWN], *more])


def listed(changes: Iterable[Change]) -> str:
    """The changes as a list in Markdown, as far as people read; whole lines, since a message that
    is cut inside of code would show the rest of it as our words."""
    told = [f"- {one.line()}" for one in changes]
    shown, room = 0, _LISTED
    while shown < min(len(told), _SHOWN) and len(told[shown]) <= room:
        room -= len(told[shown])
        shown += 1
    more = [f"- and {len(told) - shown} more"] if len(told) > shown else []
    return "\n".join([*told[:shown], *more])


def _changes(path: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Change]:
    for name in dict.fromkeys([*before, *after]):
        old, new = before.get(name), after.get(name)
        where = f"{path}.{name}" if path else name
        there = name in before and name in after
        if isinstance(old, Mapping) and isinstance(new, Mapping) and _named(old) and _named(new):
            yield from _changes(where, old, new)
        elif not there or canonical(old) != canonical(new):
            yield _change(
                where,
                canonical(mask_field(where, old)) if name in before else None,
                canonical(mask_field(where, new)) if name in after else None,
            )


def _named(value: Mapping[str, Any]) -> bool:
    """Whether a path with dots names the values inside it."""
    return bool(value) and not any("." in key for key in value)


def _change(path: str, before: str | None, after: str | None) -> Change:
    start = 0
    if before is not None and after is not None:
        same = (n for n, pair in enumerate(zip(before, after, strict=False)) if pair[0] != pair[1])
        start = next(same, min(len(before), len(after)))
    name = mask(path)
    if len(name) > _NAME:
        name = f"{name[: _NAME - 1]}…"
    return Change(name, _excerpt(before, start), _excerpt(after, start))


def _excerpt(text: str | None, at: int) -> str | None:
    """The part of a text around a place in it."""
    if text is None or len(text) <= _SIZE:
        return text
    begin = max(0, min(at - _BEFORE, len(text) - _SIZE))
    end = begin + _SIZE
    return f"{'…' if begin else ''}{text[begin:end]}{'…' if end < len(text) else ''}"
