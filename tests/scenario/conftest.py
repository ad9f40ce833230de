"""The secrets of the fake workspace are in the environment."""

import pytest

from tests.scenario.slack_world import SECRETS


@pytest.fixture(autouse=True)
def _tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
