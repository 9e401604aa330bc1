"""The proxies of `deploy/proxy` with the addresses, certificates and folders of a test."""

from __future__ import annotations

import os
import re
import shutil
import socket
import ssl
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from conftest import skip_unless_ci
from free_port import free_port
from waiting import wait_until

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "deploy/proxy"
UNPACKED = ROOT / ".venv/proxies"
"""Where `scripts/programs` unpacks Debian's packages, without installing them: that would start them."""
HOST = "pay.example.com"
NAMES = {"haproxy": "haproxy.cfg", "nginx": "nginx.conf", "caddy": "Caddyfile"}
NODES = (("10.0.0.11:8377", "10.0.0.11:8378"), ("10.0.0.12:8377", "10.0.0.12:8378"))
"""The addresses of the examples: of each node for clients and for operators."""


def program(name: str) -> str:
    """Return the path of a proxy."""
    folders = [UNPACKED / "usr/sbin", UNPACKED / "usr/bin", os.environ["PATH"], "/usr/sbin"]
    found = shutil.which(name, path=os.pathsep.join(map(str, folders)))
    return found or skip_unless_ci(f"{name} is missing: scripts/programs unpacks it on Debian.")


@dataclass
class Proxy:
    """A proxy that is configured for a test: its files are in `folder`."""

    name: str
    folder: Path
    port: int
    operators_port: int
    certificate: Path

    @property
    def url(self) -> str:
        """The address for clients."""
        return f"https://127.0.0.1:{self.port}"

    @property
    def trust(self) -> ssl.SSLContext:
        """The TLS of a client that trusts its certificate."""
        return ssl.create_default_context(cafile=self.certificate)

    def command(self, *, only_check: bool) -> list[str]:
        """Return the command that runs it in the foreground, or only parses its file."""
        file, found = str(self.folder / NAMES[self.name]), program(self.name)
        if self.name == "haproxy":
            return [found, "-c" if only_check else "-db", "-f", file]
        if self.name == "nginx":
            directives = "pid nginx.pid; error_log stderr;" + ("" if only_check else " daemon off;")
            return [
                found,
                *(["-t"] if only_check else []),
                "-e",
                "stderr",
                "-p",
                str(self.folder),
                "-c",
                file,
                "-g",
                directives,
            ]
        return [found, "validate" if only_check else "run", "--config", file, "--adapter", "caddyfile"]

    @property
    def environment(self) -> dict[str, str]:
        """The environment of its program."""
        libraries = next((str(path) for path in UNPACKED.glob("usr/lib/*-linux-gnu")), "")
        home = str(self.folder)
        return {
            **os.environ,
            "LD_LIBRARY_PATH": libraries,
            "HOME": home,
            "XDG_DATA_HOME": home,
            "XDG_CONFIG_HOME": home,
        }

    @contextmanager
    def running(self) -> Iterator[None]:
        """Run it until the end of the block."""
        log = self.folder / "proxy.log"
        with log.open("wb") as written:
            process = subprocess.Popen(
                self.command(only_check=False), stdout=written, stderr=written, cwd=self.folder, env=self.environment
            )
        try:
            wait_until(lambda: _listens(self.port) or process.poll() is not None)
            assert process.poll() is None, log.read_text()
            yield
        finally:
            process.terminate()
            process.wait()


def configured(
    name: str,
    folder: Path,
    certificate: tuple[Path, Path],
    nodes: Mapping[str, str] | None = None,
    change: Callable[[str], str] = lambda text: text,
) -> Proxy:
    """Write the example's file with the addresses of a test; `nodes` has those of the nodes by the example's."""
    proxy = Proxy(name, folder, free_port(), free_port(), certificate[0])
    text = change((EXAMPLES / NAMES[name]).read_text())
    for example, address in (nodes or {}).items():
        text = text.replace(example, address)
    both = folder / "both.pem"
    both.write_text("".join(path.read_text() for path in certificate))
    if name == "haproxy":
        # Each needs two open files, and a test has fewer.
        text = re.sub(r"\bmaxconn \d+", "maxconn 500", text)
        text = text.replace("bind :443", f"bind 127.0.0.1:{proxy.port}")
        text = re.sub(r"bind 10\S+:8443", f"bind 127.0.0.1:{proxy.operators_port}", text)
        text = re.sub(r"/etc/haproxy/\S+\.pem", str(both), text)
    elif name == "nginx":
        text = text.replace("listen 443", f"listen 127.0.0.1:{proxy.port}")
        text = re.sub(r"listen 10\S+:8443", f"listen 127.0.0.1:{proxy.operators_port}", text)
        text = re.sub(r"/etc/nginx/\S+\.pem", str(both), text)
        text = re.sub(r"/etc/nginx/\S+\.key", str(both), text)
        text = text.replace("/var/log/nginx/access.log", "access.log")
        paths = "".join(
            f"    {kind}_temp_path {kind};\n" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        text = ("user root;\n" if os.getuid() == 0 else "") + text.replace("http {\n", f"http {{\n{paths}", 1)
    else:
        tls = f"{{\n\ttls {both} {both}"
        text = text.replace("\n{\n", "\n{\n\tadmin off\n\tauto_https disable_redirects\n", 1)
        text = text.replace(f"\n{HOST} {{", f"\n{HOST}:{proxy.port}, localhost:{proxy.port} {tls}")
        text = text.replace(
            "console.example.com:8443 {\n\tbind 10.0.0.5", f"console.example.com:{proxy.operators_port} {tls}"
        )
    (folder / NAMES[name]).write_text(text)
    return proxy


def _listens(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port)):
        return True
    return False
