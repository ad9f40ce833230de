"""What a person is shown of an address before going there."""

import pytest

from bot import address


@pytest.mark.parametrize(
    ("url", "host", "warned"),
    [
        ("https://a.test/x", "a.test", ""),
        ("http://a.test/x", "a.test", "not encrypted"),
        ("https://good.test@evil.test/x", "evil.test", "before the @"),
        ("https://xn--80ak6aa92e.com/", "xn--80ak6aa92e.com", "Punycode"),
        ("https://аpple.test/", "аpple.test", "imitate another name"),
        ("https://evil.test\\@good.test/", "", "do not open"),
        ("https://a.test/a b", "", "do not open"),
        ("https://[", "", "do not open"),
        ("ftp://a.test/", "", "do not open"),
        ("javascript:alert(1)", "", "do not open"),
    ],
)
def test_what_is_odd_about_an_address_is_said(url: str, host: str, warned: str) -> None:
    read = address.read(url)
    assert read.before + read.host + read.after == url
    assert read.host == host
    assert warned in " ".join(read.warnings)
    assert bool(warned) == bool(read.warnings)
