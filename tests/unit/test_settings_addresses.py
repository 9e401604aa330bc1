"""The addresses of listeners and of proxies: IPv6 and networks are accepted, and what is neither is refused."""

from __future__ import annotations

import pytest

from paydesk.platform.http.request import is_trusted
from paydesk.platform.settings import Settings, SettingsError, load
from tables import each


@each("address", ["127.0.0.1:8377", "localhost:0", "0.0.0.0:65535", "[::]:8377", "[::1]:0", "[2001:db8::1]:443"])
def test_an_address_to_listen_on_is_accepted(address: str) -> None:
    """IPv6 addresses are in brackets."""
    assert Settings(listen=address, operator_listen=address).listen == address


@each(
    "address", ["8377", ":8377", "::1:8377", "[::1]", "[::1:8377", "[127.0.0.1]:1", "[host]:1", "host:65536", "host:x"]
)
def test_any_other_address_to_listen_on_is_refused(address: str) -> None:
    """The message has an example of each kind."""
    with pytest.raises(SettingsError, match=r"PAYDESK_LISTEN: must be host:port, such as .* or \[::\]:8377"):
        load({"PAYDESK_LISTEN": address})


@each(
    "proxies, address, trusted",
    [
        ("10.0.0.5", "10.0.0.5", True),
        ("10.0.0.5", "10.0.0.6", False),
        ("192.0.2.1, 10.0.0.0/8", "10.255.0.1", True),
        ("10.0.0.0/8", "11.0.0.1", False),
        ("10.0.0.0/8", "::1", False),
        ("fd00::/8", "fd12::1", True),
        ("2001:db8::5", "2001:db8::5", True),
        ("2001:db8::5", "2001:db8::6", False),
        ("0.0.0.0/0", "unknown", False),
        ("0.0.0.0/0", "", False),
    ],
)
def test_a_proxy_is_trusted_by_its_address_or_network(proxies: str, address: str, trusted: object) -> None:
    """Another address is a client, whatever it reports."""
    assert is_trusted(address, load({"PAYDESK_TRUSTED_PROXIES": proxies}).trusted_proxies) is trusted


@each("proxies", ["10.0.0.1/8", "10.0.0.0/33", "proxy.internal", "10.0.0.0-10.0.0.9"])
def test_what_is_no_network_is_refused(proxies: str) -> None:
    """A network whose address has bits beyond its length may be a typing error."""
    with pytest.raises(SettingsError, match=r"must be an IP address, or a network such as 10\.0\.0\.0/8"):
        load({"PAYDESK_TRUSTED_PROXIES": proxies})


def test_the_urls_of_databases_are_not_shown() -> None:
    """They have passwords."""
    with pytest.raises(SettingsError) as refused:
        load({"PAYDESK_DATABASE_LISTEN_URL": "mysql://paydesk:hunter2@db/paydesk"})
    assert "hunter2" not in str(refused.value)
