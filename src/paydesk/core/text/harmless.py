"""Mask in a text from outside all that is not known to be harmless.

Verification values, PINs, PIN blocks and magnetic stripes may come under any name and in any format. They have digits,
or are encoded. So words are kept; of all else only dates, ids of this service, versions, statuses and other values
whose form or name says what they are.
"""

from __future__ import annotations

import http
import re
from collections.abc import Collection, Mapping

from paydesk.core.text.card_numbers import MASK

SENT = frozenset({
    "action", "action_id", "active", "amount", "api_version", "app_version", "application_id", "boot_id",
    "capture_mode", "client_id", "content", "corporation_id", "country_code", "country_id", "created_date",
    "currency", "date_created", "default_installments", "default_type", "description", "done", "email",
    "entry_mode", "exp", "expiration_time", "expires_date", "expires_in", "external_pos_id", "external_reference",
    "first_digits", "go", "grant_type", "iat", "id", "installments", "installments_cost", "integrator_id",
    "interval", "iss", "last_digits", "last_seen_date", "last_step", "last_updated_date", "lease_id", "limit",
    "live_mode", "model", "next", "nickname", "offset", "operating_mode", "origin", "outcome", "paid_amount",
    "payer_condition", "payment_method_id", "payment_method_type", "platform_id", "pos_id", "presence", "print",
    "print_on_terminal", "processing_mode", "public_key", "redirect_uri", "reference_id", "refunded_amount",
    "scope", "screen_time", "seller_name", "sent", "seq", "serial", "since_date", "site_id", "status",
    "status_detail", "step", "store_id", "sub", "subtype", "tags", "terminal_id", "test_token", "ticket_number",
    "time", "tip_amount", "token_type", "token_type_hint", "total", "total_amount", "total_pages",
    "total_paid_amount", "transaction_id", "type", "until", "user_id", "verdict", "verification_uri", "version",
})  # fmt: skip
"""Names of the fields in requests of applications and terminals, and in notifications, whose values are texts, numbers
and the like, and no secrets. Objects are not among them: a text in place of one may be anything."""
ANSWERED = SENT | {"details", "error", "error_description", "message", "result_required"}
"""Names in answers to applications and terminals, with their errors."""

_NUMBER, _STATUS, _ID = re.compile("[0-9]{1,15}"), re.compile("[1-5][0-9]{2}"), re.compile("[A-Za-z0-9_.:-]{8,64}")
_AMOUNT, _EPOCH = re.compile(r"[0-9]{1,12}(?:\.[0-9]{1,2})?"), re.compile(r"1[0-9]{9}(?:\.[0-9]{1,6}|[0-9]{3})?")
_BY_NAME: Mapping[str, re.Pattern[str]] = {
    **dict.fromkeys(("status", "status_code", "http_status", "response_code"), _STATUS),
    **dict.fromkeys(("line", "column", "attempts", "retry_after", "duration_ms", "took_ms", "size", "length"), _NUMBER),
    **dict.fromkeys(("user_id", "application_id", "client_id", "seller_id", "store_id", "pos_id"), _NUMBER),
    **dict.fromkeys(("request_id", "trace_id", "span_id", "correlation_id", "x_request_id"), _ID),
    **dict.fromkeys(("amount", "total_amount", "paid_amount", "total_paid_amount", "refunded_amount"), _AMOUNT),
    **dict.fromkeys(("timestamp", "time", "ts", "webhook_timestamp"), _EPOCH),
    **dict.fromkeys(("content_length", "x_retry"), _NUMBER),
    "x_signature": re.compile("ts=1[0-9]{9},v1=[0-9a-f]{64}"),
}
"""Values with digits that are kept of any sender: the form of the value by the name of its field."""

# Letters and at most two digits behind each other, as in "track2" or "emv_57": a value can't pass for one.
_NAME = re.compile("[A-Za-z_.$@-]{1,40}[0-9]{0,2}[A-Za-z_.-]{0,24}|[0-9]{1,2}")
NAME_CHARACTERS_MAX = 64
_HUMP = re.compile("(?<=[a-z])(?=[A-Z])")

