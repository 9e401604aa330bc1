"""Refresh a token that several processes share (docs/get-a-token.md).

pip install requests
"""

import json
import os
import tempfile
from pathlib import Path

import requests

STORED = Path("refresh-token")


def store(refresh_token: str) -> None:
    with tempfile.NamedTemporaryFile("w", dir=STORED.absolute().parent, delete=False) as fresh:  # of mode 0600
        fresh.write(refresh_token)
        fresh.flush()
        os.fsync(fresh.fileno())
    Path(fresh.name).replace(STORED)


def refresh() -> str:
    credentials = json.loads(Path(".paydesk/credentials.json").read_text())
    sent = STORED.read_text()
    answer = requests.post(
        f"{credentials['base_url']}/oauth/token",
        json={
            "grant_type": "refresh_token",
            "client_id": credentials["client_id"],
            "client_secret": credentials["client_secret"],
            "refresh_token": sent,
        },
        timeout=30,
    )
    answer.raise_for_status()
    tokens = answer.json()
    if STORED.read_text() == sent:
        store(tokens["refresh_token"])
    return tokens["access_token"]
