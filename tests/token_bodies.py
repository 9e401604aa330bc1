"""Random bodies for the token endpoints: valid ones with faults in fields, syntax or bytes.

The expected result is derived from the bytes by code that is independent of the service.
"""

from __future__ import annotations

import json
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

JSON = "application/json"
FORM = "application/x-www-form-urlencoded"
CONTENT_TYPES = (JSON, FORM, "application/json; charset=utf-8", "application/json; charset=utf-16",
                 f"{FORM}; charset=utf-8", "text/plain", "multipart/form-data; boundary=x",
                 "application/json, application/x-www-form-urlencoded", "")  # fmt: skip
PARAMETERS = ("client_id", "client_secret", "grant_type", "code", "redirect_uri", "code_verifier", "refresh_token",
              "scope", "test_token", "token", "token_type_hint")  # fmt: skip
ODD_NAMES = ("", "state", "Client_Id", "client_id ", "client_id[]", "__proto__", "grant\x00type", "\ud800",
             "\N{FULLWIDTH LATIN SMALL LETTER C}ode")  # fmt: skip
ODD_TEXTS = (
    "",
    " ",
    "\x00",
    "\ud800",
    "\udfff\ud800",
    "\ufeff",
    "null",
    "true",
    "%00",
    "%",
    "%zz",
    "+",
    "&",
    "=",
    "-",
    "TG-",
    "TG-" + "0" * 40 + "-1",
    "TG-" + "0" * 40 + "-" + "9" * 15,
    "TG-" + "0" * 40 + "-99999999999999999999",
    "APP_USR-1-010100-" + "0" * 32 + "-1",
    "read",
    "read write",
    "write  read",
    "offline_access read write",
    "admin",
    "refresh_token",
    "authorization_code",
    "client_credentials",
    "password",
    "https://till.example/callback",
    "https://till.example/callback#",
    "\N{FULLWIDTH DIGIT NINE}" * 16,
    "x" * 5000,
)
ODD_NUMBERS = (0, -1, 1, 2**53, 2**63, 2**64, 10**19, 10**20, 10**400, 0.5, -0.0, 1e300, 1e16)
LITERALS = (
    "1e999",
    "-1e999",
    "NaN",
    "Infinity",
    "1E400",
    "01",
    "0x1",
    "1.",
    ".5",
    "-",
    "1" * 21,
    "1" * 5000,
    "0." + "1" * 400,
)


@dataclass(frozen=True, slots=True)
class Sent:
    """What goes over the wire."""

    data: bytes
    content_type: str
    is_spoiled: bool
    """False for a right request as the interface describes it: it is owed its answer."""


Pairs = list[tuple[str, Any]]

_texts = st.one_of(
    st.sampled_from(ODD_TEXTS), st.text(max_size=60), st.text(st.characters(max_codepoint=255), max_size=8)
)
_scalars = st.one_of(_texts, st.sampled_from(ODD_NUMBERS), st.booleans(), st.none(), st.integers(), st.floats())
_values = st.recursive(
    _scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(_texts, inner, max_size=3)),
    max_leaves=6,
)
_names = st.one_of(st.sampled_from(PARAMETERS), st.sampled_from(ODD_NAMES), st.text(max_size=12))


@st.composite
def _spoiled_text(draw: st.DrawFn, text: str) -> str:
    """Something near a right value: cut, longer, in other letters, with something in it."""
    place = draw(st.integers(0, len(text)))
    return draw(
        st.sampled_from(
            (
                text[:place],
                text[place:],
                text[:place] + draw(_texts) + text[place:],
                text.upper(),
                text.swapcase(),
                f" {text}",
                f"{text} ",
                f"{text}\n",
                f"0{text}",
                text[::-1],
                text * 2,
            )
        )
    )


@st.composite
def _spoiled_pairs(draw: st.DrawFn, right: Mapping[str, Any], known: tuple[str, ...]) -> Pairs:
    """The parameters with up to three things changed; a name may be there twice. `known` are texts of this world."""
    pairs: Pairs = list(right.items())
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.integers(0, len(pairs) - 1)) if pairs else 0
        name, value = pairs[place] if pairs else ("client_id", "")
        other = draw(st.one_of(_values, st.sampled_from(known), _spoiled_text(str(value))))
        match draw(st.sampled_from(("value", "value", "add", "drop", "name", "twice", "swap", "number"))):
            case "value":
                pairs[place : place + 1] = [(name, other)]
            case "add":
                pairs.insert(place, (draw(_names), other))
            case "drop":
                del pairs[place : place + 1]
            case "name":
                pairs[place : place + 1] = [(draw(_names), value)]
            case "twice":
                pairs.append((name, draw(st.sampled_from((value, other)))))
            case "swap":
                values = draw(st.permutations([one for _, one in pairs]))
                pairs = [(one, mixed) for (one, _), mixed in zip(pairs, values, strict=True)]
            case "number" if isinstance(value, str) and value.isdecimal() and value.isascii():
                pairs[place : place + 1] = [(name, draw(st.sampled_from((int(value), float(value), int(value) + 1))))]
    return pairs


@st.composite
def _near_pairs(draw: st.DrawFn, right: Mapping[str, Any], tokens: tuple[str, ...]) -> Pairs:
    """The parameters with one text, not of the credentials: near to what it was, a token of this world, or left out."""
    further = ("scope", "redirect_uri", "test_token") if "grant_type" in right else ("token_type_hint",)
    name = draw(st.sampled_from([name for name in right if not name.startswith("client_")] * 2 + [*further]))
    how = draw(st.sampled_from(("token", "token", "token", "near", "near", "odd", "drop", "twice")))
    if how == "twice":
        return [*right.items(), (name, right.get(name, "read"))]
    pairs = dict(right)
    pairs.pop(name, None)
    texts = {"token": st.sampled_from(tokens), "near": _spoiled_text(str(right.get(name, ""))), "odd": _texts}
    return [*pairs.items(), *([(name, draw(texts[how]))] if how in texts else ())]


