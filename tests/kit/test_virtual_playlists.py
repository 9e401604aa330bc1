"""Playlists of virtual terminals: lists of scripts, flaky networks, and the files that name them."""

from __future__ import annotations

from pathlib import Path

import pytest

from paydesk_dev.virtual.scripts import playlists
from paydesk_dev.virtual.scripts.playlists import Part, Playlist
from paydesk_dev.virtual.scripts.scripts import Script
from tables import each

APPROVE = Part(Script("approve"))


@pytest.mark.parametrize(
    ("text", "playlist"),
    [
        ("approve", Playlist((APPROVE,))),
        ("approve:0.2s@2s*3", Playlist((Part(Script("approve", "", 0.2), 3, 2.0),))),
        (
            "approve*3,decline:card_disabled:1s,cancel@0.5s",
            Playlist(
                (
                    Part(Script("approve"), 3),
                    Part(Script("decline", "card_disabled", 1)),
                    Part(Script("cancel"), 1, 0.5),
                )
            ),
        ),
        ("flaky", Playlist((APPROVE,), 0.05)),
        ("flaky:0.2", Playlist((APPROVE,), 0.2)),
        ("flaky:1", Playlist((APPROVE,), 1)),
        ("flaky:hold", Playlist((Part(Script("hold")),), 0.05)),
        (
            "flaky:0.1:approve:0.1s*2,ignore",
            Playlist((Part(Script("approve", "", 0.1), 2), Part(Script("ignore"))), 0.1),
        ),
    ],
)
def test_parses_every_form(text: str, playlist: Playlist) -> None:
    """The text of a playlist is parsed to the same playlist."""
    assert playlists.parse(text) == playlist
    assert playlists.parse(str(playlist)) == playlist


@each(
    "text, message",
    [
        ("", "valid scripts"),
        ("approve,", "valid scripts"),
        ("approve,aprove", "unknown script 'aprove'"),
        ("approve*0", "from 1 to 1,000"),
        ("approve*1001", "from 1 to 1,000"),
        ("approve@61s", "from 0s to 60s"),
        ("approve*3@2s", "such as approve:0.2s@2s"),
        *((f"flaky:{share}", "from 0.001 to 0.5, such as 0.05, or 1") for share in (0, 0.0001, 0.51, 0.7, 1.5)),
        ("flaky:0.1:flaky", "unknown script 'flaky'"),
        (",".join(["approve"] * 101), "limit of 100"),
    ],
)
def test_invalid_playlist_is_refused(text: str, message: str) -> None:
    """The error says what is wrong, and what is valid."""
    with pytest.raises(ValueError, match=message):
        playlists.parse(text)


def test_stored_probability_of_an_earlier_version_stays_valid() -> None:
    """Its terminal starts again."""
    assert playlists.parse("flaky:0.7:approve", is_stored=True).flaky == 0.7


def test_parts_repeat_from_the_start() -> None:
    """Each part is for its number of orders, and the first follows the last."""
    playlist = playlists.parse("approve*2,hold")
    assert [playlist.at(number).script.name for number in range(7)] == [*("approve", "approve", "hold") * 2, "approve"]


def test_file_has_playlists_by_name(tmp_path: Path) -> None:
    """Each array of tables is one."""
    file = tmp_path / "shop.toml"
    file.write_text(
        '[[lunch]]\nscript = "approve:0.2s"\ntimes = 3\n'
        '[[lunch]]\nscript = "decline:card_disabled"\ndelay_seconds = 2\n'
        '[[broken]]\nscript = "no_answer"\n'
    )
    found = playlists.read(file)
    assert {name: str(playlist) for name, playlist in found.items()} == {
        "lunch": "approve:0.2s*3,decline:card_disabled@2s",
        "broken": "no_answer",
    }


@each(
    "text, message",
    [
        ("", "has no script"),
        ("lunch = [", "is not TOML"),
        ('lunch = "approve"', r"invalid at \[\[lunch\]\]"),
        ("lunch = []", r"invalid at \[\[lunch\]\]"),
        ('[[lunch]]\nscripts = "approve"', r"invalid at \[\[lunch\]\].*`scripts`"),
        ('[[lunch]]\nscript = "approve"\ntimes = "3"', "times"),
        ('[[lunch]]\nscript = "approve"\n[[lunch]]\nscript = "aprove"', r"step 2 of \[\[lunch\]\]: unknown script"),
        ('[[lunch]]\nscript = "approve"\ntimes = 0', "step 1 .* from 1 to"),
        ('[[lunch]]\nscript = "approve"\ndelay_seconds = nan', "step 1 .* from 0s to"),
    ],
)
def test_invalid_file_is_refused(tmp_path: Path, text: str, message: str) -> None:
    """The error names the file and the place."""
    file = tmp_path / "shop.toml"
    file.write_text(text)
    with pytest.raises(ValueError, match=message) as refused:
        playlists.read(file)
    assert str(file) in str(refused.value)


def test_missing_file_is_refused(tmp_path: Path) -> None:
    """With the system's reason."""
    with pytest.raises(ValueError, match="cannot be read: No such file"):
        playlists.read(tmp_path / "none.toml")
