"""The files that browsers load beside the pages: style sheets, icons and scripts, each at an address of its content."""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from importlib.resources import files

from paydesk.platform.operation import Answer, Call, Operation, Surface
from paydesk.platform.rows import Rows

PATH = "/pages/assets/"
SHARED = "paydesk.platform.web"
"""The package with the templates and assets that all pages share."""
CACHED_SECONDS = 365 * 24 * 3600
MEDIA_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
HEADERS = (
    ("cache-control", f"max-age={CACHED_SECONDS}, immutable"),
    ("x-content-type-options", "nosniff"),
)
_FOLDERS = ("static", "static/vendor")


@cache
def found(package: str) -> dict[str, bytes]:
    """Return the assets of `package` by name: the files in its `static` and `static/vendor` folders."""
    folders = [files(package).joinpath(folder) for folder in _FOLDERS]
    return {
        file.name: file.read_bytes()
        for folder in folders
        if folder.is_dir()
        for file in sorted(folder.iterdir(), key=lambda file: file.name)
        if _suffix(file.name) in MEDIA_TYPES
    }


@cache
def path_of(package: str, name: str) -> str:
    """Return the URL of an asset of `package`, or else of the shared ones; it changes with the content."""
    content = found(package).get(name) or found(SHARED)[name]
    return f"{PATH}{name}?v={sha256(content).hexdigest()[:12]}"


def operations(package: str, *, surface: Surface = "public", development: bool = False) -> tuple[Operation, ...]:
    """Return the operations that serve the assets of `package`, which browsers cache for a year."""
    rows = Rows(surface, PATH, transaction="none", is_constant=True, development=development)
    return tuple(_row(rows, name, content) for name, content in found(package).items())


def _row(rows: Rows, name: str, content: bytes) -> Operation:
    media_type = MEDIA_TYPES[_suffix(name)]
    answer = Answer(200, content, HEADERS, media_type)

    async def show(_: Call) -> Answer:
        return answer

    operation_name = f"pages_{name.replace('.', '_').replace('-', '_')}"
    return rows.get(name, operation_name, show, summary=f"Asset of the pages: {name}", media_type=media_type)


def _suffix(name: str) -> str:
    return name[name.rfind(".") :]
