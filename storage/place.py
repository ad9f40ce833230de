"""Where a conversation lives: the thread key of the design, as columns."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Place:
    """A thread: surface, workspace or tenant, channel, root message. Rebuilt from columns, never
    from a platform's serialised reference."""

    surface: str
    organisation: str
    channel: str
    root: str

    @property
    def channel_key(self) -> str:
        """What is delivered in order and paced as one."""
        return f"{self.surface}:{self.organisation}/{self.channel}"

    def covers(self, other: Place) -> bool:
        """Whether the other one is in here: a place without a channel is a whole organisation."""
        if self.channel:
            return self == other
        return (self.surface, self.organisation) == (other.surface, other.organisation)

    def columns(self) -> dict[str, str]:
        return {
            "surface": self.surface,
            "organisation": self.organisation,
            "channel": self.channel,
            "root": self.root,
        }
