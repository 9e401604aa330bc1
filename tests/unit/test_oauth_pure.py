"""Scopes and tokens: their formats, and what is refused."""

from __future__ import annotations

import re

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paydesk.core.errors import Refusal
from paydesk.core.ids import PUBLIC_KEY_PATTERN
from paydesk.core.keys import KeyMissing, Keys
from paydesk.core.response import schema_of
from paydesk.engine.oauth import scopes, tokens
from paydesk.engine.oauth.grants import narrow
from paydesk.engine.oauth.schemas import TokenAnswer, TokenRequest, token_answer
from paydesk.engine.oauth.scopes import SCOPES, ScopeError
from paydesk.engine.oauth.tokens import Generation, TokenFamily

KEYS = Keys(2, {1: b"a" * 32, 2: b"b" * 32})

some_scopes = st.lists(st.sampled_from(SCOPES), min_size=1, unique=True)
families = st.builds(
    TokenFamily,
    seller_id=st.integers(1_000_000_000, 9_999_999_999),
    family_id=st.binary(min_size=16, max_size=16),
    application_id=st.integers(10**15, 10**16 - 1),
    live=st.booleans(),
    scope=some_scopes.map(lambda names: scopes.canonical(" ".join(names))),
)
generations = st.builds(
    Generation,
    number=st.integers(1, 2**40),
    key_version=st.sampled_from([1, 2]),
    scope=st.just("read"),
    created_ms=st.integers(0, 4_000_000_000_000),
    expires_ms=st.integers(0, 4_000_000_000_000),
)


@given(some_scopes)
def test_scopes_are_written_in_alphabetical_order(names: list[str]) -> None:
    """Whatever their order in the request."""
    assert scopes.canonical(" ".join(names)) == " ".join(sorted(names))


@given(st.text(alphabet=st.sampled_from([*"raedwit_oflnc ", "\t", "\u00a0"])))
def test_a_scope_string_is_exact_or_refused(text: str) -> None:
    """Only known names, each once, with single spaces: nothing is trimmed."""
    try:
        written = scopes.canonical(text)
    except ScopeError:
        assert text.split(" ") != sorted(set(text.split(" ")) & set(SCOPES))
    else:
        assert written.split(" ") == sorted(text.split(" "))


@pytest.mark.parametrize(
    "text", ["", " ", " read", "read ", "read  write", "read read", "READ", "read,write", "read\t"]
)
def test_malformed_scopes_are_refused(text: str) -> None:
    """Repeated, unknown, or with an extra space."""
    with pytest.raises(ScopeError):
        scopes.canonical(text)


@given(some_scopes, some_scopes)
def test_a_scope_narrows_or_is_refused(granted: list[str], requested: list[str]) -> None:
    """The same scopes or fewer, never more."""
    of_grant = scopes.canonical(" ".join(granted))
    if set(requested) <= set(granted):
        assert narrow(of_grant, " ".join(requested)) == " ".join(sorted(requested))
    else:
        with pytest.raises(Refusal, match="scope is wider than granted"):
            narrow(of_grant, " ".join(requested))
    assert narrow(of_grant, None) == of_grant


@given(families, generations)
def test_tokens_have_their_format(family: TokenFamily, generation: Generation) -> None:
    """The prefix of the mode, the application, the hour, the secret part and the seller, as in the schema."""
    pair = tokens.derive(KEYS, family, generation)
    prefix = "APP_USR" if family.live else "TEST"
    assert re.fullmatch(
        rf"{prefix}-{family.application_id}-[0-9]{{6}}-[0-9a-f]{{32}}-{family.seller_id}", pair.access_token
    )
    assert tokens.seller_of_access_token(pair.access_token) == family.seller_id
    assert (pair.refresh_token is not None) == ("offline_access" in family.scope)
    if pair.refresh_token is not None:
        assert tokens.seller_of_code(pair.refresh_token) == family.seller_id
    assert pair == tokens.derive(KEYS, family, generation)
    public_key = tokens.new_public_key(live=family.live)
    answer = token_answer(pair, generation.scope, public_key, generation.created_ms)
    assert msgspec.convert(msgspec.to_builtins(answer), TokenAnswer) == answer


def test_every_input_of_the_derivation_changes_a_token() -> None:
    """Key version, mode, family and generation; access and refresh tokens are independent."""
    family = TokenFamily(1, b"c" * 16, 2, True, "offline_access")
    generation = Generation(1, 1, "offline_access", 0, 0)
    variants = [
        tokens.derive(KEYS, family, generation),
        tokens.derive(KEYS, TokenFamily(1, b"d" * 16, 2, True, "offline_access"), generation),
        tokens.derive(KEYS, TokenFamily(1, b"c" * 16, 2, False, "offline_access"), generation),
        tokens.derive(KEYS, TokenFamily(1, b"c" * 16, 3, True, "offline_access"), generation),
        tokens.derive(KEYS, family, Generation(2, 1, "offline_access", 0, 0)),
        tokens.derive(KEYS, family, Generation(1, 2, "offline_access", 0, 0)),
    ]
    secrets = [pair.access_token.split("-")[3] for pair in variants]
    secrets += [(pair.refresh_token or "").split("-")[1][:32] for pair in variants]
    assert len(set(secrets)) == len(secrets)


def test_a_missing_key_is_not_a_refusal() -> None:
    """It is an error of this node."""
    with pytest.raises(KeyMissing):
        tokens.derive(KEYS, TokenFamily(1, b"c" * 16, 2, True, "read"), Generation(1, 3, "read", 0, 0))


def test_codes_and_public_keys_have_their_format() -> None:
    """160 random bits and the seller; a prefix and a UUID of version 4."""
    assert re.fullmatch(r"TG-[0-9a-f]{40}-1160535239", tokens.new_code(1160535239))
    assert re.fullmatch(PUBLIC_KEY_PATTERN, tokens.new_public_key(live=False))
    assert tokens.new_code(1) != tokens.new_code(1)


@pytest.mark.parametrize(
    "text", ["", "APP_USR", "TG-1-1", "APP_USR-1-010203-" + "g" * 32 + "-1", "APP_USR-1-010203-" + "0" * 32 + "-1\n"]
)
def test_other_formats_are_no_tokens(text: str) -> None:
    """Similar strings are not accepted."""
    assert tokens.seller_of_access_token(text) is None
    assert tokens.seller_of_code(text) is None


def test_repr_shows_no_secrets() -> None:
    """Neither of a request nor of a pair of tokens."""
    request = TokenRequest(
        client_id="1", client_secret="hush", grant_type="x", code="hush", refresh_token="hush", code_verifier="h" * 43
    )
    assert "hush" not in repr(request)
    assert "h" * 43 not in repr(request)
    pair = tokens.derive(KEYS, TokenFamily(1, b"c" * 16, 2, True, "read"), Generation(1, 1, "read", 0, 0))
    assert pair.access_token not in repr(pair)


def test_the_schema_has_neither_defaults_nor_null() -> None:
    """A parameter is left out or has a value."""
    schema = TokenRequest.model_json_schema()
    assert "null" not in repr(schema)
    assert "default" not in repr(schema)
    for variant in schema["oneOf"]:
        assert variant["additionalProperties"] is False
        assert variant["properties"]["scope"]["type"] == "string"
    assert "null" not in repr(schema_of(TokenAnswer))
