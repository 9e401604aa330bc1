"""A seller signs in at the vendor's address, which leads a browser through the proxy of `paydesk dev --proxy`."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.async_api import Browser, expect

from browser.visit import watching
from browser.windows import listening
from command_line import command
from paydesk_process import credentials, dev

pytestmark = pytest.mark.asyncio(loop_scope="session")

AUTH = "auth.mercadopago.com"


async def test_a_seller_signs_in_at_the_vendors_address(chromium: Browser, tmp_path: Path) -> None:
    """The pages, their style, both forms and the redirect to the application work there; scripts are on."""
    with dev(tmp_path, "--proxy", XDG_DATA_HOME=str(tmp_path / "home")):
        document = credentials(tmp_path)
        printed = command("authorize-url", folder=tmp_path).stdout.strip()
        address = urlsplit(printed)._replace(scheme="https", netloc=AUTH).geturl()
        # The browser does not read the variable with the certificate; its own store would need it.
        window = await chromium.new_context(
            proxy={"server": document["proxy_url"], "bypass": "localhost,127.0.0.1"},
            ignore_https_errors=True,
            locale="en-US",
        )
        page, faults = await window.new_page(), list[str]()
        listeners = watching(frozenset((AUTH, urlsplit(document["base_url"]).netloc)), faults)
        with listening(page, listeners):
            await page.goto(address)
            await expect(page.get_by_role("heading", level=1, name="Sign in")).to_be_visible()
            await page.get_by_label("E-mail").fill(document["seller"]["email"])
            await page.get_by_label("Password", exact=True).fill(document["seller"]["password"])
            await page.get_by_role("button", name="Sign in").click()
            await page.get_by_role("button", name="Allow", exact=True).click()
            await page.wait_for_url(f"{document['redirect_uri']}?*")
            await expect(page.get_by_role("heading", level=2, name="Exchange it for tokens")).to_be_visible()
        answer = parse_qs(urlsplit(page.url).query)
        assert answer["code"][0].startswith("TG-")
        # The service's own address is its issuer, whatever address a client calls.
        assert answer["iss"] == [document["base_url"]]
        assert not faults, faults
        await window.close()
