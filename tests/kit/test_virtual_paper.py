"""What a print action prints, as HTML on the page of a virtual terminal."""

from __future__ import annotations

from html.parser import HTMLParser

from paydesk_dev.virtual.page import view as page_view


def test_many_codes_are_not_all_drawn() -> None:
    """A text has room for 409 of them, which take seconds to draw: after the tenth their payload is shown."""
    text = "".join(f"{{qr}}{number}{{/qr}}" for number in range(300))
    html = str(page_view.tagged(text))
    assert html.count("<svg") == page_view.CODES_DRAWN_MAX
    assert html.count("One of many, not drawn here: ") == 300 - page_view.CODES_DRAWN_MAX
    assert "not drawn here: 299<" in html


def test_texts_and_payloads_are_escaped() -> None:
    """Markup of an application is shown as text, in a drawn code, in one that is not, and outside."""
    nasty = '<script>alert(1)</script>"><img src=x onerror=alert(2)>'
    text = f"{{b}}{nasty}{{/b}}{{pdf417}}{nasty}{{/pdf417}}" + f"{{qr}}{nasty}{{/qr}}" * (page_view.CODES_DRAWN_MAX + 1)
    found = set[str]()
    parser = HTMLParser()
    parser.handle_starttag = lambda tag, attrs: found.update((tag, *(name for name, _ in attrs)))  # type: ignore[method-assign]
    parser.feed(str(page_view.tagged(text)))
    assert not found & {"script", "img", "onerror", "src"}
    assert {"p", "span", "svg", "path"} <= found
