"""Run `paydesk …` in the test's process, which is faster than a new interpreter."""

from __future__ import annotations

import io
import json
import os
import socketserver
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from kept_logging import kept_logging
from paydesk.commands import cli

STUB = """#!{python} -ISE
import json, socket, sys
with socket.create_connection({address}) as service, service.makefile("rw") as stream:
    stream.write(json.dumps(sys.argv[1:]) + "\\n")
    stream.flush()
    code, out, errors = json.loads(stream.readline())
sys.stdout.write(out)
sys.stderr.write(errors)
sys.exit(code)
"""


def command(*arguments: str, folder: Path, stdin: str = "", **variables: str) -> subprocess.CompletedProcess[str]:
    """Run `paydesk …` in `folder`; of the PAYDESK_* environment only `variables` are set."""
    out, err = io.StringIO(), io.StringIO()
    with kept_logging(), pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        for name in filter(lambda name: name.startswith("PAYDESK_"), tuple(os.environ)):
            patch.delenv(name)
        for name, value in {"NO_COLOR": "1", "COLUMNS": "120", **variables}.items():
            patch.setenv(name, value)
        patch.setattr(sys, "argv", ["paydesk", *arguments])
        patch.setattr(sys, "stdin", io.StringIO(stdin))
        patch.chdir(folder)
        try:
            cli.main()
            code = 0
        except SystemExit as end:
            code = int(end.code or 0)
    return subprocess.CompletedProcess(["paydesk", *arguments], code, out.getvalue(), err.getvalue())


@contextmanager
def paydesk_on_path(folder: Path) -> Iterator[str]:
    """Yield a PATH whose `paydesk`, in `folder/.venv/bin`, runs in this process: a script's twenty would take 10 s."""

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            ended = command(*json.loads(self.rfile.readline()), folder=folder)
            self.wfile.write(json.dumps([ended.returncode, ended.stdout, ended.stderr]).encode() + b"\n")

    stub = folder / ".venv" / "bin" / "paydesk"
    stub.parent.mkdir(parents=True)
    with socketserver.TCPServer(("127.0.0.1", 0), Handler) as server:
        stub.write_text(STUB.format(python=sys.executable, address=server.server_address))
        stub.chmod(0o700)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield f"{stub.parent}{os.pathsep}{os.environ['PATH']}"
        finally:
            server.shutdown()
            thread.join()
