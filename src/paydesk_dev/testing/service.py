"""A service for tests: one that runs already, or a process of one's own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from http.client import HTTPException
from pathlib import Path
from string import punctuation
from threading import Timer
from typing import Any, Self
from urllib.error import HTTPError
from urllib.parse import quote, urlencode
from urllib.request import ProxyHandler, Request, build_opener

from paydesk_dev.testing.errors import PaydeskError, Refused

ANSWER_SECONDS_MAX = 90
STOP_SECONDS_MAX = 20
LOG_CHARACTERS = 4_000
# A till may need HTTPS_PROXY; the test goes to the service directly.
_OPENER = build_opener(ProxyHandler({}))


class Service:
    """A `paydesk dev` with its operator's token. `log`: the file of its log, if the process is the test's own."""

    def __init__(
        self,
        url: str,
        operator_token: str,
        *,
        log: Path | None = None,
        process: subprocess.Popen[bytes] | None = None,
    ) -> None:
        self.url, self.operator_token, self.log, self._process = url, operator_token, log, process

    @classmethod
    def of_file(cls, credentials: Path) -> Self:
        """Return the running service that wrote this credentials file."""
        __tracebackhide__ = True
        try:
            document = json.loads(credentials.read_text())
            return cls(document["base_url"], document["operator"]["token"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise PaydeskError(f"{credentials} is not a credentials file of `paydesk dev`: {error!r}.") from None

    @classmethod
    def start(
        cls, folder: Path, *options: str, seconds: float = 60, environment: Mapping[str, str] | None = None
    ) -> Self:
        """Start `paydesk dev --bare` on a free port with its data in `folder`. Raises `PaydeskError`.

        It ends with this process, even if that is killed.
        """
        __tracebackhide__ = True
        log = folder / "paydesk.log"
        # Without -P a folder `paydesk` of the project would be imported.
        command = (sys.executable, "-P", "-m", "paydesk.commands", "dev", "--bare", "--until-eof", "--port", "0")
        with log.open("wb") as written:
            process = subprocess.Popen(  # noqa: S603 - the command is a constant, the options the test's
                [*command, "--data", str(folder), *options],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=written,
                env={**os.environ, **(environment or {})},
            )
        timer = Timer(seconds, process.kill)
        timer.start()
        try:
            assert process.stdout is not None, "it is a pipe"
            with process.stdout as lines:
                ready = next((line for line in lines if line.startswith(b"paydesk ready ")), None)
            if ready is None:
                code = process.wait()
                raise PaydeskError(f"`paydesk dev` did not start (exit {code}):\n{log.read_text()[-LOG_CHARACTERS:]}")
            service = cls.of_file(folder / "credentials.json")
            return cls(service.url, service.operator_token, log=log, process=process)
        except BaseException:
            with process:
                process.kill()
            raise
        finally:
            timer.cancel()

    @property
    def is_own(self) -> bool:
        """Whether the process is the test's own, so that its clock may be moved."""
        return self._process is not None

    def stop(self) -> None:
        """Stop the process, if it is the test's own."""
        process, self._process = self._process, None
        if process is not None:
            with process:
                process.terminate()
                try:
                    process.wait(STOP_SECONDS_MAX)
                except subprocess.TimeoutExpired:
                    process.kill()

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        token: str = "",
        headers: Mapping[str, str] | None = None,
        query: Mapping[str, Any] | None = None,
    ) -> Any:
        """Return the JSON of an answer, by default to the operator. Raises `Refused`."""
        __tracebackhide__ = True
        return self.send(method, path, body, token=token, headers=headers, query=query)[1]

    def rows(self, path: str, query: Mapping[str, Any]) -> list[Any]:
        """Return the rows of all pages of an operator's list."""
        page = self.ask("GET", path, query=query)
        rows: list[Any] = page["data"]
        while after := page.get("next"):
            page = self.ask("GET", path, query={**query, "after": after})
            rows += page["data"]
        return rows

    def send(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        token: str = "",
        headers: Mapping[str, str] | None = None,
        query: Mapping[str, Any] | None = None,
    ) -> tuple[int, Any]:
        """Return the status and the JSON of an answer. Empty values of the query are left out. Raises `Refused`."""
        __tracebackhide__ = True
        if not path.startswith("/"):
            raise ValueError(f"a path begins with /, such as /v1/orders; it is {path!r}")
        sent = {"Authorization": f"Bearer {token or self.operator_token}", **(headers or {})}
        data = None if body is None else json.dumps(body).encode()
        if data is not None:
            sent["Content-Type"] = "application/json"
        given = urlencode({name: value for name, value in (query or {}).items() if value not in ("", None)})
        url = f"{self.url}{quote(path, safe=punctuation)}?{given}".rstrip("?")
        try:
            request = Request(url, data, sent, method=method)  # noqa: S310 - the address of the service
            with _OPENER.open(request, timeout=ANSWER_SECONDS_MAX) as answer:
                return answer.status, json.loads(answer.read() or b"null")
        except HTTPError as error:
            with error:
                raise _refused(f"{method} {path}", error) from None
        except (OSError, HTTPException) as error:
            code = self._process.poll() if self._process is not None else None
            ended = f"does not answer: {error!r}." if code is None else f"has ended (exit {code}), log: {self.log}"
            raise PaydeskError(f"{method} {path}: the service at {self.url} {ended}") from None
        except ValueError as error:
            raise PaydeskError(f"{method} {path}: the answer of {self.url} is not JSON: {error}.") from None


def _refused(request: str, error: HTTPError) -> Refused:
    body = b""
    try:
        body = error.read()
        first = json.loads(body)["errors"][0]
        return Refused(request, error.code, first["code"], first["message"], first.get("details", ()))
    except (OSError, HTTPException, ValueError, LookupError, TypeError):
        return Refused(request, error.code, "", body[:200].decode(errors="replace"))
