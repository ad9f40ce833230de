"""The model's Markdown as Teams shows it."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

from adapters.teams import limits
from adapters.teams.text import drawn, escaped, plain, split, utf16
from tests import hostile

ALLOWED = {
    *("p", "strong", "em", "s", "code", "pre", "a", "ul", "ol", "li", "blockquote", "br", "hr"),
    *("table", "thead", "tbody", "tr", "th", "td"),
}


class Read(HTMLParser):
    """What a client would make of it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.words += data


@pytest.mark.parametrize(
    ("markdown", "shown"),
    [
        ("**a** *b* ~~c~~ `d`", "<p><strong>a</strong> <em>b</em> <s>c</s> <code>d</code></p>"),
        ("# Head", "<p><strong>Head</strong></p>"),
        ("a\nb", "<p>a<br>b</p>"),
        ("```py\nx < 1\n```", "<pre>x &lt; 1</pre>"),
        ("<b>x</b> <at>Ben</at>", "<p>&lt;b&gt;x&lt;/b&gt; &lt;at&gt;Ben&lt;/at&gt;</p>"),
        ("![x](https://evil.test/p.png)", "<p>x (https://evil.test/p.png)</p>"),
        ("[host.test](https://host.test/a)", '<p><a href="https://host.test/a">host.test</a></p>'),
        ("<https://a.test/b>", '<p><a href="https://a.test/b">https://a.test/b</a></p>'),
        (
            "[bank.com](https://evil.test)",
            '<p><a href="https://evil.test">bank.com</a> (evil.test)</p>',
        ),
        ("[x](javascript:alert(1))", "<p>x (javascript:alert(1))</p>"),
        ("[x](ftp://evil.test/a)", "<p>x (ftp://evil.test/a)</p>"),
        ("[x](file:///etc/passwd)", "<p>x (file:///etc/passwd)</p>"),
    ],
)
def test_markdown_is_drawn(markdown: str, shown: str) -> None:
    assert drawn(markdown) == shown


@pytest.mark.parametrize("text", hostile.TEXTS)
def test_hostile_text_does_nothing(text: str) -> None:
    for shown in (drawn(text), drawn(f"**{text}**"), drawn(f"- {text}\n\n> {text}")):
        read = Read(shown)
        assert {tag for tag, _ in read.tags} <= ALLOWED
        for tag, attributes in read.tags:
            assert set(attributes) <= ({"href"} if tag == "a" else {"style", "start"}), attributes
            assert (attributes.get("href") or "https://").startswith(("https://", "http://"))
        assert not re.search("[\u202a-\u202e\u2066-\u2069\u200b-\u200d\u00ad]", shown)


def test_text_nested_beyond_sense_is_shown_as_it_is() -> None:
    deep = "> " * 60 + "x"
    assert drawn(deep) == deep.replace(">", "&gt;")


def test_plain_text_mentions_nobody() -> None:
    assert "<at>" not in plain("<at>Ben</at> </AT>")
    assert plain("a" * 50, 40) == "a" * 33 + "… (cut)"


def test_a_choice_is_read_as_it_is_where_markdown_is() -> None:
    assert escaped("[Approve](https://evil.test) *x*", 200) == (
        r"\[Approve\]\(https://evil.test\) \*x\*"
    )


def test_a_long_text_is_split_and_nothing_is_left_out() -> None:
    text = "\n\n".join(f"Paragraph {n}. " + "wörter 🙂 " * 60 for n in range(60))
    parts = split(text)
    assert len(parts) > 3
    assert "".join(parts) == text
    assert all(utf16(drawn(part)) <= limits.TEXT_BYTES for part in parts)
    assert split("short") == ["short"]
