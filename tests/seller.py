"""The seller, who follows an application's link to the authorization page and agrees, by plain HTTP."""

from __future__ import annotations

from urllib.parse import urlsplit

from page_scene import Browser


async def agree(seller: Browser, authorization_url: str) -> str:
    """Where the seller is sent at the end: the application's address with `code`, `state` and `iss`.

    The seller signs in where they have not yet; the link must be one to the seller's own service.
    """
    assert authorization_url.startswith(f"{seller.service.base_url}/authorization?"), authorization_url
    path = f"/authorization?{urlsplit(authorization_url).query}"
    page = await seller.get(path)
    if page.forms[0].action == "/sign-in":
        page = await seller.get((await seller.sign_in(path)).location)
    return (await seller.submit(page.form("/authorization"), decision="agree")).location
