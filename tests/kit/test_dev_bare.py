"""`paydesk dev --bare`: a service without demo data, whose credentials file has the operator's token alone."""

from __future__ import annotations

import json
import re
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from paydesk_process import credentials, dev, request


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Yield the folder of a running `paydesk dev --bare`."""
    path = tmp_path_factory.mktemp("bare")
    with dev(path, "--bare"):
        yield path


def test_the_credentials_are_the_operators_alone(folder: Path) -> None:
    """No seller, application or terminal is there; the link opens the console all the same."""
    found = credentials(folder)
    assert set(found) == {"base_url", "operator", "console_url"}
    assert set(found["operator"]) == {"token"}
    for noun in ("sellers", "applications", "terminals", "subscriptions"):
        status, body = request("GET", f"{found['base_url']}/operator/v1/{noun}", found["operator"]["token"])
        assert (status, body["data"]) == (200, []), noun
    with urllib.request.urlopen(found["console_url"], timeout=30) as page:  # noqa: S310 - to the test's own service
        assert page.status == 200


def test_a_scene_and_a_terminal_are_added_to_it(folder: Path) -> None:
    """The terminal of a scene takes orders at once, and the clock moves without tokens to renew."""
    found = credentials(folder)
    base_url, token = found["base_url"], found["operator"]["token"]
    status, scene = request("POST", f"{base_url}/dev/scenes", token, {})
    assert status == 201, scene
    test = scene["test"]["access_token"]
    status, terminal = request("POST", f"{base_url}/virtual/v1/terminals", test, {"script": "approve:0.05s"})
    assert (status, terminal["seller_id"]) == (201, scene["seller"]["user_id"])
    status, clock = request("POST", f"{base_url}/dev/clock", token, {"advance": "15m"})
    assert (status, "renewed_credentials" in clock) == (200, False)


def test_a_later_start_with_demo_data_goes_on_with_its_terminals(tmp_path: Path) -> None:
    """And a bare one after it adds and removes nothing."""
    with dev(tmp_path, "--bare"):
        pass
    with dev(tmp_path):
        before = credentials(tmp_path)
        assert len(before["terminals"]) == 4
    with dev(tmp_path, "--bare") as bare:
        found = credentials(tmp_path)
        assert found["operator"]["token"] == before["operator"]["token"]
        url = f"{found['base_url']}/virtual/v1/terminals"
        _, listed = request("GET", url, found["test"]["access_token"])
        assert {one["id"] for one in listed["data"]} == {one["id"] for one in before["terminals"]}
        assert [re.sub(" .*", "", line).strip() for line in bare.lines] == ["paydesk", "console"]
    assert json.loads((tmp_path / ".paydesk" / "credentials.json").read_text())["seller"] == before["seller"]
