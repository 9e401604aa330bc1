"""The page about the simulated acquirer: its tables are read off its cards, amounts and rules. Pure: no I/O."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from paydesk.sandbox.simulator import cards, rules

_HEAD = """\
# The simulated acquirer

<!-- Written by `make generate` from `acquiring/`; changes made here are lost. -->

Test orders are paid with play money: an acquirer in the same process, with a book of its own, decides about payments,
refunds and reversals as a real one would, and misbehaves when it is told to. It is the only sandbox, in `paydesk dev`
and in `paydesk serve`. In `dev` it takes live orders too, to be tried with; `serve` doesn't start when it would.

What decides, in this order: the card that was presented, the payment's amount, the script. Without any of them a
payment is approved, a refund is approved as long as something is left of the payment, and a reversal is confirmed.

- Whatever is asked carries a key: a payment its id `PAY…`, a refund its id, a reversal its own. Asked again under the
  same key, many times at once or after a crash, it is done once and told the same.
- A payment that is reversed before it arrives is forbidden: it is declined when it comes.
- Refunds never take more than was approved, and nothing of what was reversed.
- Refunds of a test payment that never came here, because a test played its terminal by hand, are taken at their word.
- `paydesk doctor --invariants` holds the book against the orders: each approved payment is an order's, or reversed, or
  being asked about or undone, and the refunds of both are the same."""

_CARDS = """\
## Cards

The last four digits decide, whatever the brand. A virtual terminal presents them by its script, and whoever writes a
terminal presents them at [the door below](#the-door-for-terminals)."""

_AMOUNTS = """\
## Amounts

By a payment's amount in minor units (`99900.05` in BRL, `9990005` in CLP); it says what becomes of the payment's
refunds and of its reversal too."""

_SCRIPTS = """\
## Scripts

The setting `simulator_script` has rules for everything that card and amount leave open, separated by spaces or commas:

```
<operation>:<behaviour>[:<argument>][@<percent>]
```

Operations are `payment`, `inquiry`, `refund` and `reversal`. Rules about the same operation go together; of two that
say the same thing the first one counts. Inquiries and reversals are never declined, and inquiries never late."""

_CHANCE = """\
With a percentage, chance decides for each request, once for its key. It is drawn from the setting `simulator_seed` and
from which of the seller's requests it is: the same requests in the same order have the same fate again.

```sh
PAYDESK_SIMULATOR_SCRIPT="payment:lost@5 payment:late:30s@5 refund:unheard:2@20 reversal:not_sent:3" \\
PAYDESK_SIMULATOR_SEED=7 paydesk dev
```

An answer that would take longer than 8 seconds is none. Late answers follow the clock of `paydesk dev`; delays take
real time.

## The door for terminals

In development a virtual terminal goes to its acquirer once it is granted, as a real one would, with its device token:

```http
POST /virtual/v1/acquirer/payments
Authorization: Bearer PDT-…

{"payment_id": "PAY01J67CQQH5904WDBVZEM4JMEP3", "amount": "24.90",
 "payment_method": {"id": "visa", "type": "credit_card", "installments": 1},
 "card": {"first_digits": "423564", "last_digits": "5682", "entry_mode": "contactless"}}
```

The answer's `outcome` is `approved` with `reference_id` and `authorization_code`, `declined` with a `status_detail`,
`unknown` where no answer came (report that; the service finds out), or `not_sent` where nothing can have happened. A
terminal writes down that it asks before it does, and asks again under the same id after a crash."""

Table = Callable[[Sequence[str], Iterable[Sequence[object]]], Iterator[str]]


def page(table: Table) -> str:
    """The page in Markdown; `table` writes one, line by line."""
    shown = (
        (f"`{one.name}`", one.brand, f"{one.first_digits}…{one.last_digits}", _script(one.script) or "approved")
        for one in cards.CARDS.values()
    )
    amounts = ((f"`{amount}`", _script(script)) for amount, script in cards.AMOUNTS.items())
    behaviours = ((form.split(": ", 1)) for form in rules.BEHAVIOURS.values())
    parts = (
        _HEAD,
        _CARDS,
        "\n".join(table(("Card", "Brand", "Digits", "What it does"), shown)),
        _AMOUNTS,
        "\n".join(table(("Minor units", "What it does"), amounts)),
        _SCRIPTS,
        "\n".join(table(("Behaviour", "What becomes of it"), behaviours)),
        _CHANCE,
    )
    return "\n\n".join(parts) + "\n"


def _script(text: str) -> str:
    return ", ".join(f"`{word}`" for word in text.split())
