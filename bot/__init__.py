"""Interlock: an agent's questions as cards, people's clicks as decisions.

Tool authors need only `from bot import Call, Field, tool`.
"""
