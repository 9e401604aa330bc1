"""Mask what must not be logged: tokens, codes and secrets by pattern or field name, card numbers by check digit.

Callers should not log such values at all; this is the safety net.
"""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Collection, Mapping, MutableMapping
from functools import lru_cache
from typing import Any
from urllib.parse import unquote_plus

from paydesk.core.text import card_numbers, harmless
from paydesk.core.text.card_numbers import MASK

_PAIRINGS = "operator/v1/pairings/"
_CONSONANTS = "[B-DF-HJ-NP-TV-XZb-df-hj-np-tv-xz]{4}"
_ARGON = r"\$?argon2id(?:\$|%24)[^\s\"']+"
"""A password as it is stored."""
_ARGON_HASH = re.compile(_ARGON)
# With any prefix, and also if its end is cut off.
_CREDENTIAL = re.compile(
    r"(APP_USR|TEST)-[0-9]+-[0-9]{6}-[0-9a-f]{1,32}(?:-[0-9]+)?"  # access tokens
    r"|(TG|PD[TOSL])-[0-9a-fA-F]{8,}(?:-[0-9]+)?"  # codes, tokens, operators' sessions and links
    r"|(whsec)_(?:[A-Za-z0-9+/_=-]|%[0-9A-Fa-f]{2}){8,}"  # webhook secrets
    rf"|{_CONSONANTS}-{_CONSONANTS}"  # user codes of a pairing: eight consonants
    rf"|(?<={_PAIRINGS})[^/\s\"]+"  # the same, however an operator has typed them
    r"|[0-9a-fA-F]{40,}"  # device codes and client secrets: 160 random bits or more
    rf"|{_ARGON}"
)
# The same in four quick searches: together they take a fifth of the time of one expression.
_PREFIX = re.compile("APP_USR-|TEST-|TG-|PD[TOSL]-|whsec_|argon2id")
_HEX = re.compile("[0-9a-fA-F]{40}")
AGENT_START_CHARACTERS = 400
"""Characters of a `User-Agent` that are searched: 200 are kept, and a long text would take long to mask."""
_USER_CODE = re.compile(f"-(?<={_CONSONANTS}-){_CONSONANTS}")
_SECRET_NAME = re.compile(
    r"(?:^|_)(?:password|secret|token|authorization|cookie|verifier|(?:user|device|authorization)_code"
    r"|(?:pan|card|cvv2?|cvc2?|cvn2?|cav2?|csc|cid|pvv|security|verification|pin|track_?[123]?)"
    r"_?(?:code|value|number|block|data|equivalent)|pan|cvv2?|cvc2?|cvn2?|cav2?|csc|cid|pvv|pin|track_?[123]?|57|5a)$"
)
# Other names of passwords and keys, in what other servers send.
_OTHER_SECRET_NAME = re.compile(
    r"(?:^|_)(?:api_?key|auth|bearer|clave|contrasena|contraseña|credentials?|hmac|jwt|pass(?:code|phrase|wd)?|pwd|senha)$"
)
# In a URL shorter names carry secrets too: `?key=`, `?code=`, `?sig=`.
_SECRET_PARAMETER = re.compile(
    r"(?:^|_)(?:(?:api|access|secret|private)?key|auth(?:token)?|bearer|code|credentials?|hmac|jwt"
    r"|pass(?:code|phrase|wd)?|pwd|sig|signature)$"
)
_PARAMETER = re.compile(r"[A-Za-z_$@][A-Za-z_$@.:\[\]-]{0,20}[0-9]{0,2}|[0-9]{1,2}")
_HUMP = re.compile("(?<=[a-z])(?=[A-Z])|(?<=[0-9])(?=[A-Z][a-z])")
# A name in JSON, within a string of JSON too, or in a form; and the value behind it, which may be cut off.
_NAMED = re.compile(
    r"""(?<!\\)\\*+"(?P<json>[^"\\]{1,64}+)\\*+"\s*:\s*|(?:^|(?<=[?&;\s]))(?P<form>[^=&;\s"]{1,64}+)="""
)
_JSON_VALUE = re.compile(r""""(?:[^"\\]|\\.)*+"?|\\+"[^"]*"?|[\[{].*|[^\s,}\]]*""", re.DOTALL)
_FORM_VALUE = re.compile(r"[^&;\s]*")
_ESCAPED = re.compile(r"\\u00(2[Dd]|3[0-9]|[46][1-9A-Fa-f]|5[Ff]|[57][0-9Aa])")
NAME_CHARACTERS_MAX = 64
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_PLAIN_NUMBERS = frozenset({"application_id", "client_id", "seller_id", "user_id"})


def carries_secret(text: str) -> bool:
    """Return whether anything in the text looks like a secret or a card number."""
    return (
        _PREFIX.search(text) is not None
        or _HEX.search(text) is not None
        or _USER_CODE.search(text) is not None
        or _PAIRINGS in text
        or card_numbers.could_carry(text)
    )


