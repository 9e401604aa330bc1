"""The test cards of the simulated acquirer in words: what each does at a virtual terminal."""

from __future__ import annotations

from paydesk_dev.virtual.page.looks import TRAY

DECKS = (
    (
        ("Approved", "the order is processed", "Code"),
        ("Awkward", "what goes wrong between terminal and acquirer", "What happens"),
    ),
    (("Declined", "the order fails with this detail, and nothing is charged", "Detail"),),
)
"""The groups of the tray in two columns: the effect on the order, and the head of the column of effects."""
AWKWARD = {
    "wrong_pin": "Inserted, every PIN is wrong; after the third the payment is declined.",
    "no_answer": "It is charged, but the answer is lost: the outcome is unknown until an inquiry finds it.",
    "late": "It is charged after 30 s; until then inquiries find nothing. Advance the clock.",
    "slow": "It is approved after 5 s.",
}
"""The effect of a card whose code does not say it."""
assert {name for column in DECKS for name, *_ in column} == set(TRAY), "every group is shown"
