"""Server-sent events as they are written."""

from __future__ import annotations

from paydesk.platform.web.event_streams import event


def test_an_event_keeps_each_line_of_its_data() -> None:
    """Also empty ones; the name and the id come first, if there are any."""
    assert event("one\n\ntwo") == b"data: one\ndata: \ndata: two\n\n"
    assert event("{}", name="reset", identity="7") == b"event: reset\nid: 7\ndata: {}\n\n"