def is_secret_name(name: str) -> bool:
    """Return whether a field of this name carries a secret: `cardNumber`, `card-number` and `CARD_NUMBER` alike."""
    return _SECRET_NAME.search(_words(name)) is not None


def redacted_answer(text: str) -> str:
    """Return what another server answered as it may be kept: only values that are known to be harmless.

    The text may be JSON, a form or anything else, and may be cut off. An object or array under a secret name is removed
    with everything that follows it.
    """
    return _harmless(text, ())


def redacted_body(text: str, *, is_answer: bool = False) -> str:
    """Return a body of the interface as it may be kept: as `redacted_answer`, with the values of all its fields."""
    return _harmless(text, harmless.ANSWERED if is_answer else harmless.SENT)


def redacted_agent(text: str) -> str:
    """Return the start of a `User-Agent` as it may be kept: names and versions of programs and systems."""
    return _masked_agent(text[:AGENT_START_CHARACTERS])


@lru_cache(256)
def _masked_agent(text: str) -> str:
    """Return it masked; a client sends the same with each request."""
    return _without_secrets(harmless.masked(text), "")


def _harmless(text: str, names: Collection[str]) -> str:
    text = _ESCAPED.sub(lambda found: chr(int(found[1], 16)), text)
    # As a whole, before its harmless parts are kept.
    text = _ARGON_HASH.sub(MASK, text)
    kept, end = [], 0
    for named in _NAMED.finditer(text):
        name = named["json"] or named["form"]
        if named.start() >= end and (is_secret_name(name) or _OTHER_SECRET_NAME.search(_words(name))):
            value = (_FORM_VALUE if named["json"] is None else _JSON_VALUE).match(text, named.end())
            kept += [text[end : named.end()], MASK if named["json"] is None else f'"{MASK}"']
            end = value.end() if value is not None else named.end()
    return _without_secrets(harmless.masked("".join([*kept, text[end:]]), names), "")


def redacted_url(url: str) -> str:
    """Return the URL with credentials in it masked, and the values of parameters whose names are those of secrets.

    A name that is no word is masked too: a secret may have been sent in its place.
    """
    address, mark, query = url.partition("?")
    parameters = []
    for parameter in query.split("&"):
        name, equals, value = parameter.partition("=")
        plain = unquote_plus(name)
        is_secret = is_secret_name(plain) or _SECRET_PARAMETER.search(_words(plain)) is not None
        shown = name if not name or _PARAMETER.fullmatch(plain) else MASK
        parameters.append(f"{shown}{equals}{MASK if value and is_secret else value}")
    return _without_secrets(f"{address}{mark}{'&'.join(parameters)}", "")


def redacted(value: Any, name: str = "") -> Any:
    """Return the value with its secrets masked, as it may be logged under `name`."""
    if isinstance(value, str):
        return MASK if value and is_secret_name(name) else _without_secrets(value, name)
    if isinstance(value, Mapping):
        return {_without_secrets(str(key), ""): redacted(item, str(key)) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [redacted(item, name) for item in value]
    if isinstance(value, bytes | bytearray | memoryview):
        return f"<{len(value)} bytes>"
    if value is None or isinstance(value, int | float):
        # A float is checked without its fraction, whose digits are not a number.
        text = f"{value:.0f}" if isinstance(value, float) else str(value)
        return value if _without_secrets(text, name) == text else MASK
    return _without_secrets(str(value), name)


def redacted_name(name: str) -> str:
    """Return the name of a field of a request as an error may show it: masked, at most 64 characters, in ASCII.

    Any other name than one of letters, digits and underscores is in quotation marks, escaped as in JSON.
    """
    # A name may be a card number or a secret, so it is masked before it is truncated, and a long one before that.
    name = str(redacted(name[: 2 * NAME_CHARACTERS_MAX]))
    is_plain = len(name) <= NAME_CHARACTERS_MAX and _PLAIN_NAME.fullmatch(name)
    return name if is_plain else json.dumps(name[:NAME_CHARACTERS_MAX])


def redact(_logger: object, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Mask every value of the line: a processor of structlog."""
    return {name: redacted(value, name) for name, value in event.items()}


def _words(name: str) -> str:
    """Return the name in lower case with its words separated by underscores."""
    return _HUMP.sub("_", name).replace("-", "_").replace(".", "_").lower()


def _without_secrets(text: str, name: str) -> str:
    if len(text) < 9 or card_numbers.is_uuid(text):
        return text
    if name == "address" and _is_ip_address(text):
        return text
    text = _CREDENTIAL.sub(_prefix_and_mask, text)
    return text if name in _PLAIN_NUMBERS else card_numbers.masked(text)


def _is_ip_address(text: str) -> bool:
    """Return whether the text is an IP address or network, whose digits can look like a card number."""
    try:
        ipaddress.ip_interface(text)
    except ValueError:
        return False
    return "%" not in text


def _prefix_and_mask(match: re.Match[str]) -> str:
    prefix = next((group for group in match.groups() if group), "")
    return f"{prefix}-{MASK}" if prefix else MASK
