"""The pages generated from the settings: all settings, and the rate limits."""

from __future__ import annotations

from typing import Any

from paydesk.engine.events.readers import WAITING_PER_TOKEN_MAX
from paydesk.engine.oauth.pages.applications import LISTED_MAX
from paydesk.engine.printing.schemas import BODY_BYTES_MAX
from paydesk.engine.sellers.accounts import USE_EVERY_MS
from paydesk.engine.sellers.passwords import THREADS
from paydesk.operators.schemas import PASSWORD_CHARACTERS_MAX, PASSWORD_CHARACTERS_MIN
from paydesk.platform.http.body import NAME_CHARACTERS_MAX, NUMBER_DIGITS_MAX
from paydesk.platform.http.large_bodies import BODIES_MAX, BODIES_OF_CALLER_MAX
from paydesk.platform.settings import PREFIX, THROTTLES, Settings, description
from tools.docs.markdown import page, table

_FIELDS = Settings.model_fields

_SETTINGS_HEAD = """\
# Settings

<!-- Written by `make generate` from `platform/settings.py`; do not edit. -->

A setting is an environment variable, or a name in the TOML file whose path is in `PAYDESK_SETTINGS`; the environment
takes precedence. Lists are comma-separated in the environment. An invalid or unknown setting prevents the start, with a
message that names it."""

_LIMITS_HEAD = """\
# Limits

<!-- Written by `make generate` from `platform/settings.py` and `tools/docs/settings.py`; do not edit. -->

Rate limits of requests and of failed authentications. A request over a limit gets 429 with `Retry-After` in whole
seconds; it has had no effect and can be repeated after that time. Every limit is a [setting](settings.md), and 0 turns
it off. Limits are token buckets: a burst is allowed at
once (without a burst setting, the limit itself), then requests at the rate of the limit."""

_LIMITS_TAIL = f"""\
## What is counted

- Limits apply per node and are kept in memory: with four nodes a client may send four times as many requests. Of a node
  with several processes (`--processes`) each has an equal part, at least one request at once, because it does not see
  the requests of the others. A client with few connections may reach only some of these parts: with eight processes a
  terminal that keeps its connection sends 5 of 40 requests at once, and a person may mistype a password 3 times of 30.
  Raise small limits on nodes with many processes.
- An application's requests for a seller count twice: for their token, and for all tokens of the application and seller.
- An address is an IPv4 address or an IPv6 /64. Behind a proxy set `trusted_proxies`: otherwise all clients have the
  address of the proxy and share its limits.
- A refused request does not count, so retrying too early does not lengthen the wait.
- A sign-in counts from its beginning, so that guesses at the same time can't pass a limit together. The right password
  takes the count back.
- The tables are bounded. A full table evicts the entry nearest to its full budget, so a flood of addresses delays no
  other client.
- `paydesk dev` limits only failures by default.

## Clients do not lock each other out

- A client that has authenticated from an address is not refused there because of failures, for `known_address_hours`.
  Nodes share these addresses. Requests with its client_id and a wrong secret do not affect it.
- A valid access token is never refused because of failures from its address. An expired or revoked one is reported as
  such, regardless of guesses from the same address.
- A seller who has signed in from an address or with a browser has a separate budget there, which attempts with the
  seller's e-mail from other addresses do not use. Unknown e-mail addresses count like known ones.
- Attempts from many addresses can exhaust `sign_in_failures_per_hour_email`. Then the seller cannot sign in with a new
  browser from a new address; known ones are not affected. Without this limit a password could be guessed from many
  addresses.

## Other limits

With one access token at most {WAITING_PER_TOKEN_MAX} requests wait for events at `GET /v1/events`;
a further one gets 429.

The body of a request has at most 64 KiB; of `POST /terminals/v1/actions`, which can have an image, at most
{BODY_BYTES_MAX:,} bytes. A process reads and handles at most {BODIES_MAX} bodies above 64 KiB at a time, and
{BODIES_OF_CALLER_MAX} of one access token; a further one gets 429.
The names in a body, of JSON or of a form, have at most {NAME_CHARACTERS_MAX} characters, and numbers in JSON at most \
{NUMBER_DIGITS_MAX} digits.

At most {THREADS} passwords are hashed at a time and a few requests wait; further sign-ins get 503 at once, those
of sellers at unknown addresses first. The response to a wrong password is sent at a multiple of half a second, to a
wrong client secret at a multiple of 10 ms, so that its duration reveals nothing. Limits of requests and connections
are [settings](settings.md).

A seller's session ends `session_hours` after sign-in (default {_FIELDS["session_hours"].default}) and after
`session_idle_minutes` without use (default {_FIELDS["session_idle_minutes"].default}). Its last use is written at
most once in {USE_EVERY_MS // 1000} s.

A password has {PASSWORD_CHARACTERS_MIN} to {PASSWORD_CHARACTERS_MAX} characters and must not be one of about
44,000 common ones. The first check in a process takes about 2 MB and 20 ms, later ones about 1 ms.

A seller's page of applications lists the newest {LISTED_MAX}.
Withdrawing all of a seller's authorizations is one transaction."""


def page_of_settings() -> str:
    """Return the page of all settings, with variable, default and description."""
    rows = (
        (f"`{name}`", f"`{PREFIX}{name.upper()}`", _default(field.default), description(name))
        for name, field in Settings.model_fields.items()
    )
    return page(_SETTINGS_HEAD, table(("Setting", "Variable", "Default", "Description"), rows))


def page_of_limits() -> str:
    """Return the page of rate limits."""
    bursts = {name for name in Settings.model_fields if name.endswith("_requests_burst")}
    listed = {*THROTTLES, *bursts, "known_address_hours"}
    rows = (
        (f"`{name}`", _default(field.default), description(name))
        for name, field in Settings.model_fields.items()
        if name in listed
    )
    return page(_LIMITS_HEAD, table(("Setting", "Default", "Limit"), rows), _LIMITS_TAIL)


def _default(default: Any) -> str:
    if default in (None, (), ""):
        return "none"
    return f"`{', '.join(map(str, default)) if isinstance(default, tuple) else default}`"
