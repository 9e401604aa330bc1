"""The pages that are read off the settings: all of them, and those that limit how often somebody may call."""

from __future__ import annotations

from typing import Any

from paydesk.docs.tables import table
from paydesk.events.readers import WAITING_PER_TOKEN_MAX
from paydesk.oauth.consent.passwords import THREADS
from paydesk.oauth.consent.sessions import USE_EVERY_MS
from paydesk.oauth.pages.applications import LISTED_MAX
from paydesk.operators.schemas import PASSWORD_CHARACTERS_MAX, PASSWORD_CHARACTERS_MIN
from paydesk.settings import PREFIX, THROTTLES, Settings

_FIELDS = Settings.model_fields

_SETTINGS_HEAD = """\
# Settings

<!-- Written by `make generate` from `settings.py`; changes made here are lost. -->

A setting is a variable of the environment, or a name in the TOML file that `PAYDESK_SETTINGS` points to; the
environment wins. Lists are comma-separated in the environment. A setting that is wrong or unknown stops the start
and is named."""

_LIMITS_HEAD = """\
# Limits

<!-- Written by `make generate` from `settings.py` and `docs/settings.py`; changes made here are lost. -->

How often one may call, and how often one may fail to say who one is. Whoever goes beyond is answered 429 with
`Retry-After`, the whole seconds after which there is room again; nothing was done, and the same request may be sent
then. Every limit is a [setting](settings.md) and 0 turns it off. A limit lets its burst through at once, or its number
where it has none, and then one after the other, as many as the number in its time."""

_LIMITS_TAIL = f"""\
## What is counted

- Limits are a node's own, kept in memory: with four processes a client may call four times as often.
- An address is an IPv4 address or the /64 that an IPv6 subscriber has. Behind a proxy set `trusted_proxies`: otherwise
  all clients are one address, the proxy's, and fail together.
- A refusal uses nothing up: to hammer makes the wait no longer.
- The tables are bounded. Where one is full the entry goes that is nearest to being unused, so a flood of addresses
  makes nobody wait.
- `paydesk dev` throttles failures alone, unless the settings say otherwise.

## Nobody is locked out by others

- A client that has authenticated from an address is not refused there for failures, its own or its neighbours', for
  `known_address_hours`; nodes tell each other. Its client_id is no secret, and junk with it costs the client nothing.
- A good access token is never refused for failures of the address it comes from. One that has expired or was revoked is
  told so, however many guesses come from beside it.
- A seller who signed in from an address, or with a browser, has a budget of their own there. What strangers try with
  the seller's e-mail address from elsewhere doesn't touch it. Unknown e-mail addresses count like known ones.
- What can be used up is `sign_in_failures_per_hour_email`: whoever tries from many addresses keeps a seller waiting who
  comes with a new browser from a new address, and nobody else. Without it passwords could be guessed from everywhere.

## What else has a bound

Of one access token at most {WAITING_PER_TOKEN_MAX} requests wait for events at `GET /v1/events`;
one more is answered 429.

At most {THREADS} passwords are compared at a time and a few wait; beyond that a sign-in is answered 503 at once,
those from unknown addresses first. A wrong password is answered on the half second of its try, a wrong client
secret on the hundredth, so that time says nothing about either. Bounds of requests and connections are among the
[settings](settings.md).

A seller's session ends `session_hours` after sign-in (default {_FIELDS["session_hours"].default}) and after
`session_idle_minutes` without use (default {_FIELDS["session_idle_minutes"].default}). Its last use is written at
most once in {USE_EVERY_MS // 1000} s.

A password has {PASSWORD_CHARACTERS_MIN} to {PASSWORD_CHARACTERS_MAX} characters and is compared with about
44,000 common ones, which takes a process about 2 MB and 20 ms the first time, and about 1 ms later.

The page of a seller's applications lists the newest {LISTED_MAX};
withdrawing all of a seller's authorizations is one transaction, however many there are."""


def page() -> str:
    """Every setting with its variable, its default and what it is for."""
    return "\n".join(
        [
            _SETTINGS_HEAD,
            "",
            *table(
                ("Setting", "Variable", "Default", "What it is for"),
                (
                    (f"`{name}`", f"`{PREFIX}{name.upper()}`", _shown(field.default), field.description or "")
                    for name, field in Settings.model_fields.items()
                ),
            ),
            "",
        ]
    )


def page_of_limits() -> str:
    """What is throttled, by how much, and who is not."""
    bursts = ("client_requests_burst", "token_requests_burst", "device_requests_burst")
    listed = {*THROTTLES, *bursts, "known_address_hours"}
    rows = (
        (f"`{name}`", _shown(field.default), str(field.description))
        for name, field in Settings.model_fields.items()
        if name in listed
    )
    described = table(("Setting", "Default", "What it limits"), rows)
    return "\n".join([_LIMITS_HEAD, "", *described, "", _LIMITS_TAIL, ""])


def _shown(default: Any) -> str:
    if default is None or default == ():
        return "none"
    return f"`{', '.join(map(str, default)) if isinstance(default, tuple) else default}`"
