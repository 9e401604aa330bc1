"""The credentials file of `paydesk dev`. Valid credentials in it are kept; others are replaced by new ones.

Fields that Paydesk does not write are kept: other programs and commands keep theirs there.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import structlog

from paydesk.core import atomic_file
from paydesk.core.clock import Clock
from paydesk.core.errors import Refusal
from paydesk.core.keys import Keys
from paydesk.core.secrets import digest, new_hex
from paydesk.engine.oauth import authorizations, bearer, tokens
from paydesk.engine.oauth.clients import applications, authentication
from paydesk.engine.oauth.clients.authentication import Application
from paydesk.engine.oauth.tokens import Lifetimes
from paydesk.engine.sellers import passwords
from paydesk.engine.sellers.sessions import SELLERS
from paydesk.engine.sellers.store import Seller
from paydesk.engine.webhooks.subscriptions import store as subscriptions
from paydesk.operators.accounts.credentials import new_password
from paydesk.platform.process.node import StartRefused
from paydesk.platform.settings import Settings
from paydesk.platform.storage.database import Database, Transaction
from paydesk_dev.console_key import ConsoleKey
from paydesk_dev.dev import demo_operator
from paydesk_dev.dev.demo import Demo
from paydesk_dev.inbox.receiver import PATH as INBOX
from paydesk_dev.proxy.access import ProxyAccess
from paydesk_dev.scenes import CALLBACK
from paydesk_dev.tls.https import Https
from paydesk_dev.virtual.page_keys import page_url

Document = dict[str, Any]

HTTPS_FIELDS = ("tls_base_url", "ca_file", "ca_bundle_file", "proxy_url")
"""The fields that the file has only while the service has a TLS listener, the last one only with a proxy."""

log = structlog.get_logger("dev")


@dataclass(frozen=True, slots=True)
class NewPassword:
    """A generated password and its hash."""

    password: str = field(repr=False)
    password_hash: str = field(repr=False)


async def spare_password(file: Path) -> NewPassword | None:
    """Generate and hash a password unless the file has one. Hashing is the slowest part of a first start."""
    return await _new_password() if "password" not in _within(_read(file), "seller") else None


async def _new_password() -> NewPassword:
    password = new_password()
    return NewPassword(password, await passwords.hash_password(password))


@dataclass(frozen=True, slots=True)
class CredentialsFile:
    """Creates the credentials of the demo data and writes them to the file."""

    database: Database
    keys: Keys
    settings: Settings
    demo: Demo | None
    """None for `--bare`: the file has the operator's token alone."""
    base_url: str
    now_ms: int
    spare_password: Awaitable[NewPassword | None]
    secure: Https | None = None
    proxy: ProxyAccess | None = None
    console_key: str = field(default_factory=lambda: new_hex(160), repr=False)
    """The key of the link to the console, for this run of the service."""

    async def refresh(self, file: Path) -> str:
        """Update the file and return the id of the demo operator. Raises `StartRefused` if it cannot be written."""
        previous = _read(file)
        # Concurrent, so that they share their commits.
        of_demo, (operator_id, operator) = await asyncio.gather(
            self._of_demo(previous),
            demo_operator.find_or_create(
                self.database, _within(previous, "operator"), self.now_ms, with_password=self.demo is not None
            ),
        )
        # Last: programs that search the file for a name find the fields of the other application first.
        last = {name: of_demo.pop(name) for name in ("test_application",) if name in of_demo}
        console_url = ConsoleKey(operator_id, self.console_key).url(self.settings.operator_url)
        own = {"operator": operator, "console_url": console_url}
        document = {"base_url": self.base_url, **self._https(), **of_demo, **own, **last}
        # Read again: a command may have written fields of its own since.
        _write_changed(file, _read(file), document, removed=HTTPS_FIELDS)
        return operator_id

    async def _of_demo(self, previous: Mapping[str, Any]) -> Document:
        """Return the fields of the demo data, empty without it."""
        demo = self.demo
        if demo is None:
            return {}
        secret, test_secret, password, test, live, webhook_secret = await asyncio.gather(
            self._client_secret(demo.application, previous.get("client_secret")),
            self._client_secret(demo.test_application, _within(previous, "test_application").get("client_secret")),
            self._password(demo.seller, _within(previous, "seller").get("password")),
            self._tokens(demo, _within(previous, "test"), live=False),
            self._tokens(demo, _within(previous, "live"), live=True),
            self._webhook_secret(demo),
        )
        return {
            "client_id": str(demo.application.application_id),
            "client_secret": secret,
            "redirect_uri": self.base_url + CALLBACK,
            "seller": {"user_id": demo.seller.seller_id, "email": demo.seller.email, "password": password},
            "test": test,
            "live": live,
            "terminals": [
                {
                    "id": terminal.terminal_id,
                    "operating_mode": terminal.operating_mode,
                    "script": terminal.script,
                    "page_url": page_url(self.settings.public_url or self.base_url, self.keys, terminal.terminal_id),
                }
                for terminal in demo.terminals
            ],
            "webhook": {"url": self.base_url + INBOX, "secret": webhook_secret, "inbox_url": self.base_url + INBOX},
            "test_application": {
                "client_id": str(demo.test_application.application_id),
                "client_secret": test_secret,
                "redirect_uri": self.base_url + CALLBACK,
            },
        }

    def _https(self) -> Document:
        if self.secure is None:
            return {}
        return {
            "tls_base_url": self.secure.base_url,
            "ca_file": str(self.secure.ca_file),
            "ca_bundle_file": str(self.secure.ca_bundle_file),
            **({"proxy_url": self.proxy.url} if self.proxy is not None else {}),
        }

    async def renew_tokens(self, file: Path) -> bool:
        """Replace the tokens in the file that are no longer valid; return whether there were any.

        Raises `StartRefused` if the file cannot be written.
        """
        if (demo := self.demo) is None:
            return False
        previous = _read(file)
        test, live = await asyncio.gather(
            self._tokens(demo, _within(previous, "test"), live=False),
            self._tokens(demo, _within(previous, "live"), live=True),
        )
        return _write_changed(file, previous, {"test": test, "live": live})

    async def _client_secret(self, application: Application, previous: Any) -> str:
        client_id, now_ms = application.application_id, self.now_ms

        async def work(tx: Transaction) -> str:
            if isinstance(previous, str) and not isinstance(
                await authentication.authenticate(tx, str(client_id), previous, now_ms), Refusal
            ):
                return previous
            _, secret = await applications.add_secret(tx, client_id, now_ms)
            return secret.reveal()

        return await self.database.write(work)

    async def _password(self, seller: Seller, previous: Any) -> str:
        account = await self.database.read(lambda tx: SELLERS.find(tx, seller.email))
        assert account is not None, "the demo seller exists"
        if isinstance(previous, str) and await passwords.verify_password(account.password_hash, previous):
            return previous
        new = await self.spare_password or await _new_password()
        seller_id, now_ms = seller.seller_id, self.now_ms
        await self.database.write(lambda tx: SELLERS.set_password(tx, seller_id, new.password_hash, now_ms))
        return new.password

    async def _tokens(self, demo: Demo, previous: Mapping[str, Any], *, live: bool) -> Document:
        token, refresh_token = previous.get("access_token"), previous.get("refresh_token")
        seller_id, application_id = demo.seller.seller_id, demo.application.application_id
        if (
            isinstance(refresh_token, str)
            and isinstance(token, str)
            and tokens.seller_of_access_token(token) == seller_id
            and (row := await self.database.read(lambda tx: bearer.find(tx, seller_id, digest(token)))) is not None
            and row.refusal(self.now_ms) is None
            and (row.application_id, bool(row.live)) == (application_id, live)
        ):
            return {"access_token": token, "refresh_token": refresh_token}
        lifetimes = Lifetimes(self.settings.access_token_lifetime_seconds, self.settings.refresh_token_lifetime_seconds)
        pair = await self.database.write(
            lambda tx: authorizations.mint_family(
                tx,
                self.keys,
                application_id=application_id,
                seller_id=seller_id,
                scope=demo.application.scopes,
                live=live,
                now_ms=self.now_ms,
                lifetimes=lifetimes,
            )
        )
        return {"access_token": pair.access_token, "refresh_token": pair.refresh_token}

    async def _webhook_secret(self, demo: Demo) -> str:
        """Return the primary secret of the subscription to the demo inbox."""
        primary = demo.subscription
        valid = await self.database.read(lambda tx: subscriptions.secrets(tx, primary.subscription_id))
        current = next(secret for secret in valid if secret.generation == primary.secret_generation)
        return current.derive(self.keys).reveal()


