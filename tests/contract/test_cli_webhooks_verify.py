"""`paydesk webhooks verify` with requests as people have them: pasted, in files, in JSON."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path

from command_line import command
from paydesk.core.secrets import Secret
from paydesk.engine.orders import samples
from paydesk.engine.webhooks.delivery import send
from paydesk.engine.webhooks.delivery.notice import Notice
from tables import each

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


def verify(folder: Path, *arguments: str, stdin: str = "", secret: str | None = SECRET) -> tuple[int, str, str]:
    """Run `paydesk webhooks verify`; return its exit code and what it printed."""
    given = ("--secret", secret) if secret is not None else ()
    done: subprocess.CompletedProcess[str] = command(
        "webhooks", "verify", *arguments, *given, folder=folder, stdin=stdin
    )
    return done.returncode, done.stdout, done.stderr


def delivery(seconds_ago: int = 0) -> tuple[str, dict[str, str], str]:
    """Return the URL, the headers and the body of a notification that was sent so long ago."""
    now = int(time.time()) - seconds_ago
    made = samples.sample("order.processed", now_ms=now * 1000)
    notice = Notice(made.event_id, made.action, made.seller_id, made.source_id, made.body)
    request = send.request(notice.message("http://localhost:3000/hook?shop=7", 1), [Secret(SECRET)], now)
    return str(request.url), request.headers, made.body


def text_of(url: str, headers: dict[str, str], body: str, *, line: str = "\n", prefix: str = "") -> str:
    """Return the request as a log has it."""
    target = url.removeprefix("http://localhost:3000")
    head = [f"POST {target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
    return line.join([*(prefix + text for text in head), prefix.strip(), ""]) + body


@each("line", ["\n", "\r\n"])
@each("prefix", ["", "> "])
@each("end", ["", "\n", "\r\n"])
def test_a_pasted_request_is_valid(tmp_path: Path, line: str, prefix: str, end: str) -> None:
    """With either line end, as curl prints it, and with the newline that pasting adds."""
    code, out, err = verify(tmp_path, stdin=text_of(*delivery(), line=line, prefix=prefix) + end)
    assert (code, err) == (0, "")
    assert out.count(": valid\n") == 2


def test_content_length_says_where_the_body_ends(tmp_path: Path) -> None:
    """Further newlines are no part of it, but other text is."""
    url, headers, body = delivery()
    headers["Content-Length"] = str(len(body.encode()))
    assert verify(tmp_path, stdin=text_of(url, headers, body) + "\n\n\n")[0] == 0
    assert verify(tmp_path, stdin=text_of(url, headers, body) + "x")[0] == 1


def test_a_file_is_read(tmp_path: Path) -> None:
    """As a text, or as JSON with or without the URL."""
    url, headers, body = delivery()
    (tmp_path / "request.txt").write_text(text_of(url, headers, body))
    assert verify(tmp_path, "request.txt")[0] == 0
    document = {"url": url, "headers": headers, "body": body}
    (tmp_path / "request.json").write_text(json.dumps(document))
    assert verify(tmp_path, "request.json")[0] == 0
    (tmp_path / "request.json").write_text(json.dumps({**document, "url": None}))
    code, out, _ = verify(tmp_path, "request.json")
    assert code == 0
    assert "The query is not known" in out


@each("as_json", [True, False])
@each("query", ["url", "query", "path", None])
def test_files_of_headers_and_body_are_read(tmp_path: Path, as_json: bool, query: str | None) -> None:  # noqa: FBT001
    """With the query in any form, or without it."""
    url, headers, body = delivery()
    lines = "\n".join(f"{name}: {value}" for name, value in headers.items())
    (tmp_path / "headers").write_text(json.dumps(headers) if as_json else lines)
    (tmp_path / "body").write_text(body)
    forms = {"url": url, "query": url.partition("?")[2], "path": url.removeprefix("http://localhost:3000")}
    options = ("--query", forms[query]) if query is not None else ()
    code, out, err = verify(tmp_path, "--headers", "headers", "--body", "body", *options)
    assert code == 0, out + err
    (tmp_path / "body").write_text(body + "\n")
    code, out, _ = verify(tmp_path, "--headers", "headers", "--body", "body", *options)
    assert code == 1
    assert "X-Signature: valid" in out
    assert "webhook-signature: NOT VALID\n  The body has white space at its end" in out


def test_a_mistake_is_explained(tmp_path: Path) -> None:
    """With the signed text, and exit code 1; no secret is printed."""
    url, headers, body = delivery()
    upper = url.replace("data.id=ord01j67cqqh5904wdbvzem4jmep3", "data.id=ORD01J67CQQH5904WDBVZEM4JMEP3")
    code, out, err = verify(tmp_path, stdin=text_of(upper, headers, body))
    assert code == 1
    assert "X-Signature: NOT VALID\n  data.id is ORD01J67CQQH5904WDBVZEM4JMEP3, but ord01j67cqqh5904w" in out
    assert "The signed text, with the values received: id:ORD01" in out
    assert "webhook-signature: valid" in out
    assert "a receiver must refuse it" in err
    assert SECRET.removeprefix("whsec_") not in out + err


def test_json_output_has_both_verdicts(tmp_path: Path) -> None:
    """And is all that is on standard output."""
    code, out, _ = verify(tmp_path, "--json", stdin=text_of(*delivery()))
    printed = json.loads(out)
    assert (code, printed["valid"]) == (0, True)
    assert [one["header"] for one in printed["signatures"]] == ["X-Signature", "webhook-signature"]
    code, out, _ = verify(tmp_path, "--json", stdin=text_of(*delivery(3600)))
    assert (code, json.loads(out)["valid"]) == (1, False)


def test_an_old_request_needs_any_age(tmp_path: Path) -> None:
    """As from a log; the message says how old it is."""
    text = text_of(*delivery(7300))
    code, out, _ = verify(tmp_path, stdin=text)
    assert code == 1
    assert "its time is 2 hours old" in out
    assert verify(tmp_path, "--any-age", stdin=text)[0] == 0


def test_secrets_of_the_credentials_file_are_tried(tmp_path: Path) -> None:
    """That of the demo subscription, and that of `webhooks listen`; several can be given."""
    text = text_of(*delivery())
    other = "whsec_" + "QUJD" * 8
    folder = tmp_path / ".paydesk"
    folder.mkdir()
    for document, name in (
        ({"webhook": {"secret": other}, "listen_secret": SECRET}, "listen_secret"),
        ({"webhook": {"secret": SECRET}}, "webhook.secret"),
    ):
        (folder / "credentials.json").write_text(json.dumps(document))
        code, out, _ = verify(tmp_path, stdin=text, secret=None)
        assert code == 0
        assert out.count(f"Signed with {name}.") == 2
    assert verify(tmp_path, "--secret", other, stdin=text)[0] == 0
    assert verify(tmp_path, stdin=text, secret=other)[0] == 1


@each(
    "stdin, message",
    [
        ("", "has no headers"),
        ("\n\n\n", "has no headers"),
        ("POST /hook HTTP/1.1\n\n{}", "has no headers"),
        ("POST /hook HTTP/1.1\nnonsense\n\n{}", "'nonsense' is not a header"),
        ("\x00\x01\x02", "is not a header"),
        ("{}", "it must have `headers`"),
        ("{", "is not a JSON object"),
        ('{"headers": {"a": {}}, "body": ""}', "'a' in the JSON is not a text"),
        ('{"headers": {}, "body": ""}', "has no headers"),
        ('{"headers": {}, "body": {}}', "`body` as text"),
        ("[" * 100_000, "is not a header"),
        ("{" * 100_000, "is not a JSON object"),
        ("http://[::1\nA: b\n\n{}", "is no URL"),
    ],
)
def test_what_is_no_request_exits_2(tmp_path: Path, stdin: str, message: str) -> None:
    """And says what is expected."""
    code, out, err = verify(tmp_path, stdin=stdin)
    assert (code, out) == (2, "")
    assert message in err


def test_wrong_files_exit_2(tmp_path: Path) -> None:
    """Missing ones, folders, one without the other, huge ones."""
    (tmp_path / "huge").write_bytes(b"x" * (16 * 1024 * 1024 + 1))
    for arguments in (("missing",), (str(tmp_path),), ("--headers", "missing"), ("--body", "missing"), ("huge",)):
        code, _, err = verify(tmp_path, *arguments)
        assert code == 2, arguments
        assert err
    code, _, err = verify(tmp_path, stdin=text_of(*delivery()), secret=None)
    assert code == 2
    assert "There is no secret to verify with" in err
