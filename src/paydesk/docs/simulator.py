"""The page on the simulated acquirer, generated from its cards, amounts and rules. Pure: no I/O."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from paydesk.sandbox.simulator import cards, rules

_HEAD = """\
# The simulated acquirer

<!-- Written by `make generate` from `sandbox/simulator/`; changes made here are lost. -->

Test orders are paid at a simulated acquirer in the same process. It has its own ledger, decides payments, refunds and
reversals as a real acquirer would, and fails on request. It is the sandbox of `paydesk dev` and of `paydesk serve`. In
`dev` it can also take live orders; `serve` refuses to start with it as the acquirer of live orders.

The presented card decides first, then the payment's amount, then the script. Otherwise a payment is approved, a refund
is approved up to the remaining amount, and a reversal is confirmed.

- Every request has a key: the id `PAY…` of a payment, the id of a refund or of a reversal. Repeated requests with one
  key, concurrent or after a crash, have one effect and one result.
- A payment that is reversed before it arrives is declined when it arrives.
- Refunds never exceed the approved amount, and a reversed payment is not refunded.
- A test payment that was reported by a test without the simulator is unknown to it; its refunds are approved.
- `paydesk doctor --invariants` compares the ledger with the orders: each approved payment belongs to an order, is
  reversed, or has an open inquiry or reversal; and the refunds are the same."""

_CARDS = """\
## Cards

The last four digits decide, for every brand. A virtual terminal presents the card of its script. Your own terminal
presents cards at [the endpoint below](#the-endpoint-for-terminals)."""

_AMOUNTS = """\
## Amounts

A payment's amount in minor units (`99900.05` in BRL, `9990005` in CLP) decides the results of the payment, its refunds
and its reversal."""

_SCRIPTS = """\
## Scripts

The setting `simulator_script` has rules for all other requests, separated by spaces or commas:

```
<operation>:<behaviour>[:<argument>][@<percent>]
```

Operations are `payment`, `inquiry`, `refund` and `reversal`. Several rules for one operation are combined; of two
contradicting ones the first applies. Inquiries and reversals are never declined, and inquiries are never late."""

_CHANCE = """\
With a percentage, a rule applies to requests at random, decided once per key. The random number depends on the setting
`simulator_seed` and on the sequence number of the seller's request: the same requests in the same order have the same
results.

```sh
PAYDESK_SIMULATOR_SCRIPT="payment:lost@5 payment:late:30s@5 refund:unheard:2@20 reversal:not_sent:3" \\
PAYDESK_SIMULATOR_SEED=7 paydesk dev
```

An answer that takes longer than 8 seconds counts as no answer. Late answers follow the clock of `paydesk dev`; delays
take real time.

## The endpoint for terminals

In development a terminal sends the payment to its acquirer after the authorization permit, with its device token:

```http
POST /virtual/v1/acquirer/payments
Authorization: Bearer PDT-…

{"payment_id": "PAY01J67CQQH5904WDBVZEM4JMEP3", "amount": "24.90",
 "payment_method": {"id": "visa", "type": "credit_card", "installments": 1},
 "card": {"first_digits": "423564", "last_digits": "5682", "entry_mode": "contactless"}}
```

The answer's `outcome` is `approved` with `reference_id` and `authorization_code`, `declined` with a `status_detail`,
`unknown` without an answer (report that; the service makes an inquiry), or `not_sent` if the payment cannot have
happened. A terminal stores the request before it sends it, and repeats it with the same id after a crash."""

Table = Callable[[Sequence[str], Iterable[Sequence[object]]], Iterator[str]]


def page(table: Table) -> str:
    """Return the page in Markdown; `table` yields the lines of a table."""
    rows = (
        (f"`{one.name}`", one.brand, f"{one.first_digits}…{one.last_digits}", _script(one.script) or "approved")
        for one in cards.CARDS.values()
    )
    amounts = ((f"`{amount}`", _script(script)) for amount, script in cards.AMOUNTS.items())
    behaviours = ((form.split(": ", 1)) for form in rules.BEHAVIOURS.values())
    parts = (
        _HEAD,
        _CARDS,
        "\n".join(table(("Card", "Brand", "Digits", "What it does"), rows)),
        _AMOUNTS,
        "\n".join(table(("Minor units", "What it does"), amounts)),
        _SCRIPTS,
        "\n".join(table(("Behaviour", "Result"), behaviours)),
        _CHANCE,
    )
    return "\n\n".join(parts) + "\n"


def _script(text: str) -> str:
    return ", ".join(f"`{word}`" for word in text.split())
