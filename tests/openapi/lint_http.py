"""Print what httplint has against responses; `tests/contract/test_httplint.py` starts it with its packages."""

from __future__ import annotations

import json
import sys
from typing import Any

from httplint.message import HttpResponseLinter
from httplint.note import levels


def notes(method: str, status: int, headers: list[list[str]], body: str) -> list[str]:
    """Return the warnings and worse about a response to that method, each with its subject."""
    linter = HttpResponseLinter()
    linter.process_response_topline(b"HTTP/1.1", str(status).encode())
    linter.process_headers([(name.encode(), value.encode("latin-1")) for name, value in headers])
    if method != "HEAD":
        linter.feed_content(body.encode("latin-1"))
    linter.finish_content(complete=True)
    return [f"{type(note).__name__} {note.subject}" for note in linter.notes if note.level in (levels.WARN, levels.BAD)]


given: list[dict[str, Any]] = json.load(sys.stdin)
json.dump([notes(**one) for one in given], sys.stdout)
