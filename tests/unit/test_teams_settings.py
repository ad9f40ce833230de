"""The settings of Teams: nothing starts that would let everybody in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from adapters.teams.settings import PASSWORD, read
from bot.cli import cli
from bot.loopback import INSECURE_LOCAL, refuse_beyond_loopback
from bot.secrets import ConfigError

APP = "11111111-2222-3333-4444-555555555555"
TENANT = "aaaaaaaa-0000-0000-0000-00000000000a"
GOOD: dict[str, Any] = {"app_id": APP, "tenant": TENANT}


@pytest.fixture(autouse=True)
def _password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PASSWORD, "s3cret")


def test_a_single_tenant_bot() -> None:
    settings = read(GOOD | {"app_id": APP.upper()})
    assert (settings.app_id, settings.password) == (APP, "s3cret")
    assert settings.tenants == {TENANT}
    assert not settings.insecure
    assert "s3cret" not in repr(settings)


def test_a_managed_identity_has_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    assert read(GOOD | {"type": "managed-identity"}).password == ""
    monkeypatch.delenv(PASSWORD)
    with pytest.raises(ConfigError, match=PASSWORD):
        read(GOOD)
    read(GOOD | {"type": "managed-identity"})


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"app_id": ""}, "app_id"),
        ({"app_id": "my-bot"}, "app_id"),
        ({"tenant": ""}, "tenant"),
        ({"tenants": ["contoso.com"]}, "tenants"),
        ({"type": "multi-tenant"}, "type"),
        ({"type": "SingleTenent"}, "type"),
        ({"cloud": "china"}, "cloud"),
        ({"path": "messages"}, "path"),
        ({"colour": 1}, "colour"),
        ({"insecure_local": True}, "insecure_local"),  # no file can say this
    ],
)
def test_what_is_wrong_is_named(wrong: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigError, match=rf"surfaces\.teams\.{named}"):
        read(GOOD | wrong)


def test_without_authentication_by_the_flag_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(PASSWORD)
    settings = read({"insecure_local": INSECURE_LOCAL})
    assert settings.insecure
    assert settings.tenants == frozenset()


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.7", "bot.example.com", ""])
def test_the_flag_is_for_loopback(host: str) -> None:
    with pytest.raises(ConfigError, match=r"127\.0\.0\.1"):
        refuse_beyond_loopback(host)
    for loopback in ("127.0.0.1", "::1", "localhost"):
        refuse_beyond_loopback(loopback)


def test_serve_does_not_start_unauthenticated_where_others_reach_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    monkeypatch.setattr("bot.cli.log.configure", lambda: None)  # its stream ends with the runner
    path = tmp_path / "interlock.toml"
    path.write_text(
        'database = "sqlite:///x.db"\n[agents.a]\nmodel = "openai:gpt-5"\n'
        '[surfaces.teams]\n[server]\nhost = "0.0.0.0"\n'
    )
    done = CliRunner().invoke(cli, ["serve", "--insecure-local", "--config", str(path)])
    assert isinstance(done.exception, ConfigError)
    assert "--insecure-local" in str(done.exception)
    assert "0.0.0.0" in str(done.exception)
