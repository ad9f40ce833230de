"""The pages on which a workspace installs the app, and the settings that turn them on."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from adapters.slack import open_surface
from bot.secrets import ConfigError
from bot.surface import Place
from storage.database import Database
from tests.fakes.clock import FakeClock
from tests.fakes.slack import CLIENT_SECRET, FakeSlack
from tests.scenario.slack_browser import (
    KEY,
    Browser,
    for_many_workspaces,
    installed,
    state_of,
)
from tests.scenario.slack_world import NOWHERE, StubEntry


@pytest.fixture(autouse=True)
def _oauth(_tokens: None, monkeypatch: pytest.MonkeyPatch) -> None:
    for_many_workspaces(monkeypatch)


@pytest.fixture
async def slack() -> AsyncIterator[FakeSlack]:
    async with FakeSlack(FakeClock()) as slack:
        yield slack


async def test_a_state_is_good_once_and_only_in_its_browser(
    slack: FakeSlack, sqlite_db: Database
) -> None:
    acme = slack.add_workspace("T_ACME")
    async with installed(slack, sqlite_db):
        victim, thief = Browser(slack), Browser(slack)
        address = await victim.begin()
        state = state_of(address)
        other = await thief.back(code=acme.allow(address), state=state)
        assert other.status == 400
        assert "not begun in this browser" in other.text
        assert (await Browser(slack).back(code=acme.allow(address))).status == 400
        cookies = dict(victim.cookies)
        assert (await victim.back(code=acme.allow(address), state=state)).status == 200
        victim.cookies = cookies
        replayed = await victim.back(code=acme.allow(address), state=state)
        assert replayed.status == 401
        assert "done already" in replayed.text
    assert len(slack.calls_of("oauth.v2.access")) == 1


async def test_a_failure_is_told_in_a_sentence_and_nothing_of_the_address_is_shown(
    slack: FakeSlack, sqlite_db: Database, caplog: pytest.LogCaptureFixture
) -> None:
    hostile = "<script>alert(1)</script>"
    async with installed(slack, sqlite_db):
        denied = await Browser(slack).back(error="access_denied")
        assert "You did not allow it, so nothing was installed." in denied.text
        odd = await Browser(slack).back(error=hostile, state=hostile)
        assert "Slack did not install the app" in odd.text
        assert "alert" not in odd.text
        browser = Browser(slack)
        state = state_of(await browser.begin())
        refused = await browser.back(code="code-stolen", state=state)
        assert refused.status == 401
        assert "Slack refused the code" in refused.text
        begun = await Browser(slack).get("/slack/install", team=f"{hostile}&scope=admin")
        assert "admin" not in begun.text
        for page in (denied, odd, refused, begun):
            assert page.headers["X-Frame-Options"] == "DENY"
            assert page.headers["Cache-Control"] == "no-store"
    assert "code-stolen" not in caplog.text
    assert "alert" not in caplog.text


async def test_a_slack_that_is_away_while_somebody_installs_is_said(
    slack: FakeSlack, sqlite_db: Database
) -> None:
    acme = slack.add_workspace("T_ACME")
    async with installed(slack, sqlite_db) as (surface, _):
        browser = Browser(slack)
        address = await browser.begin()
        slack.drop_next("oauth.v2.access")
        page = await browser.back(code=acme.allow(address), state=state_of(address))
        assert page.status == 503
        assert "nothing was installed" in page.sentence
        assert surface.link(Place("slack", "T_ACME", "C_OPS", "")) is None


# --- Settings


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("SLACK_BOT_TOKEN", "xoxb-1", "remove the one or the other"),
        ("SLACK_CLIENT_ID", "", "SLACK_CLIENT_ID is missing"),
        ("SLACK_CLIENT_SECRET", "", "SLACK_CLIENT_SECRET is missing"),
        ("SLACK_TOKEN_KEY", "", "Fernet.generate_key()"),
        ("SLACK_TOKEN_KEY", "not a key", "SLACK_TOKEN_KEY is missing or wrong"),
        ("SLACK_TOKEN_KEY", f"{KEY},not a key", "SLACK_TOKEN_KEY is missing or wrong"),
        ("SLACK_APP_TOKEN", "xoxb-wrong", "SLACK_APP_TOKEN is missing"),
    ],
)
def test_a_setting_that_does_not_fit_is_named_in_a_sentence(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, said: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError) as wrong:
        open_surface({}, StubEntry(), FakeClock(), NOWHERE)
    assert said in str(wrong.value)
    assert KEY not in str(wrong.value)
    assert CLIENT_SECRET not in str(wrong.value)


def test_a_secret_of_many_workspaces_can_be_in_a_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "key").write_text(f"{KEY}\n")
    monkeypatch.delenv("SLACK_TOKEN_KEY")
    monkeypatch.setenv("SLACK_TOKEN_KEY_FILE", str(tmp_path / "key"))
    monkeypatch.setenv("SLACK_REDIRECT_URI", "https://leftover.test/")
    surface = open_surface({}, StubEntry(), FakeClock(), NOWHERE)
    assert [route.path for route in surface.routes()] == ["/slack/install", "/slack/oauth_redirect"]
