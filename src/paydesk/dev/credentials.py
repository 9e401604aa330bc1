"""The credentials file of `paydesk dev`: what still works in it is kept, what does not is minted anew."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from paydesk.core import atomic_file
from paydesk.core.errors import Refusal
from paydesk.core.keys import Keys
from paydesk.dev.demo import CALLBACK, INBOX, Demo
from paydesk.oauth import issuing
from paydesk.oauth.bearer import Bearers
from paydesk.oauth.clients import applications
from paydesk.oauth.consent import passwords, sellers
from paydesk.oauth.tokens import Lifetimes
from paydesk.operators import tokens as operator_tokens
from paydesk.operators.bearer import OperatorBearers
from paydesk.operators.passwords import new_password
from paydesk.settings import Settings
from paydesk.storage.database import Database, Transaction
from paydesk.webhooks import signature

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class NewPassword:
    """A password that was made up, and what is kept of it."""

    password: str = field(repr=False)
    password_hash: str = field(repr=False)


async def spare_password(file: Path) -> NewPassword | None:
    """One for a seller who has none yet, None where the file says one: the slowest part of a first start."""
    return await _new_password() if "password" not in _within(_read(file), "seller") else None


async def _new_password() -> NewPassword:
    password = new_password()
    return NewPassword(password, await passwords.hash_password(password))


@dataclass(frozen=True, slots=True)
class Minting:
    """What is needed to mint credentials for the demo data."""

    database: Database
    keys: Keys
    settings: Settings
    demo: Demo
    base_url: str
    now_ms: int
    spare_password: Awaitable[NewPassword | None]

    async def refresh(self, file: Path) -> Document:
        """Bring the file up to date and return what it says. Raises `OSError` where it can't be written."""
        known = _read(file)
        # At once, so that they share their commits.
        secret, password, test, live, operator = await asyncio.gather(
            self._client_secret(known.get("client_secret")),
            self._password(_within(known, "seller").get("password")),
            self._tokens(_within(known, "test"), live=False),
            self._tokens(_within(known, "live"), live=True),
            self._operator_token(_within(known, "operator").get("token")),
        )
        document = {
            "base_url": self.base_url,
            "client_id": str(self.demo.application.application_id),
            "client_secret": secret,
            "redirect_uri": self.base_url + CALLBACK,
            "seller": {
                "user_id": self.demo.seller.seller_id,
                "email": self.demo.seller.email,
                "password": password,
            },
            "test": test,
            "live": live,
            "terminals": [
                {"id": one.terminal_id, "operating_mode": one.operating_mode, "script": one.script}
                for one in self.demo.terminals
            ],
            "webhook": {
                "url": self.base_url + INBOX,
                "secret": self._webhook_secret(),
                "inbox_url": self.base_url + INBOX,
            },
            "operator": {"token": operator},
        }
        if document != known:
            _write(file, document)
        return document

    async def _client_secret(self, known: Any) -> str:
        client_id, now_ms = self.demo.application.application_id, self.now_ms

        async def work(tx: Transaction) -> str:
            if isinstance(known, str):
                try:
                    if not isinstance(await applications.authenticate(tx, str(client_id), known, now_ms), Refusal):
                        return known
                except Refusal:
                    pass
            _, secret = await applications.add_secret(tx, client_id, now_ms)
            return secret.reveal()

        return await self.database.write(work)

    async def _password(self, known: Any) -> str:
        seller = self.demo.seller
        found = await self.database.read(lambda tx: sellers.find_by_email(tx, seller.email))
        assert found is not None, "the demo seller was found or made a moment ago"
        if isinstance(known, str) and await passwords.verify_password(found[1], known):
            return known
        new = await self.spare_password or await _new_password()
        await self.database.write(lambda tx: sellers.change_password(tx, seller.seller_id, new.password_hash))
        return new.password

    async def _tokens(self, known: Mapping[str, Any], *, live: bool) -> Document:
        if await self._is_good(known.get("access_token"), live=live) and isinstance(known.get("refresh_token"), str):
            return {"access_token": known["access_token"], "refresh_token": known["refresh_token"]}
        lifetimes = Lifetimes(self.settings.access_token_lifetime_seconds, self.settings.refresh_token_lifetime_seconds)
        pair = await self.database.write(
            lambda tx: issuing.mint_family(
                tx,
                self.keys,
                application_id=self.demo.application.application_id,
                seller_id=self.demo.seller.seller_id,
                scope=self.demo.application.scopes,
                live=live,
                now_ms=self.now_ms,
                lifetimes=lifetimes,
            )
        )
        return {"access_token": pair.access_token, "refresh_token": pair.refresh_token}

    async def _is_good(self, token: Any, *, live: bool) -> bool:
        try:
            caller = await Bearers(self.database, 0).caller(token if isinstance(token, str) else None, self.now_ms)
        except Refusal:
            return False
        owner = (self.demo.seller.seller_id, self.demo.application.application_id, live)
        return (caller.seller_id, caller.application_id, caller.live) == owner

    def _webhook_secret(self) -> str:
        one = self.demo.subscription
        secret = signature.secret_of(self.keys, one.key_version, one.subscription_id, one.secret_generation)
        return secret.reveal()

    async def _operator_token(self, known: Any) -> str:
        try:
            await OperatorBearers(self.database).caller(known if isinstance(known, str) else None, self.now_ms)
        except Refusal:
            token = operator_tokens.new()
            await self.database.write(lambda tx: operator_tokens.issue(tx, token, "paydesk dev", "owner", self.now_ms))
            return token.reveal()
        assert isinstance(known, str), "an operator was found by it"
        return known


def _read(file: Path) -> Mapping[str, Any]:
    """What the file says; a file that is lost or broken says nothing."""
    try:
        document = json.loads(file.read_text())
    except (OSError, ValueError):
        return {}
    return document if isinstance(document, dict) else {}


def _within(document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = document.get(name)
    return value if isinstance(value, dict) else {}


def _write(file: Path, document: Document) -> None:
    """Replace the file in one step, readable by its owner alone."""
    file.parent.mkdir(parents=True, exist_ok=True)
    atomic_file.replace(file, f"{json.dumps(document, indent=2)}\n".encode())
