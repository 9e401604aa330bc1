"""`python -m bench.pages`: measure what open pages of virtual terminals cost a node of `paydesk dev`.

The pages are of a few private terminals. Each is loaded with its assets and keeps its stream open, as a visible tab
does; a hidden tab closes it. The CPU time of the node is measured without pages, with pages at which nothing happens,
with pages that show a payment every few seconds, and with the same payments after all streams were closed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import sys
import tempfile
import time
import uuid
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import aiohttp
from rich.console import Console
from rich.table import Table

from bench.load import BenchError, cpu_seconds
from bench.running import free_port, started

PAYMENT_SECONDS = 4.0
"""Between two payments."""
SCRIPT = "approve:1s"
PAGES_A_TERMINAL = 10
SETTLE_SECONDS = 2.0
ASSET = re.compile(r'(?:src|href)="(/[^"#]*assets/[^"#]+)')


def main() -> None:
    """Measure, and print the table."""
    arguments = _arguments()
    try:
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="paydesk-bench-")))
            port, credentials = free_port(), folder / "credentials.json"
            command = [sys.executable, "-m", "paydesk.commands", "dev", "--port", str(port)]
            command += ["--data", str(folder / "data"), "--credentials", str(credentials)]
            process = stack.enter_context(started(command, port, "/readyz"))
            figures = asyncio.run(_Measured(process.pid, credentials, arguments).run())
    except BenchError as error:
        sys.exit(str(error))
    table = Table(
        "",
        "CPU of the node",
        "messages",
        "kB a page",
        title=f"{arguments.pages} pages, {PAGES_A_TERMINAL} of each terminal",
    )
    for column in table.columns[1:]:
        column.justify = "right"
    for row in figures:
        table.add_row(*row)
    Console().print(table)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.pages", description=__doc__)
    parser.add_argument("--pages", type=int, default=50, help="open at once (%(default)s)")
    parser.add_argument("--seconds", type=float, default=60, help="of each part (%(default)s)")
    return parser.parse_args()


class _Measured:
    """The node while pages are open."""

    def __init__(self, pid: int, credentials: Path, arguments: argparse.Namespace) -> None:
        self._pid, self._credentials = pid, credentials
        self._pages, self._seconds = arguments.pages, arguments.seconds
        self._bytes = self._messages = 0

    async def run(self) -> list[tuple[str, str, str, str]]:
        """Return a row for each part."""
        known = await self._known()
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as http:
            base_url = known["base_url"]
            application = {"Authorization": f"Bearer {known['test']['access_token']}"}
            count = -(-self._pages // PAGES_A_TERMINAL)
            made = [
                await _posted(http, f"{base_url}/virtual/v1/terminals", {"script": SCRIPT}, application)
                for _ in range(count)
            ]
            addresses = [made[number % count]["page_url"] for number in range(self._pages)]

            async def pay() -> None:
                for terminal in made:
                    order = {
                        "type": "point",
                        "external_reference": f"bench-{uuid.uuid4().hex[:12]}",
                        "transactions": {"payments": [{"amount": "24.90"}]},
                        "config": {"point": {"terminal_id": terminal["id"]}},
                    }
                    key = {"X-Idempotency-Key": str(uuid.uuid4())}
                    await _posted(http, f"{base_url}/v1/orders", order, {**application, **key})

            rows = [await self._part("no page, nothing happens")]
            loaded = await self._load(http, addresses[0])
            streams = [asyncio.create_task(self._stream(http, address)) for address in addresses]
            rows.append(await self._part("pages open, nothing happens"))
            rows.append(await self._part(f"pages open, a payment each {PAYMENT_SECONDS:g} s", pay))
            for stream in streams:
                stream.cancel()
            await asyncio.gather(*streams, return_exceptions=True)
            rows.append(await self._part("tabs hidden, the same payments", pay))
        return [("loading a page", "", "", f"{loaded / 1000:.1f}"), *rows]

    async def _known(self) -> dict[str, Any]:
        while True:
            if self._credentials.exists():
                known: dict[str, Any] = json.loads(self._credentials.read_text())
                return known
            await asyncio.sleep(0.1)

    async def _load(self, http: aiohttp.ClientSession, page_url: str) -> int:
        """Load the page with its assets; return the number of bytes."""
        async with http.get(page_url) as answer:
            page = await answer.read()
        if answer.status != 200:
            raise BenchError(f"the page was answered with {answer.status}")
        size = len(page)
        for path in sorted(set(ASSET.findall(page.decode()))):
            async with http.get(page_url[: page_url.index("/virtual")] + path) as asset:
                size += len(await asset.read())
        return size

    async def _stream(self, http: aiohttp.ClientSession, page_url: str) -> None:
        address, _, query = page_url.partition("?")
        timeout = aiohttp.ClientTimeout(total=None)
        async with http.get(f"{address}/events?{query}", timeout=timeout) as answer:
            async for line in answer.content:
                self._bytes += len(line)
                self._messages += line.startswith(b"id:")

    async def _part(self, name: str, pay: Any = None) -> tuple[str, str, str, str]:
        await asyncio.sleep(SETTLE_SECONDS)
        self._bytes = self._messages = 0
        began, spent = time.monotonic(), cpu_seconds(self._pid)
        while time.monotonic() < began + self._seconds:
            if pay is not None:
                await pay()
            await asyncio.sleep(PAYMENT_SECONDS)
        share = (cpu_seconds(self._pid) - spent) / (time.monotonic() - began)
        kilobytes = self._bytes / 1000 / self._pages
        return name, f"{share:.1%} of a core", f"{self._messages:,}", f"{kilobytes:.1f}"


async def _posted(
    http: aiohttp.ClientSession, url: str, body: dict[str, Any], headers: dict[str, str]
) -> dict[str, Any]:
    async with http.post(url, json=body, headers=headers) as answer:
        if answer.status >= 300:
            raise BenchError(f"{url} was answered with {answer.status}: {(await answer.text())[:200]}")
        made: dict[str, Any] = await answer.json()
        return made


if __name__ == "__main__":
    main()