_WORD = re.compile(
    "[A-Za-z]?[a-z]*+|[A-Z]*+"  # "order", "Order", "ORDER"
    "|[A-Z]?[a-z]++(?:[A-Z]++[a-z]{3,}+)++"  # "orderNumber"
    "|[A-Z]++[a-z]{3,}+(?:[A-Z]++[a-z]{3,}+)*+"  # "JSONDecodeError"
    "|[A-Z][a-z]{3,}+[A-Z]{2,5}"  # "OpenSSL"
)
_HEX_LETTERS = re.compile("[A-Fa-f]{8,}")
_NAMES_OF_PROGRAMS = frozenset({
    "AppleWebKit", "WebKit", "X11", "aarch64", "amd64", "arm64", "armv7l", "armv8l", "i386", "i686", "iPad",
    "iPhone", "iPod", "iOS", "macOS", "OAuth", "MySQL", "x64", "x86", "Win32", "Win64", "WOW64", "UTF8", "utf8",
    "CriOS", "FxiOS", "CrOS",
})  # fmt: skip
_STATUSES = "|".join(f"{status.value}(?=[ :-]{{1,3}}(?-i:{re.escape(status.phrase)}))" for status in http.HTTPStatus)
_FORMS = (
    # A UUID of RFC 9562, an id of this service, a date with or without a time, a time, and the date of a header.
    "[0-9a-f]{8}-[0-9a-f]{4}-[1-8][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}",
    "(?:ORD|PAY|REF)[0-7][0-9A-HJKMNP-TV-Z]{25}",
    r"(?:19|20)[0-9]{2}-[01][0-9]-[0-3][0-9]"
    r"(?:[T ][0-2][0-9]:[0-5][0-9](?::[0-5][0-9](?:[.,][0-9]{1,6})?)?(?:Z|[+-][0-2][0-9]:?[0-5][0-9])?)?",
    "[0-2][0-9]:[0-5][0-9]:[0-5][0-9]",
    "[0-3]?[0-9] (?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) 20[0-9]{2}",
    # A status with its own phrase, or after HTTP.
    _STATUSES,
    r"(?:(?<=HTTP )|(?<=HTTP/1\.[01] )|(?<=HTTP/2 ))[1-5][0-9]{2}",
    # Versions: "v2", "shop/7", "nginx/1.18.0", and those of systems in a User-Agent.
    r"v[0-9]{1,2}(?:\.[0-9]{1,3}){0,3}",
    r"(?<=[a-z]/)(?:[0-9]{1,4}(?:\.[0-9]{1,4}){1,4}|[0-9]{1,2}(?!\.[0-9]))",
    r"(?<=rv:)[0-9]{1,3}\.[0-9]{1,2}",
    "(?<=Gecko/)20100101|(?<=x86_)64",
    r"(?:(?<=Android )|(?<=Windows NT )|(?<=Mac OS X )|(?<= OS ))[0-9]{1,2}(?:[._][0-9]{1,2}){0,2}",
    # A small number without others near it.
    r"(?<![0-9].)(?<![0-9]..)(?<![0-9]...)(?<![0-9]....)[0-9]{1,2}(?!.{0,4}[0-9])",
)
_RUN = re.compile(r'\\[bfnrt"\\/]|[^\W_]+')
"""A run of letters and digits; an escape of JSON, which is none, is skipped with its letter."""
_FORM = re.compile(rf"(?:{'|'.join(_FORMS)})(?![^\W_])", re.IGNORECASE | re.DOTALL)
_MASKS = re.compile(rf"{re.escape(MASK)}(?:[.:/+_-]?{re.escape(MASK)})+")

_JSON_NUMBER = "-?[0-9][0-9.eE+-]*+"
_JSON_SCALAR = rf'"(?:[^"\\]|\\.)*+"?|{_JSON_NUMBER}'
# A name in JSON with its value, if that is a scalar or begins an array of them; or a value of a form.
_FIELD = re.compile(
    rf'"(?<!\\")(?P<json>[^"\\]{{1,64}}+)"\s*+:\s*+(?P<value>{_JSON_SCALAR}|\[(?:\s*+(?:{_JSON_SCALAR})\s*+,?)++)?'
    r"|=(?P<sent>[^&;\s]*+)",
    re.DOTALL,
)
_BEFORE_NAME = re.compile(r'[=?&;\s"]')
_SCALAR, _DIGIT = re.compile(_JSON_SCALAR, re.DOTALL), re.compile("[0-9]")


def masked(text: str, names: Collection[str] = ()) -> str:
    """Return the text without what is not known to be harmless; values of fields with these names are kept.

    JSON stays JSON: a number is replaced by a text.
    """
    kept, end = [], 0
    for field in _FIELD.finditer(text):
        before, value = text[end : field.start()], field["value"] or field["sent"] or ""
        begin = field[0][: len(field[0]) - len(value)]
        name = field["json"]
        if name is None:
            name = _BEFORE_NAME.split(before[-NAME_CHARACTERS_MAX:])[-1]
            before, begin = before[: len(before) - len(name)], f"{name}{begin}"
        kept += [words(before), begin if _NAME.fullmatch(name) else words(begin)]
        if not _is_named_harmless(name, value, names):
            masked = words(value)
            is_container = field["json"] is not None and not value.startswith('"')
            value = _SCALAR.sub(_item, value) if is_container and masked != value else masked
        kept.append(value)
        end = field.end()
    return _MASKS.sub(MASK, "".join([*kept, words(text[end:])]))


def words(text: str) -> str:
    """Return free text, for example a `User-Agent`, without what is not known to be harmless."""
    kept, end = [], 0
    for run in _RUN.finditer(text):
        if run.start() >= end and run[0][0] != "\\" and not _is_word(run[0]):
            form = _FORM.match(text, run.start())
            kept += [text[end : run.start()], MASK if form is None else form[0]]
            end = run.end() if form is None else form.end()
    return _MASKS.sub(MASK, "".join([*kept, text[end:]])) if kept else text


def _is_named_harmless(name: str, value: str, names: Collection[str]) -> bool:
    if name in names:
        return True
    form = _BY_NAME.get(_HUMP.sub("_", name).replace("-", "_").lower())
    return form is not None and form.fullmatch(value.strip('"')) is not None


def _item(match: re.Match[str]) -> str:
    """Return a number, or a text of an array, that has something to mask: a value may be spread over all of them."""
    return match[0] if not _DIGIT.search(match[0]) and words(match[0]) == match[0] else f'"{MASK}"'


def _is_word(text: str) -> bool:
    if not text.isalpha():
        return text in _NAMES_OF_PROGRAMS
    if not text.isascii():
        return True
    return text in _NAMES_OF_PROGRAMS or (_WORD.fullmatch(text) is not None and _HEX_LETTERS.fullmatch(text) is None)
