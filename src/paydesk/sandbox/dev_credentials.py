"""What the development endpoints need of the credentials file, which `paydesk dev` writes."""

from __future__ import annotations

from typing import Protocol


class CredentialsFile(Protocol):
    """The credentials file of the running service."""

    def texts(self) -> set[str]:
        """Return every text in the file; its tokens are among them."""

    async def renew(self) -> str | None:
        """Write new tokens if those in the file are no longer valid; return the file's path then, else None."""
