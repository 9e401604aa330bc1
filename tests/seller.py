"""A seller who opens an application's authorization link and agrees, with plain HTTP, cookies and forms."""

from __future__ import annotations

import html
import re
from email.message import Message
from http.client import HTTPResponse
from typing import IO, Any
from urllib.error import HTTPError
from urllib.parse import urlencode, urljoin
from urllib.request import HTTPCookieProcessor, HTTPRedirectHandler, ProxyHandler, Request, build_opener

ANSWER_SECONDS_MAX = 30

_FORM = re.compile(r'<form method="post" action="([^"]*)">(.*?)</form>', re.DOTALL)
_HIDDEN = re.compile(r'<input type="hidden" name="([^"]*)" value="([^"]*)">')


class _NoRedirects(HTTPRedirectHandler):
    """Returns redirects instead of following them."""

    def redirect_request(self, req: Request, fp: IO[bytes], code: int, msg: str, headers: Message, newurl: str) -> None:
        del req, fp, code, msg, headers, newurl


class Seller:
    """A seller with a browser that keeps its cookies."""

    def __init__(self, email: str, password: str) -> None:
        self._credentials = {"email": email, "password": password}
        self._opener = build_opener(ProxyHandler({}), HTTPCookieProcessor(), _NoRedirects())

    def agree(self, authorization_url: str) -> str:
        """Sign in if necessary, agree, and return the redirect to the application, which contains a code."""
        page = self._open(authorization_url)
        if "/sign-in" in _forms(page):
            signed_in = self._submit(authorization_url, page, "/sign-in", **self._credentials)
            page = self._open(urljoin(authorization_url, signed_in))
        return self._submit(authorization_url, page, "/authorization", decision="agree")

    def _open(self, url: str) -> str:
        with self._answer(url) as answer:
            assert answer.status == 200, answer.status
            return str(answer.read().decode())

    def _submit(self, url: str, page: str, action: str, **fields: str) -> str:
        """Submit a form of the page with these fields; return the redirect."""
        hidden = _forms(page)[action]
        with self._answer(urljoin(url, action), urlencode({**hidden, **fields}).encode()) as answer:
            assert answer.status == 303, answer.read().decode()
            return str(answer.headers["Location"])

    def _answer(self, url: str, data: bytes | None = None) -> HTTPResponse | HTTPError:
        try:
            answer: Any = self._opener.open(url, data, timeout=ANSWER_SECONDS_MAX)
        except HTTPError as other:
            return other
        return answer  # type: ignore[no-any-return]  # an opener says Any


def _forms(page: str) -> dict[str, dict[str, str]]:
    """Return the hidden fields of the page's forms, by their action."""
    return {
        html.unescape(action): {name: html.unescape(value) for name, value in _HIDDEN.findall(content)}
        for action, content in _FORM.findall(page)
    }
