"""The settings of an MCP server: what may be written, and what is said of what may not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bot.mcp.connection import Connection
from bot.mcp.settings import ServerSettings, server_settings, value_of
from bot.mcp.transport import http_client
from bot.secrets import ConfigError
from tests.fakes.clock import FakeClock

URL = "https://mcp.example.com/mcp"
OAUTH = {"client_id": "bot", "client_secret": "LAB_SECRET", "issuer": "https://login.example.com"}


def settings(**section: Any) -> ServerSettings:
    return server_settings("lab", section)


def refused(**section: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        settings(**section)
    return str(caught.value)


def test_a_server_over_http_needs_only_its_address() -> None:
    found = settings(url=URL)

    assert (found.protocol, found.questions, found.approval) == ("auto", "both", "ask")
    assert (found.trusted_annotations, found.approval_by_annotation) == (False, "off")
    assert found.offers("anything")


def test_a_server_as_a_child_needs_only_its_command() -> None:
    found = settings(command=["npx", "server"], cwd="/srv", env={"A": "1", "B": "env:B_SECRET"})

    assert found.command == ("npx", "server")


@pytest.mark.parametrize("name", ["deploy", "a", "k8s-prod", "a2345678901234567890"])
def test_a_name_is_short_and_plain(name: str) -> None:
    assert server_settings(name, {"url": URL}).url == URL


@pytest.mark.parametrize("name", ["", "Deploy", "1st", "a_b", "a.b", "a" * 21, "-a", "a\n"])
def test_another_name_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="is no name for a server"):
        server_settings(name, {"url": URL})


@pytest.mark.parametrize("section", [{}, {"url": URL, "command": ["x"]}])
def test_it_is_an_address_or_a_command(section: dict[str, Any]) -> None:
    assert refused(**section) == "servers.lab.url or command must be set, and only one of them."


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("headers", {"X-Team": "ops"}),
        ("bearer", "TOKEN"),
        ("oauth", OAUTH),
        ("proxy", "http://proxy:3128"),
        ("ca_file", "/ca.pem"),
        ("insecure_http", True),
    ],
)
def test_settings_of_http_do_not_go_with_a_command(name: str, value: Any) -> None:
    assert refused(command=["x"], **{name: value}) == (
        f"servers.lab.{name} does not go with command: remove one of them."
    )


@pytest.mark.parametrize(("name", "value"), [("cwd", "/srv"), ("env", {"A": "1"})])
def test_settings_of_a_child_do_not_go_with_an_address(name: str, value: Any) -> None:
    assert refused(url=URL, **{name: value}) == (
        f"servers.lab.{name} does not go with url: remove one of them."
    )


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/mcp", "http://localhost/", "http://[::1]:1/"])
def test_plain_http_is_for_this_machine(url: str) -> None:
    assert settings(url=url).url == url


def test_plain_http_elsewhere_needs_a_word() -> None:
    url = "http://mcp.example.com/mcp"

    assert refused(url=url).startswith("servers.lab.url must be https;")
    assert settings(url=url, insecure_http=True).url == url


@pytest.mark.parametrize(
    "url",
    ["mcp.example.com", "ftp://mcp.example.com", "file:///etc/passwd", "https://", "https://a:b/"],
)
def test_what_is_no_address_is_refused(url: str) -> None:
    assert refused(url=url).startswith("servers.lab.url ")


@pytest.mark.parametrize("name", ["url", "proxy"])
def test_an_address_with_a_password_is_refused_and_not_repeated(name: str) -> None:
    said = refused(**{"url": URL, name: "https://me:hunter2@mcp.example.com/"})

    assert said.startswith(f"servers.lab.{name} must have no user or password in it")
    assert "hunter2" not in said


@pytest.mark.parametrize(
    "name", ["Authorization", "authorization", "X-Api-Key", "Cookie", "X-Auth-Token"]
)
def test_a_literal_secret_in_a_header_is_refused_and_not_repeated(name: str) -> None:
    said = refused(url=URL, headers={name: "Bearer hunter2"})

    assert said == (
        f"servers.lab.headers holds a literal {name}, which is a secret: put it into the "
        'environment and name it here, as "env:NAME".'
    )


@pytest.mark.parametrize("name", ["Mcp-Session-Id", "mcp-name", "Content-Type", "Host", "a b", ""])
def test_a_header_of_the_protocol_is_refused(name: str) -> None:
    assert refused(url=URL, headers={name: "x"}).startswith("servers.lab.headers ")


def test_a_header_is_one_line() -> None:
    assert "no line of text" in refused(url=URL, headers={"X-Team": "ops\r\nX-Evil: 1"})


@pytest.mark.parametrize(
    "section",
    [
        {"bearer": "xoxb-hunter2"},
        {"oauth": {**OAUTH, "client_secret": "xoxb-hunter2"}},
        {"headers": {"Authorization": "env:xoxb-hunter2"}},
    ],
)
def test_a_secret_is_named_and_never_written(section: dict[str, Any]) -> None:
    said = refused(url=URL, **section)

    assert "must be the name of a secret in the environment, not the secret itself" in said
    assert "hunter2" not in said


def test_there_is_one_way_to_be_authorized() -> None:
    headers = {"authorization": "env:TOKEN"}

    assert "exclude each other" in refused(url=URL, bearer="TOKEN", oauth=OAUTH)
    assert "exclude each other" in refused(url=URL, bearer="TOKEN", headers=headers)
    assert "exclude each other" in refused(url=URL, oauth=OAUTH, headers=headers)


def test_client_credentials_go_to_a_named_place_over_https() -> None:
    without = {key: value for key, value in OAUTH.items() if key != "issuer"}
    plain = {**OAUTH, "issuer": "http://login.example.com"}

    assert refused(url=URL, oauth=without) == "servers.lab.oauth.issuer is missing."
    assert refused(url=URL, oauth=plain) == (
        "servers.lab.oauth.issuer must be https, since a secret is sent there."
    )


@pytest.mark.row("M9")
@pytest.mark.parametrize("kinds", ["url", "forms", "", "BOTH"])
def test_an_unknown_kind_of_question_is_refused(kinds: str) -> None:
    assert refused(url=URL, questions=kinds).startswith("servers.lab.questions is wrong: ")


@pytest.mark.row("M9")
@pytest.mark.parametrize("kinds", ["both", "form", "page", "none"])
def test_the_kinds_of_question_are_four(kinds: str) -> None:
    assert settings(url=URL, questions=kinds).questions == kinds


def test_annotations_count_only_of_a_trusted_server() -> None:
    said = refused(url=URL, approval_by_annotation="destructive")
    found = settings(url=URL, approval_by_annotation="destructive", trusted_annotations=True)

    assert said.startswith("servers.lab.approval_by_annotation needs trusted_annotations = true")
    assert found.approval_by_annotation == "destructive"


def test_every_mistake_is_told_at_once() -> None:
    said = refused(url="x", protocol="new", speed=3, approval_by_tool={"add": "maybe"})

    assert [line.split(" ")[0] for line in said.splitlines()] == [
        "servers.lab.url",
        "servers.lab.protocol",
        "servers.lab.approval_by_tool.add",
        "servers.lab.speed",
    ]
    assert "servers.lab.speed is not a setting: remove it or correct its name." in said


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf")])
def test_a_time_out_is_some_seconds(seconds: float) -> None:
    assert refused(url=URL, call_timeout=seconds).startswith("servers.lab.call_timeout ")


def test_tools_are_allowed_and_denied_by_pattern() -> None:
    found = settings(url=URL, allow=["get_*", "deploy"], deny=["get_secret*"])

    names = ("get_status", "deploy", "Deploy", "get_secrets", "delete")
    assert [one for one in names if found.offers(one)] == ["get_status", "deploy"]


def test_tools_that_are_named_must_be_there() -> None:
    found = settings(
        url=URL,
        allow=["get_*", "deploy"],
        deny=["never"],
        approval_by_tool={"status": "never"},
        fixed={"*": {"org": 1}, "scale": {"max": 3}},
    )

    assert found.named_tools() == {"deploy", "status", "scale"}


def test_a_value_may_stand_for_a_secret(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "key").write_text("from a file\n")
    monkeypatch.setenv("LAB_A", "from the environment")
    monkeypatch.setenv("LAB_B_FILE", str(tmp_path / "key"))

    found = [value_of("x", one) for one in ("env:LAB_A", "env:LAB_B", "as it is")]

    assert found == ["from the environment", "from a file", "as it is"]


@pytest.mark.parametrize(
    ("section", "setting"),
    [
        ({"url": URL, "bearer": "LAB_SECRET"}, "bearer"),
        ({"url": URL, "headers": {"X-Key": "env:LAB_SECRET"}}, "headers.X-Key"),
        ({"url": URL, "oauth": OAUTH}, "oauth.client_secret"),
        ({"url": URL, "proxy": "env:LAB_SECRET"}, "proxy"),
        ({"command": ["x"], "env": {"KEY": "env:LAB_SECRET"}}, "env.KEY"),
    ],
)
def test_a_secret_that_is_not_set_is_told_before_anything_starts(
    section: dict[str, Any], setting: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LAB_SECRET", raising=False)

    with pytest.raises(ConfigError) as caught:
        Connection("lab", settings(**section), FakeClock())

    assert str(caught.value).startswith(
        f"servers.lab.{setting} names the secret LAB_SECRET, which is not set: "
    )


def test_certificates_that_cannot_be_read_are_told(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("no certificate")

    for path in (tmp_path / "ca.pem", tmp_path / "none.pem"):
        with pytest.raises(ConfigError, match=r"^servers\.lab\.ca_file names"):
            http_client("lab", settings(url=URL, ca_file=str(path)))


async def test_proxies_and_certificates_of_the_environment_are_not_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.example.com:3128")

    client, guarded = http_client("lab", settings(url=URL))

    assert client._mounts == {}
    assert "Proxy" not in type(guarded._inner._pool).__name__  # type: ignore[attr-defined]
    await client.aclose()


async def test_client_credentials_are_an_authentication_of_the_client(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LAB_SECRET", "hunter2")

    client, _ = http_client("lab", settings(url=URL, oauth=OAUTH))

    assert type(client.auth).__name__ == "ClientCredentialsOAuthProvider"
    assert "hunter2" not in repr(settings(url=URL, oauth=OAUTH))
    await client.aclose()