class LiveCredentials:
    """The credentials file of the running service, whose tokens follow its clock."""

    def __init__(self, credentials: CredentialsFile, file: Path, clock: Clock) -> None:
        self._credentials, self._file, self._clock = credentials, file, clock
        self._lock = asyncio.Lock()

    def document(self) -> Mapping[str, Any]:
        """Return the content of the file."""
        return _read(self._file)

    def texts(self) -> set[str]:
        """Return every text in the file; its tokens are among them."""
        return set(_texts(_read(self._file)))

    async def renew(self) -> str | None:
        """Write new tokens if those in the file are no longer valid; return the file's path then, else None."""
        async with self._lock:
            current = replace(self._credentials, now_ms=self._clock.now_ms())
            try:
                renewed = await current.renew_tokens(self._file)
            except StartRefused as error:
                log.warning("credentials_not_written", file=str(self._file), reason=str(error))
                return None
        return str(self._file.absolute()) if renewed else None


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _texts(one)


def _merged(previous: Any, written: Any) -> Any:
    """Return what is written, with the fields of `previous` that it does not have, also in nested objects."""
    if not isinstance(previous, dict) or not isinstance(written, dict):
        return written
    return {**previous, **{name: _merged(previous.get(name), value) for name, value in written.items()}}


def _write_changed(
    file: Path, previous: Mapping[str, Any], document: Document, *, removed: Collection[str] = ()
) -> bool:
    """Write the document with the other fields of the file but `removed`; return whether that changes it.

    The file is replaced atomically, readable only by its owner. Raises `StartRefused` if it cannot be written.
    """
    kept = {name: value for name, value in previous.items() if name not in removed}
    merged = _merged(kept, document)
    if merged == previous:
        return False
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        atomic_file.replace(file, f"{json.dumps(merged, indent=2)}\n".encode())
    except OSError as error:
        raise StartRefused(
            f"{file} cannot be written: {error.strerror}. Choose another file with --credentials."
        ) from None
    return True


def _read(file: Path) -> Mapping[str, Any]:
    """Return the file's JSON object, empty if the file is missing or invalid."""
    try:
        document = json.loads(file.read_text())
    except (OSError, ValueError):
        return {}
    return document if isinstance(document, dict) else {}


def _within(document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = document.get(name)
    return value if isinstance(value, dict) else {}
