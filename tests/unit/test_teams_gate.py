"""Who is let in to the endpoint of Teams."""

from __future__ import annotations

from typing import Any

import pytest

from adapters.teams.clouds import CLOUDS
from adapters.teams.gate import Gate, Refused, is_local, tenant_of

APP = "11111111-2222-3333-4444-555555555555"
TENANT = "aaaaaaaa-0000-0000-0000-00000000000a"
NOW = 1_800_000_000.0
SERVICE = "https://smba.trafficmanager.net/emea/"
CLAIMS: dict[str, Any] = {
    "iss": "https://api.botframework.com",
    "aud": APP,
    "exp": NOW + 60,
    "serviceurl": SERVICE,
}
ACTIVITY: dict[str, Any] = {
    "type": "message",
    "channelId": "msteams",
    "serviceUrl": SERVICE,
    "conversation": {"id": "19:x", "tenantId": TENANT},
    "channelData": {"tenant": {"id": TENANT}},
}
GATE = Gate(APP, frozenset({TENANT}), CLOUDS["public"])
LOCAL = Gate("", frozenset(), CLOUDS["public"], insecure=True)


def test_what_teams_sends_is_let_in() -> None:
    GATE.check_claims(CLAIMS, NOW)
    assert GATE.check_activity(ACTIVITY, CLAIMS) == TENANT


@pytest.mark.parametrize(
    "wrong",
    [
        {"iss": "https://sts.windows.net/d6d49420-f39b-4df7-a1dc-d59a935871db/"},
        {"iss": None},
        {"iss": ["https://api.botframework.com"]},
        {"aud": "another"},
        {"aud": None},
        {"aud": [APP]},
        {"exp": None},
        {"exp": "1900000000"},
        {"exp": True},
        {"exp": NOW - 301},
    ],
)
def test_claims_that_prove_nothing(wrong: dict[str, Any]) -> None:
    with pytest.raises(Refused) as refused:
        GATE.check_claims(CLAIMS | wrong, NOW)
    assert refused.value.status == 401


def test_no_app_id_lets_nobody_in() -> None:
    gate = Gate("", frozenset({TENANT}), CLOUDS["public"])
    for aud in ("", None, APP):
        with pytest.raises(Refused):
            gate.check_claims(CLAIMS | {"aud": aud}, NOW)


@pytest.mark.parametrize(
    "wrong",
    [
        {"channelId": "webchat"},
        {"channelId": "directline"},
        {"channelId": "MSTeams"},
        {"channelId": None},
        {"serviceUrl": None},
        {"serviceUrl": "https://evil.test/"},
        {"serviceUrl": "https://smba.trafficmanager.net/amer/"},  # not the token's
        {"conversation": {"id": "19:x", "tenantId": "b" * 8}},
        {"channelData": {"tenant": {"id": "another"}}},
        {"channelData": {"tenant": {"id": 7}}},
        {"channelData": {}, "conversation": {"id": "19:x"}},
        {"channelData": None, "conversation": "19:x"},
    ],
)
def test_activities_that_are_not_for_us(wrong: dict[str, Any]) -> None:
    with pytest.raises(Refused) as refused:
        GATE.check_activity(ACTIVITY | wrong, CLAIMS)
    assert refused.value.status == 403


@pytest.mark.parametrize(
    "url",
    [
        "http://smba.trafficmanager.net/emea/",
        "https://smba.trafficmanager.net.evil.test/",
        "https://smba.trafficmanager.net:8443/",
        "https://ann@smba.trafficmanager.net/",
        "https://smba.trafficmanager.net@evil.test/",
        "https://evil.test/smba.trafficmanager.net",
        "https://smba.trafficmanager.net/?x={0}",
        "https://smba.trafficmanager.net/#a",
        "https://smba.trafficmanager.net/\nx",
        "https://smba.trafficmanager.net/{conversationId}",
        "https://smba.infra.gcc.teams.microsoft.com/",
        "//smba.trafficmanager.net/",
        "https://[::1",
        "",
    ],
)
def test_our_token_goes_to_no_stranger(url: str) -> None:
    assert not GATE.trusts(url)


@pytest.mark.parametrize(
    ("cloud", "host"),
    [
        ("public", "smba.trafficmanager.net"),
        ("gcc", "smba.infra.gcc.teams.microsoft.com"),
        ("gcc-high", "smba.infra.gov.teams.microsoft.us"),
        ("dod", "smba.infra.dod.teams.microsoft.us"),
    ],
)
def test_each_cloud_has_its_own_service(cloud: str, host: str) -> None:
    trusting = [
        name
        for name, one in CLOUDS.items()
        if Gate(APP, frozenset(), one).trusts(f"https://{host}/teams/")
    ]
    assert trusting == [cloud]


def test_a_government_cloud_is_signed_by_its_own_issuer() -> None:
    gate = Gate(APP, frozenset({TENANT}), CLOUDS["gcc-high"])
    with pytest.raises(Refused):
        gate.check_claims(CLAIMS, NOW)
    gate.check_claims(CLAIMS | {"iss": "https://api.botframework.us"}, NOW)


def test_insecure_is_for_this_machine_alone() -> None:
    assert LOCAL.trusts("http://localhost:56150/_connector")
    assert LOCAL.trusts("http://127.0.0.1:3979/")
    assert not LOCAL.trusts("http://10.0.0.7/")
    assert not LOCAL.trusts(SERVICE)
    assert not GATE.trusts("http://127.0.0.1:3979/")


def test_the_tenant_must_be_named_alike_everywhere() -> None:
    assert tenant_of(ACTIVITY) == TENANT
    assert tenant_of({"conversation": {"tenantId": TENANT.upper()}}) == TENANT
    assert tenant_of(ACTIVITY | {"channelData": {"tenant": {"id": "another"}}}) == ""
    assert tenant_of({}) == ""


@pytest.mark.parametrize("host", ["localhost:3978", "127.0.0.1:3978", "[::1]:3978", "127.0.0.1"])
def test_what_this_machine_sends_to_itself(host: str) -> None:
    assert is_local("127.0.0.1", {"Host": host})
    assert is_local("::1", {"Host": host})
    assert not is_local("10.0.0.7", {"Host": host})
    assert not is_local("", {"Host": host})


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Host": ""},
        {"Host": "evil.test"},  # a page whose name leads here now
        {"Host": "localhost.evil.test"},
        {"Host": "127.0.0.1@evil.test"},
        {"Host": "[::1"},
        {"Host": "localhost:3978", "X-Forwarded-For": "203.0.113.9"},  # a tunnel
        {"Host": "localhost:3978", "forwarded": "for=203.0.113.9"},
        {"Host": "localhost:3978", "Via": "1.1 proxy"},
    ],
)
def test_what_others_send_through_this_machine(headers: dict[str, str]) -> None:
    assert not is_local("127.0.0.1", headers)
