"""The official clients, unmodified, make a whole payment over https with the certificate of `paydesk dev --tls`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import node_clients
from conftest import first_and_others
from paydesk_process import Dev, credentials, dev
from service import order_body

CALL_SECONDS_MAX = 60
PAID_SECONDS_MAX = 30

ON_PYTHON = """
import json, sys
import mercadopago
from mercadopago.config.config import Config

given = json.loads(sys.stdin.read())
Config._Config__api_base_url = given["baseUrl"]
print(json.dumps(getattr(mercadopago.SDK(given["accessToken"]).order(), given["method"])(*given["given"])["response"]))
"""

Call = Callable[..., Any]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dev]:
    """A running `paydesk dev --tls`."""
    with dev(tmp_path_factory.mktemp("dev"), "--tls") as service:
        yield service


def on_python(found: dict[str, Any], variables: dict[str, str], method: str, *given: Any) -> Any:
    """Return what a method of the official Python client returns."""
    asked = {"baseUrl": found["tls_base_url"], "accessToken": found["test"]["access_token"]}
    return _answer([sys.executable, "-c", ON_PYTHON], {**asked, "method": method, "given": given}, variables)


def on_node(found: dict[str, Any], variables: dict[str, str], method: str, *given: Any) -> Any:
    """Return what a method of the official Node client returns."""
    node_clients.require()
    asked = {"baseUrl": found["tls_base_url"], "name": "Order", "accessToken": found["test"]["access_token"]}
    named = {"create": "body", "get": "id"}[method]
    return _answer(["node", "call.mjs"], {**asked, "method": method, "given": {named: given[0]}}, variables)


def _answer(program: list[str], asked: dict[str, Any], variables: dict[str, str]) -> Any:
    clean = {name: value for name, value in os.environ.items() if not name.endswith(("CA_BUNDLE", "_CERTS"))}
    ended = subprocess.run(
        program,
        cwd=node_clients.FOLDER,
        env={**clean, **variables},
        input=json.dumps(asked) + "\n",
        capture_output=True,
        text=True,
        timeout=CALL_SECONDS_MAX,
        check=False,
    )
    if ended.returncode:
        return {"failure": ended.stderr}
    return json.loads(ended.stdout)


@pytest.mark.parametrize(("call", "variable"), [(on_python, "REQUESTS_CA_BUNDLE"), (on_node, "NODE_EXTRA_CA_CERTS")])
def test_an_official_client_takes_a_payment_over_https(service: Dev, call: Call, variable: str) -> None:
    """It trusts the certificate by a variable, creates an order, and reads it until it is paid."""
    found = credentials(service.folder)
    variables = {variable: found["ca_file"]}
    order = call(
        found, variables, "create", order_body(found["terminals"][0]["id"], external_reference=uuid.uuid4().hex)
    )
    assert order.get("status") == "created", order
    until = time.monotonic() + PAID_SECONDS_MAX
    while order["status"] != "processed" and time.monotonic() < until:
        time.sleep(0.5)
        order = call(found, variables, "get", order["id"])
    (payment,) = order["transactions"]["payments"]
    assert (order["status"], payment["paid_amount"], order["live_mode"]) == ("processed", "24.90", False)


@pytest.mark.parametrize("call", first_and_others(on_python, on_node))
def test_an_official_client_without_the_certificate_refuses(service: Dev, call: Call) -> None:
    """Nothing arrives at the service, and its log says why."""
    found = credentials(service.folder)
    answer = call(found, {}, "get", "ORD01J67CQQH5904WDBVZEM4JMEP3")
    assert "fetch failed" in str(answer) or "CERTIFICATE_VERIFY_FAILED" in str(answer)
    assert any("tls_handshake_failed" in line for line in service.errors)
