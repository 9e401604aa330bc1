"""One of several processes that share a stored refresh token without a lock: it reads, refreshes, stores the answer.

`sharing_process.py FILE BASE_URL SEED`: each line on standard input is how often to do it, with random pauses; then it
says `done`, or what it was refused with and ends. It needs nothing but Python, as an application would.
"""

from __future__ import annotations

import http.client
import json
import os
import random
import sys
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

PAUSE_SECONDS_MAX = 0.01
SLOW_ONES, SLOW_SECONDS = 0.1, 0.06
"""So many take so long to store what they were answered, while the others go on."""
ANSWER_SECONDS_MAX = 30


def refreshed(connection: http.client.HTTPConnection, stored: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    """The status and the answer to a refresh with what is stored."""
    body = {**stored["credentials"], "grant_type": "refresh_token", "refresh_token": stored["refresh_token"]}
    connection.request("POST", "/oauth/token", json.dumps(body), {"Content-Type": "application/json"})
    answer = connection.getresponse()
    return answer.status, json.loads(answer.read())


def store(file: Path, stored: dict[str, Any]) -> None:
    """Write it all or not at all; who writes last wins."""
    fresh = file.with_suffix(f".{os.getpid()}")
    fresh.write_text(json.dumps(stored))
    fresh.replace(file)


def main(file: Path, base_url: str, seed: str) -> int:
    """Serve the lines of standard input; 1 after a refusal."""
    choices, address = random.Random(seed), urlsplit(base_url)
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=ANSWER_SECONDS_MAX)
    for line in sys.stdin:
        for _ in range(int(line)):
            time.sleep(choices.uniform(0, PAUSE_SECONDS_MAX))
            stored = json.loads(file.read_text())
            status, answer = refreshed(connection, stored)
            if status != 200:
                print(f"{status} {answer}", flush=True)  # noqa: T201 - its answer
                return 1
            time.sleep(SLOW_SECONDS if choices.random() < SLOW_ONES else 0)
            store(file, {**stored, "refresh_token": answer["refresh_token"]})
        print("done", flush=True)  # noqa: T201 - its answer
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3]))
