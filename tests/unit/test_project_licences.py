"""All run-time dependencies, direct and indirect, have permissive licences, those of the development kit too."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from tables import each

FREE = re.compile(
    r"\b(MIT(-0)?|MIT License|BSD|BSD-\d-Clause|0BSD|Apache|Apache-2\.0|PSF|PSF-2\.0|Python Software)\b", re.IGNORECASE
)
OTHERWISE = {
    "apsw": "any licence that the Open Source Initiative approves",
    "shellingham": "ISC, the two-clause BSD licence in fewer words; typer needs it",
}
"""Packages with a licence text of their own."""
_REQUIREMENT = re.compile(r"([A-Za-z0-9._-]+)\s*(?:\[[^\]]*\])?[^;]*(?:;(.*))?")


def _needed(name: str, seen: set[str]) -> set[str]:
    """Return the package and its dependencies on this platform, without extras."""
    name = re.sub(r"[-_.]+", "-", name).lower()
    if name in seen:
        return seen
    try:
        requirements = distribution(name).requires or []
    except PackageNotFoundError:
        return seen  # A requirement of another platform.
    seen.add(name)
    for requirement in requirements:
        match = _REQUIREMENT.match(requirement)
        assert match is not None, requirement
        if "extra ==" not in (match[2] or ""):
            _needed(match[1], seen)
    return seen


VENDOR = Path(__file__).parents[2] / "src" / "paydesk" / "platform" / "web" / "static" / "vendor"
_PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
DIRECT = ["paydesk-dev", *(re.split("[<>=]", text)[0] for text in _PROJECT["optional-dependencies"]["otel"])]
PACKAGES = sorted(set().union(*(_needed(name, set()) for name in DIRECT)) - {"paydesk", "paydesk-dev"})


def test_indirect_dependencies_are_included() -> None:
    """The check covers dependencies of dependencies."""
    assert {"starlette", "pydantic-core", "multidict", "click", "segno"} <= set(PACKAGES)
    assert {"opentelemetry-sdk", "protobuf"} <= set(PACKAGES)


@each("package", PACKAGES)
def test_licence_is_permissive(package: str) -> None:
    """MIT, BSD, Apache or PSF, or a name on the short list of other texts."""
    metadata = distribution(package).metadata
    stated = [metadata[field].partition("\n")[0] for field in ("License-Expression", "License") if field in metadata]
    classifiers = [text for text in metadata.get_all("Classifier", []) if text.startswith("License")]
    licence = " ".join(stated + classifiers)
    assert FREE.search(licence) or package in OTHERWISE, licence
    assert not re.search(r"\b(A?L?GPL|MPL|SSPL|BUSL)\b", licence, re.IGNORECASE), licence


def test_scripts_of_the_pages_have_permissive_licences() -> None:
    """The licence of each vendored package is permissive, and its text is beside its files."""
    for package in tomllib.loads((VENDOR / "vendored.toml").read_text()).values():
        assert FREE.fullmatch(package["license"])
        assert "Permission to use" in (VENDOR / package["license_file"]).read_text()
