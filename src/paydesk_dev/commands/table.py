"""The commands that the development kit adds to `paydesk`, which finds this table by an entry point."""

from __future__ import annotations

from collections.abc import Mapping

COMMANDS: Mapping[str, tuple[str, ...]] = {
    "dev": (
        "Run everything on this machine: service, database, workers, virtual terminals, webhook inbox.",
        "paydesk_dev.commands.dev",
    ),
    "pay": (
        "Pay on a virtual terminal and print each status change and webhook; exits 1 unless it is paid.",
        "paydesk_dev.commands.pay",
    ),
    "code": (
        "Issue an authorization code without a browser; it is valid for ten minutes.",
        "paydesk_dev.commands.development",
    ),
    "reset": (
        "Remove orders and what depends on them, idempotency keys, the inbox, and tokens not in the credentials file.",
        "paydesk_dev.commands.development",
    ),
    "inbox": ("List the notifications that the demo inbox received, newest last.", "paydesk_dev.commands.development"),
    "console": (
        "Print the address that opens the console of `paydesk dev`, signed in as its operator.",
        "paydesk_dev.commands.development",
    ),
    "clock": (
        "The clock of `paydesk dev`: stop it, advance it, or reset it.",
        "paydesk_dev.commands.development:clock",
    ),
    "faults": (
        "Faults: let requests and webhooks go wrong on purpose, in `paydesk dev` only.",
        "paydesk_dev.commands.faults:app",
    ),
    "wait": (
        "Wait for a service, an order or webhooks; exits 1 if they do not come in time.",
        "paydesk_dev.commands.wait:app",
    ),
    "terminals": (
        "",
        "paydesk_dev.commands.virtual_terminals",
        "paydesk_dev.commands.simulate",
        "paydesk_dev.commands.conformance",
    ),
    "acquirers": ("", "paydesk_dev.commands.acquirers"),
    "webhooks": ("", "paydesk_dev.forwarding.listen", "paydesk_dev.forwarding.trigger", "paydesk_dev.commands.faults"),
    "requests": ("", "paydesk_dev.commands.requests"),
}
"""As `paydesk.commands.cli.COMMANDS`. A group that `paydesk` has gets these modules too; its help is there."""
