"""Completion of commands, options and values in the shell."""

from __future__ import annotations

import subprocess
from pathlib import Path

from command_line import command
from paydesk_process import PAYDESK, environment


def completed(words: str, folder: Path) -> list[str]:
    """Return what bash is offered for the last word of the line."""
    count = len(words.split(" ")) - 1
    variables = {"COMP_WORDS": words, "COMP_CWORD": str(count), "_PAYDESK_COMPLETE": "complete_bash"}
    ended = command(folder=folder, **variables)
    assert (ended.returncode, ended.stderr) == (0, "")
    return ended.stdout.split()


def test_commands_options_and_values_are_completed(tmp_path: Path) -> None:
    """Without a service."""
    assert completed("paydesk or", tmp_path) == ["orders"]
    assert {"list", "get", "resolve"} <= set(completed("paydesk orders ", tmp_path))
    assert completed("paydesk clock advance --to", tmp_path) == ["--to-next"]
    assert completed("paydesk env --shell f", tmp_path) == ["fish"]
    assert completed("paydesk orders nonsense --x", tmp_path) == []


def test_bash_completes_with_the_printed_script(tmp_path: Path) -> None:
    """As at <TAB>."""
    folder = Path(PAYDESK).parent
    script = (
        f'export PATH="{folder}:$PATH"; eval "$(paydesk --show-completion bash)"; '
        'COMP_WORDS=(paydesk or); COMP_CWORD=1; _paydesk_completion paydesk; echo "${COMPREPLY[@]}"'
    )
    ended = subprocess.run(
        ["bash", "-c", script],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert ended.stdout == "orders\n"


def test_help_names_the_option(tmp_path: Path) -> None:
    """`paydesk --help` says how completion is installed."""
    assert "--install-completion" in command("--help", folder=tmp_path).stdout
