"""What every request meets and every answer carries: unknown paths, content types, request ids."""

from __future__ import annotations

import uuid

from service import Service, order_body

ORDER = "/v1/orders/ORD01J67CQQH5904WDBVZEM4JMEP3"


async def test_unknown_paths_return_404(service: Service) -> None:
    """404 as JSON: another path, another version, a slash too many."""
    for path in ("//", "/v1", "/v2/orders", "/v1/orders/", "//v1/orders", "/V1/orders", f"{ORDER}/", f"{ORDER}/x"):
        reply = await service.request("GET", path)
        assert (reply.status, reply.code, reply.headers["content-type"]) == (404, "not_found", "application/json"), path


async def test_unsupported_methods_return_405(service: Service) -> None:
    """405 as JSON, with those that it takes; no token is asked for."""
    for method, path, allow in (
        ("PUT", "/v1/orders", "GET, POST"),
        ("DELETE", ORDER, "GET"),
        ("PUT", f"{ORDER}/cancel", "POST"),
        ("OPTIONS", "/terminals/v1/list", "GET"),
        ("POST", "/terminals/v1/setup", "PATCH"),
        ("GET", "/oauth/token", "POST"),
        ("MKCOL", "/v1/orders", "GET, POST"),
    ):
        reply = await service.request(method, path, token=None)
        assert (reply.status, reply.code, reply.headers["allow"]) == (405, "method_not_allowed", allow), path
        assert "access-control-allow-origin" not in reply.headers


async def test_request_ids(service: Service) -> None:
    """The caller's own comes back where it is well-formed; otherwise there is a new one."""
    for path in (ORDER, "/nowhere", "/oauth/token", "/openapi.json"):
        for sent in ("a", "Z" * 64, "0d5020ed-1af6-469c_x"):
            reply = await service.request("GET", path, headers={"X-Request-Id": sent})
            assert reply.headers.getall("x-request-id") == [sent]
        for sent in ("", "a" * 65, "a b", "a.b", "é", "a\tb"):
            answered = (await service.request("GET", path, headers={"X-Request-Id": sent})).headers["x-request-id"]
            assert uuid.UUID(answered).version == 4


async def test_content_types(service: Service) -> None:
    """JSON in UTF-8, however it is written; anything else, or nothing, is 415 where there is a body."""
    for content_type, status in (
        ("application/json", 201),
        ("APPLICATION/JSON", 201),
        ("application/json; charset=utf-8", 201),
        ('application/json;charset="UTF-8"', 201),
        ("application/json ; charset=utf8; x=y", 201),
        ("application/json; charset=latin-1", 415),
        ("application/json; charset=utf-16", 415),
        ("application/x-www-form-urlencoded", 415),
        ("text/json", 415),
        ("application/json, text/plain", 415),
        ("", 415),
    ):
        body = order_body((await service.terminal()).id)
        reply = await service.request("POST", "/v1/orders", body, headers={"Content-Type": content_type})
        assert reply.status == status, content_type
        assert status == 201 or reply.code == "unsupported_media_type"


async def test_the_content_type_of_an_empty_body_is_ignored(service: Service) -> None:
    """Without a body the header is not checked."""
    for content_type in ("", "text/plain", "application/json"):
        order_id = (await service.create(await service.terminal())).body["id"]
        reply = await service.cancel(order_id, headers={"Content-Type": content_type})
        assert reply.status == 200, content_type


async def test_a_compressed_body(service: Service) -> None:
    """No `Content-Encoding`, `identity` included, is taken: what is compressed has no bound."""
    terminal = await service.terminal()
    for encoding in ("gzip", "identity", "br"):
        headers = {"Content-Encoding": encoding, "Content-Type": "application/json"}
        reply = await service.request("POST", "/v1/orders", data=b"{}" + terminal.id.encode(), headers=headers)
        assert (reply.status, reply.code) == (415, "unsupported_media_type"), encoding


async def test_unknown_parameters_are_ignored(service: Service) -> None:
    """An unknown header or query parameter changes nothing."""
    reply = await service.request("GET", f"{ORDER}?a=1&a=2&%ff=%00&=", headers={"X-Whatever": "1"})
    assert (reply.status, reply.code) == (404, "order_not_found")


async def test_a_nul_character_is_refused(service: Service) -> None:
    """A NUL in a path or in the query is the caller's fault, on either database."""
    terminal = await service.terminal()
    device = await service.device(terminal)
    poll = await service.request("GET", "/device/v1/next?boot_id=%00", token=terminal.token)
    assert (poll.status, poll.code) == (400, "property_value")
    for path in ("ack", "results/7"):
        method = "POST" if path == "ack" else "PUT"
        url = f"/device/v1/leases/%00/{path}"
        reply = await service.request(method, url, {"boot_id": device.boot_id}, token=terminal.token, key=None)
        assert (reply.status, reply.code) == (404, "lease_not_found"), path


async def test_no_response_has_a_server_header(service: Service) -> None:
    """No header names the server software."""
    for path in (ORDER, "/nowhere"):
        assert not {"server", "x-powered-by"} & {name.lower() for name in (await service.request("GET", path)).headers}
