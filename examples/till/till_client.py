"""Requests to Paydesk: repeated while the outcome is unknown, with the same key and bytes. Tokens are renewed."""

import http.client
import json
import sqlite3
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

REPEATED = {0, 408, 423, 429, 500, 502, 503, 504}
"""The outcome is unknown, or nothing has happened and a repeat may succeed. 0: no answer, or half of one."""
TERMINAL_BUSY = "already_queued_order_on_terminal"
PAUSE_SECONDS_MAX = 30
TOKENS = """
CREATE TABLE IF NOT EXISTS tokens (client_id TEXT PRIMARY KEY, access TEXT, refresh TEXT, given TEXT)"""
NEW_TOKENS = """
INSERT INTO tokens (client_id, access, refresh, given) VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE
   SET access = excluded.access, refresh = excluded.refresh, given = excluded.given WHERE given != excluded.given"""
"""`given` is the environment's access token: another one there is newer than those that were renewed."""
Document = dict[str, Any]


class Unknown(Exception):
    """There is no answer for too long. Repeat the request later, with the same key."""


class Unauthorized(Exception):
    """The tokens are no longer valid: the seller has to authorize the till again."""


def rows(file: str, statement: str, *values: Any) -> list[sqlite3.Row]:
    """Run a statement, commit it to the disk, and return its rows."""
    with closing(sqlite3.connect(file)) as database, database:
        database.row_factory = sqlite3.Row
        return database.execute(statement, values).fetchall()


class Client:
    """A client with its tokens in `file`. Seconds: of one answer, before the first repeat, and of all repeats."""

    def __init__(
        self, file: str, environment: Mapping[str, str], *, timeout: float = 30, pause: float = 1, patience: float = 60
    ) -> None:
        self.file, self.given, self.lock = file, environment, threading.Lock()
        self.client_id = environment["PAYDESK_CLIENT_ID"]
        self.timeout, self.pause, self.patience = timeout, pause, patience
        Path(file).touch(0o600)  # the file has tokens
        rows(file, TOKENS)
        access, refresh = environment["PAYDESK_ACCESS_TOKEN"], environment["PAYDESK_REFRESH_TOKEN"]
        rows(file, NEW_TOKENS, self.client_id, access, refresh, access)

    def call(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Document]:
        """Return status and document of the answer. Raises `Unknown` and `Unauthorized`."""
        pause, end, was_refreshed = self.pause, time.monotonic() + self.patience, False
        while True:
            token, sent = self.tokens["access"], {name.replace("_", "-"): value for name, value in headers.items()}
            status, retry_after, document = self.send(method, path, body, sent, token)
            if status == 401 and not was_refreshed:
                self.refresh(token)
                was_refreshed = True
                continue
            if status == 401:
                raise Unauthorized
            if status not in REPEATED and document.get("error") != TERMINAL_BUSY:
                return status, document
            wait = float(retry_after) if retry_after.isdigit() else pause  # a proxy may send a date
            if time.monotonic() + wait > end:
                raise Unknown(document.get("message", f"The service answers {status}"))
            time.sleep(wait)
            pause = min(pause * 2, PAUSE_SECONDS_MAX)

    @property
    def tokens(self) -> sqlite3.Row:
        """The newest access token and refresh token."""
        return rows(self.file, "SELECT access, refresh FROM tokens WHERE client_id = ?", self.client_id)[0]

    def refresh(self, used: str) -> None:
        """Renew the tokens, and store them before they are used. Of several requests with an old one, one renews."""
        with self.lock:
            access, refresh = self.tokens
            if access != used:
                return
            client = {"client_id": self.client_id, "client_secret": self.given["PAYDESK_CLIENT_SECRET"]}
            body = {"grant_type": "refresh_token", "refresh_token": refresh, **client}
            end = time.monotonic() + self.patience
            # A repeat gets the same tokens.
            while (answer := self.send("POST", "/oauth/token", body, {}))[0] in REPEATED:
                if time.monotonic() + self.pause > end:
                    raise Unknown("The tokens cannot be renewed")
                time.sleep(self.pause)
            status, _, tokens = answer
            if status != 200:
                raise Unauthorized
            change = "UPDATE tokens SET access = ?, refresh = ? WHERE client_id = ?"
            rows(self.file, change, tokens["access_token"], tokens["refresh_token"], self.client_id)

    def send(
        self, method: str, path: str, body: Any, headers: Mapping[str, str], token: str = ""
    ) -> tuple[int, str, Document]:
        """Send a request once; return status, Retry-After and document. The status is 0 without a whole answer."""
        data, url = None if body is None else json.dumps(body).encode(), self.given["PAYDESK_BASE_URL"] + path
        sent = {"Content-Type": "application/json", "Authorization": f"Bearer {token}", **headers}
        request = urllib.request.Request(url, data, sent, method=method)  # noqa: S310 - the service's own address
        try:
            try:
                with urllib.request.urlopen(request, timeout=self.timeout) as answer:  # noqa: S310
                    return answer.status, "", json.loads(answer.read())
            except urllib.error.HTTPError as refusal:
                with refusal:
                    return refusal.code, refusal.headers.get("Retry-After", ""), json.loads(refusal.read())
        except (OSError, ValueError, http.client.HTTPException) as error:
            return 0, "", {"message": f"There is no answer: {error}"}
