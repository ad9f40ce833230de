"""Interlock: an agent's questions as cards, people's clicks as decisions.

Tool authors need only `from bot import Call, Field, tool`.
"""

from bot.field import Choice, Field, FieldType
from bot.tool import Call, ToolFailed, Verdict, tool

__all__ = ["Call", "Choice", "Field", "FieldType", "ToolFailed", "Verdict", "tool"]
