"""Writes `sbom.cdx.json`, the CycloneDX bill of materials of the run-time dependencies; `--check` compares it.

Names, versions and hashes of Python packages come from `requirements.lock`, licences from the installed packages. If
this system does not install a package, its licence in the file is kept. Scripts of the pages come from `vendored.toml`.
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
LOCK, SBOM = ROOT / "requirements.lock", ROOT / "sbom.cdx.json"
VENDORED = ROOT / "src" / "paydesk" / "platform" / "web" / "static" / "vendor" / "vendored.toml"
SPEC_VERSION = "1.6"

_PIN = re.compile(r"(?P<name>[a-z0-9-]+)==(?P<version>\S+)(?: ; (?P<marker>.+?))? --hash")
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")
_CLASSIFIER = "License :: OSI Approved :: "

ANY_OSI = "any licence that the Open Source Initiative approves"
BY_NAME = {"apsw": ANY_OSI, "colorama": "BSD-3-Clause", "uvloop": "MIT OR Apache-2.0"}
"""Packages with a custom licence text, packages that not every system installs, and packages with two licences."""
SPDX = {
    "Apache 2.0": "Apache-2.0",
    "BSD License": "BSD-3-Clause",
    "ISC License": "ISC",
    "MIT License": "MIT",
}
"""Licence names that packages use instead of SPDX expressions."""


class Unknown(Exception):
    """The licence of a package is unknown; the message says what to do."""


def main(arguments: list[str]) -> int:
    """Write the file, or compare it with `--check`; return the exit code."""
    before = SBOM.read_text(encoding="utf-8") if SBOM.exists() else ""
    try:
        text = json.dumps(document(LOCK.read_text(encoding="utf-8"), before), indent=1) + "\n"
    except Unknown as error:
        print(error, file=sys.stderr)
        return 1
    if arguments == ["--check"] and text != before:
        print(f"{SBOM.name} does not match {LOCK.name} and {VENDORED.name}. Run `make sbom`.", file=sys.stderr)
        return 1
    if text != before:
        SBOM.write_text(text, encoding="utf-8")
    return 0


def document(lock: str, before: str) -> dict[str, Any]:
    """Return the bill of materials: the same for the same lock, so without a serial number or a time."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    licences = _licences(json.loads(before)["components"]) if before else {}
    return {
        "bomFormat": "CycloneDX",
        "specVersion": SPEC_VERSION,
        "version": 1,
        "metadata": {"component": _component("application", project["name"], project["version"], project["license"])},
        "components": [*_components(lock, licences), *_vendored()],
    }


def _components(lock: str, licences: dict[str, str]) -> Iterator[dict[str, Any]]:
    """Yield the packages of the lock, in its order."""
    for entry in re.split(r"\n(?=[a-z0-9])", lock):
        pin = _PIN.match(re.sub(r"[\s\\]+", " ", entry))
        if pin is None:
            raise Unknown(f"{LOCK.name}: no package with a version and a hash in {entry[:80]!r}; run `make lock`.")
        name, version = pin["name"], pin["version"]
        component = _component("library", name, version, _licence(name, version, licences))
        component["hashes"] = [{"alg": "SHA-256", "content": digest} for digest in sorted(_HASH.findall(entry))]
        if pin["marker"]:
            component["properties"] = [{"name": "python:marker", "value": pin["marker"]}]
        yield component


def _vendored() -> Iterator[dict[str, Any]]:
    """Yield the packages of which the service has copies in its pages, with the hashes of the copied files."""
    for name, package in tomllib.loads(VENDORED.read_text(encoding="utf-8")).items():
        component = _component("library", name, package["version"], package["license"], "npm")
        component["hashes"] = [{"alg": "SHA-256", "content": digest} for digest in sorted(package["sha256"].values())]
        yield component


def _component(kind: str, name: str, version: str, licence: str, registry: str = "pypi") -> dict[str, Any]:
    purl = f"pkg:{registry}/{name}@{version}"
    field: dict[str, Any] = {"license": {"name" if licence == ANY_OSI else "id": licence}}
    if " " in licence and licence != ANY_OSI:
        field = {"expression": licence}
    return {"type": kind, "bom-ref": purl, "name": name, "version": version, "purl": purl, "licenses": [field]}


def _licence(name: str, version: str, licences: dict[str, str]) -> str:
    """Return the SPDX licence of a package. Raises `Unknown`."""
    if name in BY_NAME:
        return BY_NAME[name]
    try:
        package = metadata(name)
    except PackageNotFoundError:
        package = None
    if package is None or package["Version"] != version:
        if name in licences:
            return licences[name]
        raise Unknown(f"{name} {version} is not installed and not in {SBOM.name}: add its licence to scripts/sbom.py.")
    classifiers = package.get_all("Classifier", [])
    classified = [text.removeprefix(_CLASSIFIER) for text in classifiers if text.startswith(_CLASSIFIER)]
    for text in (package["License-Expression"], (package["License"] or "").partition("\n")[0], *classified):
        if text:
            return SPDX.get(text, str(text))
    raise Unknown(f"{name} {version} states no licence: add it to scripts/sbom.py.")


def _licences(components: list[dict[str, Any]]) -> dict[str, str]:
    """Return the licences in the previous file, by package."""
    return {
        component["name"]: entry.get("expression") or entry["license"].get("id") or entry["license"]["name"]
        for component in components
        for entry in component["licenses"]
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
