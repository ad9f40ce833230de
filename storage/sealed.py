"""A column whose text is encrypted before it reaches the database."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from cryptography.fernet import InvalidToken, MultiFernet


class Sealed(sa.types.TypeDecorator[str]):
    """Text under the first of the keys, read with any of them. What none of them opens reads as
    nothing: it is of no use, and an error would take every other row of the answer with it."""

    impl = sa.Text
    cache_ok = True

    def __init__(self, keys: MultiFernet) -> None:
        super().__init__()
        self.keys = keys

    def process_bind_param(self, value: str | None, dialect: sa.Dialect) -> str | None:
        return None if value is None else self.keys.encrypt(value.encode()).decode()

    def process_result_value(self, value: Any, dialect: sa.Dialect) -> str | None:
        if value is None:
            return None
        try:
            return self.keys.decrypt(value).decode()
        except InvalidToken:
            return None
