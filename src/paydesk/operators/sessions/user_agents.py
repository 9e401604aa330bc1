"""The name of a browser and its system, of the `User-Agent` that it sent when an operator signed in."""

from __future__ import annotations

UNKNOWN = "Unknown browser"
CHARACTERS_MAX = 40
# The first that occurs: others copy the words of Chrome and Safari.
_BROWSERS = (
    ("Edg", "Edge"),
    ("OPR/", "Opera"),
    ("SamsungBrowser/", "Samsung Internet"),
    ("Firefox/", "Firefox"),
    ("FxiOS/", "Firefox"),
    ("HeadlessChrome/", "Headless Chrome"),
    ("Chrome/", "Chrome"),
    ("CriOS/", "Chrome"),
    ("Safari/", "Safari"),
)
_SYSTEMS = (
    ("iPhone", "iPhone"),
    ("iPad", "iPad"),
    ("Android", "Android"),
    ("CrOS", "ChromeOS"),
    ("Windows", "Windows"),
    ("Mac OS X", "macOS"),
    ("Linux", "Linux"),
)


def browser_of(agent: str) -> str:
    """Return a name such as "Chrome on Linux"; of programs the first word of the header."""
    browser = next((name for part, name in _BROWSERS if part in agent), "")
    if not browser:
        program = agent.partition(" ")[0].partition("/")[0]
        return program if program and program != "Mozilla" and len(program) <= CHARACTERS_MAX else UNKNOWN
    system = next((name for part, name in _SYSTEMS if part in agent), "")
    return f"{browser} on {system}" if system else browser
