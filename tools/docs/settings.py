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
from paydesk.platform.settings import Settings, description
from tools.docs.markdown import page, table

_FIELDS = Settings.model_fields

_SETTINGS_HEAD = """\
# Settings

<!-- Written by `make generate` from `platform/settings.py`; do not edit. -->

A setting is a name in the TOML file whose path is in `PAYDESK_SETTINGS`, or an environment variable: `PAYDESK_` and the
name in capitals, such as `PAYDESK_DATABASE_URL`, which takes precedence. Lists are comma-separated there. An invalid or
unknown setting prevents the start, with a message that names it. 0 turns a rate limit off.
`serve` needs `public_url`; see to `operator_public_url`, `database_url`, `keys_file`, `trusted_proxies`,
`acquirers_file` and `metrics_token` too."""

_LIMITS_HEAD = """\
# Limits

<!-- Written by `make generate` from `platform/settings.py` and `tools/docs/settings.py`; do not edit. -->

A request over a rate limit gets 429 with `Retry-After` in whole seconds; it has had no effect. Each limit is a
[setting](settings.md), and 0 turns it off. Limits are token buckets: a burst at
once, by default the limit itself, then the rate."""

_LIMITS_TAIL = f"""\
## What is counted

- Limits apply per node. Of a node with several processes (`--processes`) each has an equal part, at least one request:
  with eight processes a terminal that keeps its connection sends 5 of 40 requests at once. Raise small limits there.
- An application's request counts for its token (`token_requests_per_second`) and for all its tokens of the seller
  (`application_requests_per_second`).
- An address is an IPv4 address or an IPv6 /64. Behind a proxy set `trusted_proxies`: otherwise all clients share the
  limits of the proxy's address.
- A refused request does not count. A sign-in counts from its beginning; the right password takes the count back.
- The tables are bounded. A full one evicts the entry nearest to its full budget, so a flood delays no other client.
- `paydesk dev` limits only failures by default.

## Clients do not lock each other out

- A client that has authenticated from an address is not refused there because of failures, for `known_address_hours`,
  on any node.
- A valid access token is never refused because of failures from its address.
- A seller who has signed in from an address or with a browser has a separate budget there. Unknown e-mail addresses
  count like known ones.
- Attempts from many addresses can exhaust `sign_in_failures_per_hour_email`: then the seller cannot sign in with a new
  browser from a new address. Without it a password could be guessed from many.

## Other limits

With one access token at most {WAITING_PER_TOKEN_MAX} requests wait for events at `GET /v1/events`.

The body of a request has at most 64 KiB; of `POST /terminals/v1/actions`, which can have an image, at most
{BODY_BYTES_MAX:,} bytes. A process handles at most {BODIES_MAX} bodies above 64 KiB at a time, and
{BODIES_OF_CALLER_MAX} of one access token. More get 429. Names in a body have at most {NAME_CHARACTERS_MAX} characters,
numbers in JSON at most {NUMBER_DIGITS_MAX} digits.

At most {THREADS} passwords are hashed at a time; when a few more wait, sign-ins get 503, those at unknown addresses
first. A wrong password is answered at a multiple of half a second, a wrong client secret at one of 10 ms, so that the
duration reveals nothing.

A session ends `session_hours` after sign-in (default {_FIELDS["session_hours"].default}) and after
`session_idle_minutes` without use (default {_FIELDS["session_idle_minutes"].default}), which is written at most once in
{USE_EVERY_MS // 1000} s.

A password has {PASSWORD_CHARACTERS_MIN} to {PASSWORD_CHARACTERS_MAX} characters and must not be one of about
44,000 common ones. A seller's page of applications lists the newest {LISTED_MAX}."""


def page_of_settings() -> str:
    """Return the page of all settings, with default and description."""
    rows = ((f"`{name}`", _default(field.default), description(name)) for name, field in Settings.model_fields.items())
    return page(_SETTINGS_HEAD, table(("Setting", "Default", "Description"), rows))


def page_of_limits() -> str:
    """Return the page of limits: what is counted, and those that are no settings."""
    return page(_LIMITS_HEAD, _LIMITS_TAIL)


def _default(default: Any) -> str:
    if default in (None, (), ""):
        return "none"
    return f"`{', '.join(map(str, default)) if isinstance(default, tuple) else default}`"
