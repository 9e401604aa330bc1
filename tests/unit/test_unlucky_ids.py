"""The ids of `pytest --unlucky-ids`."""

from __future__ import annotations

import uuid

import unlucky_ids
from paydesk.core.ids import UUID
from paydesk.core.text import card_numbers

DRAWN = 1_000


def test_every_id_has_the_digits_of_a_card_number() -> None:
    """Each is new, and a UUID is still one of version 4."""
    numbers = [unlucky_ids.unlucky_number() for _ in range(DRAWN)]
    texts = [unlucky_ids.unlucky_uuid() for _ in range(DRAWN)]
    assert len({*numbers, *texts}) == 2 * DRAWN
    assert all(card_numbers.carries(str(number)) and len(str(number)) == 16 for number in numbers)
    for text in texts:
        assert card_numbers.carries(f"shop-{text}@shop.example"), text
        assert card_numbers.carries(text.replace("-", "")[:16].upper())
        assert UUID.fullmatch(text)
        assert uuid.UUID(text).version == 4