def as_json(pairs: Pairs, *, ascii_alone: bool = True) -> str:
    """The pairs as an object, each as often as it is there."""
    dump = json.JSONEncoder(ensure_ascii=ascii_alone).encode
    return "{" + ", ".join(f"{dump(name)}: {dump(value)}" for name, value in pairs) + "}"


def as_form(pairs: Pairs) -> str:
    """The pairs as a form; what is no text as JSON would write it."""
    texts = [(name, value if isinstance(value, str) else json.dumps(value)) for name, value in pairs]
    return urllib.parse.urlencode(texts, errors="surrogatepass")


@st.composite
def _encoded(draw: st.DrawFn, pairs: Pairs, content_type: str) -> bytes:
    if content_type.startswith(FORM):
        text = as_form(pairs)
        if draw(st.integers(0, 7)) == 0:
            text = urllib.parse.unquote_plus(text, errors="replace")
        return text.encode("utf-8", "surrogatepass")
    text = as_json(pairs, ascii_alone=draw(st.booleans()))
    if draw(st.integers(0, 7)) == 0:
        literal = draw(st.sampled_from(LITERALS))
        text = text[:-1] + f', "scope": {literal}' + "}" if draw(st.booleans()) else text.replace('"', literal, 1)
    encoding = draw(st.sampled_from(("utf-8",) * 20 + ("utf-16", "utf-16-le", "utf-32", "utf-8-sig", "utf-7")))
    return text.encode(encoding, "surrogatepass" if encoding != "utf-7" else "replace")


@st.composite
def _spoiled_bytes(draw: st.DrawFn, data: bytes) -> bytes:
    place = draw(st.integers(0, len(data)))
    depth = draw(st.sampled_from((1, 31, 32, 33, 1000, 20_000)))
    junk = draw(
        st.one_of(st.binary(max_size=12), st.sampled_from((b"\x00", b"\xff", b"\xed\xa0\x80", b"%", b"&", b'"')))
    )
    return draw(
        st.sampled_from(
            (
                data[:place],
                data[:place] + junk + data[place:],
                data[:place] + junk + data[place + len(junk) :],
                data + junk,
                junk + data,
                b"[" * depth + data + b"]" * depth,
                data[:-1] + b', "scope": ' + b"[" * depth + b"]" * depth + b"}",
                b'{"a":' * depth,
                data + b" " * 70_000,
                data + data,
            )
        )
    )


@st.composite
def _twisted(draw: st.DrawFn, right: Mapping[str, Any], content_type: str) -> bytes:
    """A right body, written so that a reader who is kind takes it, and one who is not looks twice."""
    pairs = list(right.items())
    text = as_form(pairs) if content_type == FORM else as_json(pairs)
    data, first = text.encode(), draw(st.sampled_from(pairs))
    again = as_form([first]) if content_type == FORM else as_json([first])[1:-1]
    return draw(
        st.sampled_from(
            (
                b"\xef\xbb\xbf" + data,
                text.encode("utf-16"),
                data + b"\x00",
                data + data,
                b"\n" + data + b"\n",
                data + f"&{again}".encode(),
                data[:-1] + f", {again}}}".encode(),
                data[:-1] + b", }",
                data.replace(b'"', b"'"),
                data.replace(b"&", b";"),
                data.replace(b"&", b"&&"),
                b"[" + data + b"]",
            )
        )
    )


@st.composite
def requests(draw: st.DrawFn, right: Mapping[str, Any], known: tuple[str, ...], tokens: tuple[str, ...]) -> Sent:
    """A request that is right, or was made of the right one."""
    ways = ("right", *["near"] * 5, "twist", "twist", "fields", "fields", "bytes", "both", "type", "noise")
    how = draw(st.sampled_from(ways))
    content_type = draw(st.sampled_from((JSON, FORM)))
    if how == "noise":
        return Sent(draw(st.binary(max_size=200)), draw(st.sampled_from(CONTENT_TYPES)), is_spoiled=True)
    pairs = list(right.items())
    if how in ("fields", "both"):
        pairs = draw(_spoiled_pairs(right, known))
    elif how == "near":
        pairs = draw(_near_pairs(right, tokens))
    if how in ("right", "near"):
        text = as_form(pairs) if content_type == FORM else as_json(pairs)
        return Sent(text.encode(), content_type, is_spoiled=how == "near")
    data = draw(_twisted(right, content_type) if how == "twist" else _encoded(pairs, content_type))
    if how in ("bytes", "both"):
        data = draw(_spoiled_bytes(data))
    if how == "type":
        content_type = draw(st.sampled_from(CONTENT_TYPES))
    return Sent(data, content_type, is_spoiled=True)


def plainly(sent: Sent) -> dict[str, Any] | None:
    """Return the object or form in these bytes, without repeated names, or None."""
    try:
        if sent.content_type.startswith(FORM):
            pairs = urllib.parse.parse_qsl(sent.data.decode(), keep_blank_values=True, errors="strict")
            return _once(pairs)
        read = json.loads(sent.data.decode(), object_pairs_hook=_once, parse_constant=_refused)
    except (ValueError, RecursionError):
        return None
    return read if isinstance(read, dict) else None


def _once(pairs: Pairs) -> dict[str, Any]:
    if len(dict(pairs)) < len(pairs):
        raise ValueError("a name is there twice")
    return dict(pairs)


def _refused(constant: str) -> None:
    raise ValueError(constant)
