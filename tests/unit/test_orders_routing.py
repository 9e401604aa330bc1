"""The rules that choose the acquirer of a live order."""

from __future__ import annotations

from paydesk.engine.orders.routing import NO_ROUTING, Routing, Rule
from tables import each

SELLER, OTHER = 7782587281, 7782587282
ROUTING = Routing(
    "main",
    (
        Rule("lab", terminal="LAB__7"),
        Rule("chile", seller=SELLER, currency="CLP"),
        Rule("first", seller=SELLER),
        Rule("never", seller=SELLER),
        Rule("model", terminal="PAX_A910__*"),
        Rule("digits", terminal="S9?__[0-9]*"),
    ),
)


@each(
    "seller, currency, terminal, acquirer",
    [
        (SELLER, "BRL", "PAX_A910__1", "first"),
        (SELLER, "CLP", "PAX_A910__1", "chile"),
        (OTHER, "CLP", "X__1", "main"),
        (OTHER, "BRL", "PAX_A910__1", "model"),
        (OTHER, "BRL", "pax_a910__1", "main"),
        (OTHER, "BRL", "MY_PAX_A910__1", "main"),
        (OTHER, "BRL", "PAX_A910_", "main"),
        (OTHER, "BRL", "S92__0815", "digits"),
        (OTHER, "BRL", "S92__A815", "main"),
        (SELLER, "CLP", "LAB__7", "lab"),
        (OTHER, "BRL", "LAB__77", "main"),
    ],
)
def test_the_first_rule_that_matches_names_the_acquirer(
    seller: int, currency: str, terminal: str, acquirer: str
) -> None:
    """All its conditions hold; without such a rule it is the default."""
    assert ROUTING.acquirer_for(seller, currency, terminal) == acquirer


def test_without_rules_and_default_there_is_no_acquirer() -> None:
    """A rule without conditions takes every order."""
    assert NO_ROUTING.acquirer_for(SELLER, "BRL", "X__1") is None
    assert Routing(None, (Rule("one", currency="CLP"),)).acquirer_for(SELLER, "BRL", "X__1") is None
    assert Routing(None, (Rule("any"),)).acquirer_for(SELLER, "BRL", "X__1") == "any"
