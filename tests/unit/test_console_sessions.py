"""The names of browsers in the lists of sessions."""

from __future__ import annotations

from paydesk.operators.sessions.user_agents import UNKNOWN, browser_of
from tables import each

WEBKIT = "AppleWebKit/537.36 (KHTML, like Gecko)"


@each(
    "agent, name",
    [
        (f"Mozilla/5.0 (X11; Linux x86_64) {WEBKIT} Chrome/126.0.0.0 Safari/537.36", "Chrome on Linux"),
        (f"Mozilla/5.0 (Windows NT 10.0; Win64; x64) {WEBKIT} Chrome/126 Safari/537.36 Edg/126", "Edge on Windows"),
        (f"Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) {WEBKIT} Version/17.4 Safari/605.1.15", "Safari on macOS"),
        (f"Mozilla/5.0 (iPhone; CPU iPhone OS 17_4 like Mac OS X) {WEBKIT} CriOS/126 Safari/604.1", "Chrome on iPhone"),
        (f"Mozilla/5.0 (Linux; Android 14; Pixel 8) {WEBKIT} Chrome/126 Mobile Safari/537.36", "Chrome on Android"),
        ("Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0", "Firefox on Linux"),
        ("Firefox/128.0", "Firefox"),
        ("curl/8.5.0", "curl"),
        ("Python/3.11 aiohttp/3.9", "Python"),
        ("Mozilla/5.0", UNKNOWN),
        ("x" * 200, UNKNOWN),
        ("", UNKNOWN),
    ],
)
def test_browser_has_a_name(agent: str, name: str) -> None:
    """With its system; a program has its first word."""
    assert browser_of(agent) == name
