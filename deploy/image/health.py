"""The health check of the image: exits with 0 if the service that runs in it is alive."""

from __future__ import annotations

import http.client
import sys

from paydesk.platform.settings import load

ANY_ADDRESS = {"0.0.0.0": "127.0.0.1", "[::]": "::1"}  # noqa: S104 - where a service listens that is asked here
SECONDS_MAX = 4

host, _, port = load().listen.rpartition(":")
connection = http.client.HTTPConnection(ANY_ADDRESS.get(host, host.strip("[]")), int(port), timeout=SECONDS_MAX)
connection.request("GET", "/livez")
sys.exit(connection.getresponse().status != http.client.OK)
