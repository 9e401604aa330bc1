"""What the nodes behind a proxy of a test have in common."""

from __future__ import annotations

from collections.abc import Sequence

from faults import scene
from faults.inbox import Inbox
from faults.records import Records
from paydesk.platform.settings import THROTTLES
from proxies.configured import HOST, NODES
from seeds import seeded
from serve_process import ServeProcess
from waiting import until

TERMINALS = 12
VARIABLES = {
    "PAYDESK_PUBLIC_URL": f"https://{HOST}",
    "PAYDESK_OPERATOR_PUBLIC_URL": "https://console.example.com",
    "PAYDESK_TRUSTED_PROXIES": "127.0.0.0/8",
    "PAYDESK_DRAIN_SECONDS": "4",
    "PAYDESK_HOST_NAMES": "localhost",
    **{f"PAYDESK_{name.upper()}": "0" for name in THROTTLES},
}


def addresses(nodes: Sequence[ServeProcess]) -> dict[str, str]:
    """Return the addresses of the nodes by those of the examples."""
    return {
        example: node.variables[name]
        for examples, node in zip(NODES, nodes, strict=True)
        for example, name in zip(examples, ("PAYDESK_LISTEN", "PAYDESK_OPERATOR_LISTEN"), strict=True)
    }


def orders(node: ServeProcess) -> int:
    """Return how many requests for orders its log has."""
    return node.log.read_text().count('"/v1/orders"')


async def has_orders(node: ServeProcess, asked: int) -> None:
    """Wait until the proxy has sent it enough of them after the first `asked`."""
    await until(lambda: orders(node) > asked + TERMINALS, lambda: "the proxy sends it no orders")


async def cast(url: str) -> scene.Cast:
    """Make an application's seller with terminals. Their tokens are derived from the key of the nodes: `people_key`."""
    inbox = Inbox(Records({}), seeded())
    inbox.url = "http://127.0.0.1:9"
    return await scene.cast(url, inbox, seeded(), devices=TERMINALS, applications=2)
