"""Common passwords: listed words, and the usual ways to lengthen a word to twelve characters."""

from __future__ import annotations

import gzip
import subprocess
import sys
from importlib.resources import files

import pytest
from zxcvbn.frequency_lists import FREQUENCY_LISTS

from cost import Within, each_way
from paydesk.engine.sellers.common_passwords import has_few_letters, is_common
from paydesk.operators.accounts.credentials import new_password
from tables import each

MILLISECONDS_MAX = 50
LISTS = ("passwords", "female_names", "male_names", "surnames")


@each(
    "password",
    ["123qweasdzxc", "qwertyuiop12345", "PASSWORD1234", "p4$$w0rd!!!!", "$ecret123456", "passwordpassword",
     "abc123abc123", "Contraseña123", "Gabriel2024!", "2024-flamengo-2024", "abcdefghijkl", "zyxwvutsrqpo",
     "aaaaaaaaaaaa", "123456789012", "31/12/1999 31/12/1999", "............", "Passw0rd!Passw0rd!",
     "1Passw0rd!Passw0rd!", "password password", "Pa$$word, Pa$$word, Pa$$word", "senha--senha--senha",
     "paydeskpaydesk", "Paydesk2026!", "Pay-Desk 12/2026", "p4yd3sk-2026", "paydesk2025paydesk2026",
     "¡PAYDÉSK! paydesk"],
)  # fmt: skip
def test_a_common_password(password: str) -> None:
    """A listed word in any case, with digits, signs, accents, digits for letters, repeated, or a keyboard row.

    The name of the service is such a word.
    """
    assert is_common(password)


@pytest.mark.parametrize(
    "password",
    [
        "correct horse battery staple",
        "several words that are mine",
        "my paydesk on the corner",
        "o rato roeu a roupa",
        "bkqz-7tmw-x2ph",
        "пароль из нескольких слов",
        "パスワードを変えてください",
    ],
)
def test_a_password_that_is_not_common(password: str) -> None:
    """Several words, random characters, other scripts."""
    assert not is_common(password)


@pytest.mark.parametrize(
    ("password", "expected"),
    [("Xk7-9912-8831-0042", True), ("123456789012", True), ("Xkwq-9912-8831", False), ("abcabcabcabc", False)],
)
def test_letters_are_counted_without_digits_and_signs(password: str, expected: object) -> None:
    """Fewer than four are too few, at any position."""
    assert has_few_letters(password) is expected


def test_a_generated_password_is_not_common() -> None:
    """The passwords that the service generates are accepted, that of the demo seller included."""
    assert not any(is_common(new_password()) for _ in range(500))


@pytest.mark.parametrize("text", ["x", "4@8({[<369!1|7$5+%2", "ab", "password", "\N{ANGSTROM SIGN}é", "1", "\n", "a1$"])
@each_way
def test_no_password_takes_long(text: str, within: Within) -> None:
    """Also one of the maximum length; the list is loaded already."""
    is_common("a password that reads the list")
    within(MILLISECONDS_MAX, is_common, (text * 200)[:200])


def test_the_list_is_that_of_the_library() -> None:
    """The file is what `make generate` writes, with its licence beside it."""
    folder = files("paydesk.engine.sellers").joinpath("words")
    words = gzip.decompress(folder.joinpath("common.txt.gz").read_bytes()).decode().splitlines()
    assert words == sorted({word for name in LISTS for word in FREQUENCY_LISTS[name]})
    assert "Permission is hereby granted, free of charge" in folder.joinpath("LICENSE.txt").read_text()


def test_the_start_does_not_read_the_list() -> None:
    """Importing the service loads neither the list nor the library that it came from."""
    program = (
        "import sys, paydesk_dev.dev.service, paydesk.service.serve;"
        "from paydesk.engine.sellers import common_passwords as c;"
        "assert c._word_list.cache_info().currsize == 0; assert 'zxcvbn' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
