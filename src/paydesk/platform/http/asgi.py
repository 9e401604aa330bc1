"""The types of ASGI, and the extensions of our server."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
ASGIApp = Callable[[Scope, Receive, Send], Awaitable[None]]

IN_ONE_PIECE = "paydesk.in_one_piece"
"""A function that sends status, headers and body, or returns False."""
DISCONNECTED = "paydesk.disconnected"
"""A function that returns whether the client has closed its connection."""
BREAK = "paydesk.break"
"""A function that breaks the connection: with True it is reset, with False closed after what was sent. Nothing in
production calls it."""
