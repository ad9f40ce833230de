"""What `interlock doctor` says of Teams."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from adapters.teams.package import SHAPE
from adapters.teams.settings import PASSWORD, PackageOptions, TeamsSettings
from adapters.teams.transport import TeamsSurface
from bot.cli import cli
from bot.finding import Finding, Health
from storage.database import Database
from tests.fakes.clock import FakeClock
from tests.fakes.teams import APP, TENANT, FakeTeams
from tests.fakes.teams.server import OTHER_TENANT
from tests.scenario.slack_world import StubEntry
from tests.scenario.teams_world import entra, person

__all__ = ["entra"]
pytestmark = pytest.mark.usefixtures("entra")

PACKAGE = PackageOptions(website="https://wiki.example.com/interlock", revision=3)


@pytest.fixture
async def teams() -> AsyncIterator[FakeTeams]:
    async with FakeTeams() as one:
        yield one


@pytest.fixture
def settings(teams: FakeTeams) -> TeamsSettings:
    return TeamsSettings(
        APP,
        TENANT,
        "s3cret",
        frozenset({TENANT}),
        teams.cloud,
        "/api/messages",
        package=PACKAGE,
    )


async def examined(
    settings: TeamsSettings, db: Database, people: Sequence[str]
) -> dict[str, list[Finding]]:
    surface = TeamsSurface(settings, StubEntry(), FakeClock(), db)
    found: dict[str, list[Finding]] = {}
    for one in await surface.check([], people):
        found.setdefault(one.what.removeprefix("Teams "), []).append(one)
    return found


async def test_a_sound_bot_is_well_in_everything(
    teams: FakeTeams, settings: TeamsSettings, sqlite_db: Database
) -> None:
    found = await examined(settings, sqlite_db, [person("ben", teams)])
    assert {what: [one.health for one in some] for what, some in found.items()} == {
        what: [Health.OK]
        for what in ("signing keys", "token", "service", "tenants", "approvers", "app package")
    }
    assert found["app package"][0].sentence.startswith(f"It is {SHAPE}.3: ")
    assert TENANT in found["tenants"][0].sentence
    assert teams.calls == []  # nothing was said anywhere


async def test_a_service_that_cannot_be_reached_is_named(
    settings: TeamsSettings, sqlite_db: Database
) -> None:
    dead = "http://127.0.0.1:1"
    cloud = replace(settings.cloud, services=frozenset({dead}))
    [service] = (await examined(replace(settings, cloud=cloud), sqlite_db, []))["service"]
    assert service.health is Health.PROBLEM
    assert service.sentence.startswith(f"{dead} does not answer")


async def test_nobody_is_heard_without_a_tenant(
    settings: TeamsSettings, sqlite_db: Database
) -> None:
    none = replace(settings, tenants=frozenset())
    [tenants] = (await examined(none, sqlite_db, []))["tenants"]
    assert tenants.health is Health.PROBLEM


async def test_a_package_that_cannot_be_built_is_no_obstacle(
    settings: TeamsSettings, sqlite_db: Database
) -> None:
    bare = replace(settings, package=PackageOptions())
    [package] = (await examined(bare, sqlite_db, []))["app package"]
    assert package.health is Health.WARNING
    assert "surfaces.teams.package.website" in package.sentence


@pytest.mark.parametrize(
    ("key", "health", "told"),
    [
        (f"teams:{TENANT}/ana@example.com", Health.PROBLEM, "is nobody"),
        ("teams:contoso/00000000-0000-0000-0000-000000000001", Health.PROBLEM, "is nobody"),
        (f"teams:{TENANT}/AAAAAAAA-0000-0000-0000-000000000001", Health.PROBLEM, "lower case"),
        (f"teams:{TENANT}/@leads", Health.PROBLEM, "no such groups"),
        (
            f"teams:{OTHER_TENANT}/00000000-0000-0000-0000-000000000001",
            Health.WARNING,
            "of a tenant that is not served",
        ),
    ],
)
async def test_an_approver_who_cannot_be_anybody_is_named(
    teams: FakeTeams,
    settings: TeamsSettings,
    sqlite_db: Database,
    key: str,
    health: Health,
    told: str,
) -> None:
    found = await examined(settings, sqlite_db, [person("ben", teams), key])
    [one] = found["approvers"]
    assert one.health is health
    assert one.sentence.startswith(key)
    assert told in one.sentence


async def test_it_is_said_when_policies_name_nobody_of_teams(
    settings: TeamsSettings, sqlite_db: Database
) -> None:
    [one] = (await examined(settings, sqlite_db, []))["approvers"]
    assert one.health is Health.WARNING
    assert "teams:TENANT/OBJECT" in one.sentence


@pytest.mark.parametrize(
    ("app_id", "password", "told"),
    [
        ("my-bot", "s3cret", "BAD  teams: surfaces.teams.app_id is missing or wrong"),
        (APP, "", f"BAD  teams: {PASSWORD} is missing"),
    ],
)
def test_doctor_names_an_app_id_that_is_none_and_a_secret_that_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, app_id: str, password: str, told: str
) -> None:
    monkeypatch.setenv(PASSWORD, password)
    path = tmp_path / "interlock.toml"
    path.write_text(
        f'database = "sqlite:///{tmp_path}/bot.db"\n[agents.a]\nmodel = "openai:gpt-5"\n'
        f'[surfaces.teams]\napp_id = "{app_id}"\ntenant = "{TENANT}"\n'
    )
    done = CliRunner().invoke(cli, ["doctor", "--config", str(path)])
    assert done.exit_code == 1
    assert told in done.output
