"""The tags of a print action's text: what they mean, and which texts are refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paydesk.engine.terminals.print_actions.content import (
    CODE_BYTES_MAX,
    TAGS,
    InvalidContent,
    Piece,
    parse,
    printed_text,
)
from paydesk_dev.virtual.page.view import svg_of
from tables import each


def test_parse_returns_styles_alignment_breaks_and_codes_in_their_order() -> None:
    """Each part has the styles and the alignment of the tags around it."""
    text = "{center}{b}Coupon{w}10%{/w}{/b}{br}{qr}https://x.example/?a={b}{/qr}{/center}{s}fine print{/s} end"

    assert parse(text) == [
        Piece("text", "Coupon", bold=True, align="center"),
        Piece("text", "10%", bold=True, wide=True, align="center"),
        Piece("break", align="center"),
        Piece("qr", "https://x.example/?a={b}", align="center"),
        Piece("text", "fine print", small=True),
        Piece("text", " end"),
    ]


def test_inner_alignment_overrides_the_outer_one() -> None:
    """The innermost alignment applies."""
    pieces = parse("{center}a{left}b{/left}c{/center}d")

    assert [piece.align for piece in pieces] == ["center", "left", "center", "left"]


@each(
    "text, message",
    [
        ("12345{i}x{/i}", "the tag {i} at character 6 is unknown"),
        ("<script>{B}x{/B}", "the tag {B} at character 9 is unknown"),
        ("a{/br}", "the tag {/br} at character 2 is unknown"),
        ("a{b}x", "the tag {b} at character 2 is not closed"),
        ("{b}{w}x{/b}{/w}", "the tag {/b} at character 8 closes no open tag; {w} is to be closed first"),
        ("x{/center}", "the tag {/center} at character 2 closes no open tag"),
        ("ab{qr}x{/pdf417}", "the tag {qr} at character 3 is not closed"),
        ("{pdf417}{/pdf417}", "the tag {pdf417} at character 1 has no content"),
        ("x{/qr}", "the tag {/qr} at character 2 closes no open tag"),
        ("{qr}" + "ã" * 501 + "{/qr}", "the tag {qr} at character 1 has more than 1000 bytes"),
        ("{pdf417}" + "x" * 801 + "{/pdf417}", "the tag {pdf417} at character 1 has more than 800 bytes"),
        ("one { two", "the { at character 5 begins no tag"),
        ("{" + "b" * 30 + "}", "the { at character 1 begins no tag"),
        ("{}", "the tag {} at character 1 is unknown"),
    ],
)
def test_invalid_tags_are_refused_with_their_name_and_position(text: str, message: str) -> None:
    """A tag that is unknown, unclosed or not open is named with its position."""
    with pytest.raises(InvalidContent, match="^" + message.replace("{", r"\{").replace("}", r"\}")):
        parse(text)


def test_text_without_tags_is_one_piece_whatever_it_contains() -> None:
    """Other markup is text."""
    assert parse("<b>&amp;</b> }") == [Piece("text", "<b>&amp;</b> }")]


def test_printed_text_has_no_tags_and_keeps_digits_of_a_number_together() -> None:
    """A number is not hidden by tags between its digits."""
    assert printed_text(parse("{b}4111{/b}11{s}11{/s}{br}{qr}x{/qr}")) == "41111111   x "


@given(st.lists(st.sampled_from([f"{{{name}}}" for name in TAGS] + [f"{{/{name}}}" for name in TAGS] + ["a", "{"])))
def test_any_order_of_tags_is_parsed_or_refused_as_invalid(parts: list[str]) -> None:
    """No order of tags raises anything else."""
    try:
        pieces = parse("".join(parts))
    except InvalidContent:
        return
    assert all(piece.text for piece in pieces if piece.kind != "break")


def test_the_longest_payload_fits_into_a_qr_code() -> None:
    """A payload of the largest size, of any characters, can be drawn."""
    assert svg_of("\U0001f600" * (CODE_BYTES_MAX["qr"] // 4)).startswith("<svg")
    assert svg_of("x" * CODE_BYTES_MAX["qr"]).startswith("<svg")
