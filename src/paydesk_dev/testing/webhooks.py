"""The notifications of one test: who gets them, and what was delivered."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from paydesk_dev.testing.blocking import POLL_SECONDS, in_thread
from paydesk_dev.testing.documents import Notification, Order, id_of
from paydesk_dev.testing.errors import NotReceived
from paydesk_dev.testing.expected import known_action
from paydesk_dev.testing.service import Service

Receive = Callable[[Mapping[str, str], bytes, str], int]
"""Gets the headers, the body and the target of a notification, and returns the status of the answer."""
POLL_INTERVAL_SECONDS = 0.05


class Webhooks:
    """The notifications of one application, which go to the service's inbox, to a function, or to the till."""

    def __init__(
        self,
        service: Service,
        subscription_id: str,
        client_id: str,
        inbox_url: str,
        seconds: float,
        raise_failure: Callable[[], object],
    ) -> None:
        self._service, self._subscription_id, self._client_id = service, subscription_id, client_id
        self._inbox_url, self._seconds, self._in_inbox = inbox_url, seconds, True
        self._raise_failure = raise_failure
        self._servers: list[ThreadingHTTPServer] = []
        self.errors: list[BaseException] = []
        """The exceptions of receivers: the test fails with the first one."""

    def receiver(self, receive: Receive) -> str:
        """Send them to a function, called in a thread, and return its address."""
        if not callable(receive):
            raise TypeError(f"a receiver is a function of headers, body and target; it is {receive!r}")
        server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(receive, self.errors))
        server.daemon_threads = True
        self._servers.append(server)
        Thread(target=server.serve_forever, args=(0.02,), name="receiver of notifications", daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/notifications"
        self.send_to(url)
        return url

    def send_to(self, url: str | None) -> None:
        """Send them to this address; None: to the inbox of the service."""
        path = f"/operator/v1/subscriptions/{self._subscription_id}"
        self._service.ask("PATCH", path, {"url": url or self._inbox_url})
        self._in_inbox = url is None

    def wait_for(
        self, action: str, order: Order | str | None = None, *, count: int = 1, seconds: float | None = None
    ) -> Notification:
        """Return the notification once it is delivered: answered with 2xx. If there are several, the last one.

        Raises `NotReceived`.
        """
        known_action(action)
        end = time.monotonic() + (self._seconds if seconds is None else seconds)
        while True:
            self._raise_failure()
            left = end - time.monotonic()
            notifications = self._find(action, order, wait=POLL_SECONDS if left > 0 else 0, count=count)
            delivered = [one for one in notifications if one.answer is not None and 200 <= one.answer < 300]
            if len(delivered) >= count:
                return delivered[-1]
            if left <= 0:
                sent = ", ".join(f"{one.action} ({one.answer or one.error})" for one in self.received("", order))
                raise NotReceived(
                    f"{action} was delivered {len(delivered)} of {count} times; sent: {sent or 'nothing'}."
                )
            if not self._in_inbox:
                time.sleep(POLL_INTERVAL_SECONDS)

    wait_for_async = in_thread(wait_for)

    def received(self, action: str = "", order: Order | str | None = None) -> list[Notification]:
        """Return each attempt with its answer, oldest first."""
        if action:
            known_action(action)
        return self._find(action, order)

    def close(self) -> None:
        """Stop the receivers."""
        for server in self._servers:
            server.shutdown()
            server.server_close()

    def _find(self, action: str, order: Order | str | None, **waiting: int) -> list[Notification]:
        order_id = None if order is None else id_of(order)
        if self._in_inbox:
            query = {"application": self._client_id, "action": action, "order": order_id, **waiting}
            received = self._service.ask("GET", "/dev/notifications", query=query)["data"]
            return [Notification({**one, "answer": 200, "error": None}) for one in received]
        path, attempts = "/operator/v1/deliveries", list[tuple[str, Notification]]()
        for delivery in self._service.rows(path, {"subscription": self._subscription_id}):
            if action in ("", delivery["action"]) and order_id in (None, delivery.get("order_id")):
                inspected = self._service.ask("GET", f"{path}/{delivery['id']}")
                attempts += [(one["date"], _attempt(inspected, one)) for one in inspected["history"]]
        return [one for _, one in sorted(attempts, key=lambda attempt: attempt[0])]


def _attempt(delivery: Mapping[str, Any], attempt: Mapping[str, Any]) -> Notification:
    fields = {name: delivery.get(name) for name in ("action", "order_id", "version")}
    status = (attempt.get("answer") or {}).get("status")
    request = attempt.get("request") or {}
    more = {"body": delivery["notification"], "headers": request.get("headers", {}), "received_date": attempt["date"]}
    return Notification({**fields, **more, "answer": status, "error": attempt.get("error")})


def _handler(receive: Receive, errors: list[BaseException]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            status = 500
            try:
                answered = receive(self.headers, body, self.path)  # type: ignore[arg-type]
                if not isinstance(answered, int):
                    raise TypeError(f"a receiver of notifications returns a status, such as 200; it was {answered!r}")
                status = answered
            except BaseException as error:  # noqa: BLE001 - whatever it is, `pytest.fail` too, the test fails with it
                errors.append(error)
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    return Handler
