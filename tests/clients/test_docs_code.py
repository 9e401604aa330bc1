"""The code on the pages of the documentation, as a reader copies it: each language creates and cancels an order."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys

import pytest

from conftest import skip_unless_ci
from paydesk.engine.orders.openapi import WEBHOOKS
from paydesk.platform.docs.site import Site
from paydesk.service.api import OWN
from service import Service

COMMANDS = {
    "curl": ("sh", "-c"),
    "Python": (sys.executable, "-c"),
    "Node": ("node", "--input-type=module", "--eval"),
}


@pytest.mark.parametrize("language", COMMANDS)
async def test_the_code_of_a_page_runs(service: Service, language: str) -> None:
    """With the variables that `paydesk env` sets."""
    if shutil.which(COMMANDS[language][0]) is None:
        skip_unless_ci(f"{COMMANDS[language][0]} is missing")
    site = Site(WEBHOOKS, service.shared.settings.model_copy(update={"public_url": service.base_url}))
    site.bind(OWN.operations)
    terminal = await service.terminal()
    variables = {"PAYDESK_ACCESS_TOKEN": service.access_token, "PAYDESK_TERMINAL_ID": terminal.id}

    async def output(page: str, **more: str) -> str:
        code = dict(site.samples(site.pages[page]))[language]
        process = await asyncio.create_subprocess_exec(
            *COMMANDS[language],
            code,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env={**os.environ, **variables, **more},
        )
        out, _ = await process.communicate()
        return out.decode()

    created = await output("create-order")
    assert '"status":"created"' in created, created
    (order,) = (await service.request("GET", "/v1/orders")).body["data"]
    canceled = await output("cancel-order", PAYDESK_ORDER_ID=order["id"])
    assert '"status":"canceled"' in canceled, canceled
    listed = await output("list-terminals")
    assert terminal.id in listed, listed
