"""`wakebus send`: a text to a chat, and what became of it."""

import threading
from argparse import Namespace
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from fakes.broker import until
from fakes.desk import Desk
from fakes.in_process import InProcess
from fakes.platform import Platform
from wakebus.adapters.courier.status_file import read_status
from wakebus.adapters.errors import Unavailable
from wakebus.broker.client.client import Client
from wakebus.broker.errors import Undecided
from wakebus.broker.protocol.receipt import Receipt
from wakebus.plugin.cli import notify
from wakebus.plugin.cli.chats import send


@pytest.fixture(scope="module")
def platform() -> Iterator[Platform]:
    """All platforms on loopback."""
    found = Platform()
    yield found
    found.close()


@pytest.fixture(scope="module")
def desk(platform: Platform) -> Iterator[Desk]:
    """A desk whose broker runs its courier; Telegram is set up, Slack leads nowhere."""
    found = Desk(services=True)
    settings = platform.settings("telegram", "slack") | {"SLACK_API_BASE": "http://127.0.0.1:9"}
    (found.root / ".env").write_text("".join(f"{k}={v}\n" for k, v in settings.items()))
    found.start()
    yield found
    found.close()


def test_sent(desk: Desk) -> None:
    """Exit 0, the chat and the platform's id; the text is in the chat, cleaned."""
    done = desk.wakebus("send", "console:demo", "all green\x1b[2J 中文", "--from", "ci")
    assert done.status == 0 and done.out.startswith("sent to console:demo (id ")
    chat = (desk.root / "bus" / "console-demo.log").read_text()
    assert "all green 中文" in chat and "\x1b" not in chat
    done = desk.wakebus("send", "console:demo", "-", "--from", "ci", "--json", stdin=b"two\n")
    assert done.json["state"] == "handled" and done.json["channel"]["result"] == "sent"
    assert desk.wakebus("trace", done.json["id"]).status == 0


def test_an_answer(desk: Desk) -> None:
    """ADP-22.6, ADP-6.25: through the courier; where it cannot be shown it is said."""
    words = ("send", "console:demo", "an answer", "--from", "ci", "--reply-to")
    done = desk.wakebus(*words, "om_5")
    assert done.status == 0
    assert "not as a reply to om_5: console cannot show that here" in done.out
    done = desk.wakebus(*words, "a\nb")
    assert done.status == 1 and "body.reply_to is no message's id" in done.err
    done = desk.wakebus("send", "telegram:987", "hi", "--reply-to", "55", "--dry-run", "--json")
    assert '"message_id":55' in done.json["parts"][0]["requests"][0]["body"]


def test_once_per_key(desk: Desk) -> None:
    """The second with the same key is not written again."""
    for _ in range(2):
        words = ("send", "console:keyed", "once", "--from", "ci", "--key", "k1")
        assert desk.wakebus(*words).status == 0
    assert (desk.root / "bus" / "console-keyed.log").read_text().count("once") == 1


@pytest.mark.parametrize(
    ("channel", "status", "says"),
    [
        ("consle:demo", 2, "did you mean console?"),
        ("carrier-pigeon:7", 2, "no adapter for the platform 'carrier-pigeon'"),
        ("console:", 2, "no chat id after the colon"),
        ("console:../../etc/passwd", 1, "console"),
        ("console", 1, "CONSOLE_HOME_CHANNEL"),
        ("con sole:x", 2, "no platform"),
        ("console:a\x1b[2J", 2, "control"),
        ("", 2, "the channel is empty"),
    ],
)
def test_a_wrong_channel(
    desk: Desk,
    channel: str,
    status: int,
    says: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Told before anything is queued, with the near name or the next step."""
    before = accepted(desk)
    here = InProcess(desk.root, monkeypatch, capsys)
    done = here.wakebus("send", channel, "x", "--from", "ci", "--json")
    assert done.status == status and says in done.err and "\x1b" not in done.both, done
    assert says in done.json["error"]["text"]
    assert accepted(desk) == before


def accepted(desk: Desk) -> int:
    """Return how many messages the broker has accepted."""
    with desk.client() as bus:
        return int(bus.status()["accepted"])


def test_bad_input(desk: Desk) -> None:
    """Usage errors are 2."""
    assert desk.wakebus("send", "console:demo").status == 2
    assert desk.wakebus("send", "console:demo", "").status == 2
    assert "--file is empty" in desk.wakebus("send", "console:demo", "--file", "").err
    assert desk.wakebus("send", "console:demo", "-", stdin=b"\xff").status == 2
    assert desk.wakebus("send", "console:demo", "x", "--from", "a b").status == 2


def test_without_a_courier(own_desk: Desk) -> None:
    """Exit 1: it is kept, and how to get a courier; with one it arrives."""
    own_desk.start()
    done = own_desk.wakebus("send", "console:demo", "x", "--wait", "0.2", "--json")
    assert done.status == 1 and "no courier is running" in done.err
    assert "wakebus courier" in done.err and "wakebus trace" in done.err
    assert done.json["error"]["message"] in done.err


def test_a_home_channel_of_hermes(desk: Desk) -> None:
    """ADP-7.6, B9: a bare platform goes where config.yaml says, at once, and no other chat does."""
    config = desk.root / "config.yaml"
    config.write_text("platforms:\n  console: {home_channel: {chat_id: house}}\n")
    try:
        done = desk.wakebus("send", "console", "to the house", "--from", "ci")
        assert done.status == 0 and done.out.startswith("sent to console:house "), done
        done = desk.wakebus("send", "console:elsewhere", "not there", "--from", "ci")
        assert done.status == 0 and done.out.startswith("sent to console:elsewhere "), done
        house = (desk.root / "bus" / "console-house.log").read_text()
        assert "to the house" in house and "not there" not in house
    finally:
        config.unlink()


def spool(desk: Desk) -> set[str]:
    """Return what lies in the spool."""
    return {one.name for one in (desk.root / "bus").glob("files/*")}


def test_a_file(desk: Desk, platform: Platform) -> None:
    """ADP-22.4: alone or behind a text, also where TEXT stands behind --file."""
    (desk.root / "build.log").write_text("all is well 中文")
    words = ("send", "telegram:42", "--file", "build.log", "--from", "ci")
    done = desk.wakebus(*words)
    assert done.status == 0 and done.out.startswith("sent to telegram:42 (id "), done
    done = desk.wakebus(*words, "the log", "--json")
    assert done.json["channel"] | {"parts": 2, "done": 2} == done.json["channel"], done
    sent = platform.requests("send")
    assert [one.path.rpartition("/")[2] for one in sent] == [
        *("sendDocument", "sendMessage", "sendDocument")
    ]


def test_a_file_is_sent_once(desk: Desk, platform: Platform) -> None:
    """ADP-22.4: by its key or its id; what is not needed does not stay in the spool."""
    (desk.root / "one.txt").write_text("one")
    words = ("send", "telegram:43", "--file", "one.txt", "--from", "ci", "--json")
    first = desk.wakebus(*words, "--key", "f1").json
    kept = spool(desk)
    assert desk.wakebus(*words, "--key", "f1").json["id"] == first["id"]
    assert spool(desk) == kept
    same = [desk.wakebus(*words, "--id", "m-file-1").json["id"] for _ in range(2)]
    assert same == ["m-file-1", "m-file-1"]
    assert len(platform.texts("43")) == 2
    kept = spool(desk)
    other = desk.wakebus(*words, "other text", "--id", "m-file-1")
    assert other.status == 1 and spool(desk) == kept  # a conflict leaves the first one's file
    (desk.root / "one.txt").write_text("two")
    other = desk.wakebus(*words, "--id", "m-file-1")
    assert other.status == 1 and spool(desk) == kept  # and takes away the second one's


@pytest.mark.parametrize("end", [KeyboardInterrupt(), Undecided("no receipt", id="m")])
def test_the_copy_of_what_may_be_on_its_way(
    desk: Desk,
    platform: Platform,
    end: BaseException,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """ADP-22.4: Ctrl-C after the bus has taken it: the copy stays, and the file arrives."""
    chat, real, kept = str(44 + isinstance(end, Undecided)), notify.send, spool(desk)

    def cut(client: Client, args: Namespace, body: Mapping[str, Any]) -> Receipt:
        real(client, args, body)
        raise end

    monkeypatch.setattr(notify, "send", cut)
    (desk.root / "one.txt").write_text("one")
    here = InProcess(desk.root, monkeypatch, capsys)
    done = here.wakebus("send", f"telegram:{chat}", "--file", "one.txt", "--from", "ci")
    assert done.status in (130, 5) and len(spool(desk) - kept) == 1, done
    until(lambda: len(platform.texts(chat)) == 1, 60)


def test_ctrl_c_while_it_waits(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The bus has it: the id is said, so that nobody sends it again."""

    def cut(*args: object) -> Receipt:
        raise KeyboardInterrupt

    monkeypatch.setattr(Client, "wait", cut)
    done = InProcess(desk.root, monkeypatch, capsys).wakebus(
        "send", "console:cut", "hi", "--id", "cut1"
    )
    assert (
        done.status == 130
        and "cut1 goes on without you.\nThe courier goes on: wakebus trace cut1" in done.err
    ), done


def test_a_copy_that_cannot_be_kept(tmp_path: Path) -> None:
    """ADP-22.4: an error with path and reason; no half of it is left."""
    (tmp_path / "one.txt").write_text("one")
    held, fresh = send._stored(tmp_path / "one.txt", "m1", tmp_path)
    place = tmp_path / "files" / held["copy"]
    assert fresh and place.read_text() == "one"
    place.unlink()
    place.mkdir()
    with pytest.raises(Unavailable, match=r"one.txt' cannot be kept in .*files: "):
        send._stored(tmp_path / "one.txt", "m1", tmp_path)
    assert [*place.parent.iterdir()] == [place]


def test_a_courier_of_another_home(desk: Desk, tmp_path: Path) -> None:
    """ADP-6.33: a bare platform is refused, also in a dry run; a chat is sent to, with a note."""
    env = {"HERMES_HOME": str(tmp_path), "CONSOLE_HOME_CHANNEL": "theirs"}
    until(lambda: read_status(desk.root / "bus"), 30)
    for more in ((), ("--dry-run",)):
        done = desk.wakebus("send", "console", "x", "--from", "ci", *more, env=env)
        assert done.status == 1 and not done.out, done
        named = (f"{desk.root}/.env", f"{tmp_path}/.env", f"HERMES_HOME={desk.root}")
        assert all(one in done.err for one in named)
    assert not (desk.root / "bus" / "console-theirs.log").exists()
    done = desk.wakebus("send", "console:other", "x", "--from", "ci", "--json", env=env)
    assert done.status == 0 and done.json["channel"]["chat"] == "console:other", done
    assert f"note: the courier reads {desk.root}/.env, not {tmp_path}/.env" in done.err


def test_a_bare_platform_is_settled_here(desk: Desk) -> None:
    """ADP-6.33: the chat that was shown is the chat that it goes to."""
    env = {"CONSOLE_HOME_CHANNEL": "mine-only-here"}
    done = desk.wakebus("send", "console", "x", "--from", "ci", env=env)
    assert done.status == 0 and done.out.startswith("sent to console:mine-only-here "), done


@pytest.mark.parametrize(
    ("words", "status", "says"),
    [
        (("console:demo", "--file", "some.txt"), 1, "console takes no files; send a link"),
        (("telegram:42", "--file", "big"), 1, "and telegram takes at most 47.7 MiB"),
        (("telegram:42", "--file", "middle"), 1, "at most 20971520 (20.0 MiB) are sent"),
        (("telegram:42", "--file", "none.txt"), 1, "no such file"),
        (("telegram:42", "--file", "."), 1, "is a folder"),
        (("telegram:42", "--file", "/dev/null"), 1, "is a device"),
        (("telegram:42", "--file", "empty"), 1, "is empty"),
        (("telegram:42", "", "--file", "some.txt"), 2, "the text is empty"),
        (("telegram:42",), 2, "or --file PATH"),
        (("telegram:42", "x", "--file", "some.txt", "y"), 2, "unrecognized arguments: y"),
    ],
)
def test_a_file_that_is_not_sent(
    desk: Desk,
    words: tuple[str, ...],
    status: int,
    says: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """ADP-22.4: told with the reason before anything is queued; nothing stays in the spool."""
    (desk.root / "some.txt").write_text("x")
    (desk.root / "empty").touch()
    for name, size in (("big", 60 << 20), ("middle", 30 << 20)):
        with (desk.root / name).open("wb") as file:
            file.truncate(size)  # a hole: no disk is used
    kept = spool(desk)
    done = InProcess(desk.root, monkeypatch, capsys).wakebus("send", *words, "--from", "ci")
    assert (done.status, done.out) == (status, "") and says in done.err, done
    assert "Traceback" not in done.err and spool(desk) == kept


def test_a_file_without_a_broker(own_desk: Desk, platform: Platform) -> None:
    """ADP-22.4: exit 1, and no copy of it is left."""
    (own_desk.root / "some.txt").write_text("x")
    env = platform.settings("telegram")
    done = own_desk.wakebus("send", "telegram:42", "--file", "some.txt", env=env)
    assert done.status == 1 and "hermes-busd start" in done.err and not spool(own_desk)


def test_a_dry_run_of_a_file(own_desk: Desk, platform: Platform) -> None:
    """ADP-22.4: its upload and the request that shows it, bytes told and not dumped."""
    (own_desk.root / "build.log").write_text("hush-7f3a" * 20)
    words = ("send", "--dry-run", "slack:U12345678", "the log", "--file", "build.log")
    env = platform.settings("slack")
    done = own_desk.wakebus(*words, env=env)
    assert done.status == 0 and not done.err, done
    assert "# the chat's own id, looked up once an hour" in done.out
    assert "# part 2 of 2 (180 bytes of build.log): brought there first" in done.out
    assert "hush" not in done.out
    shown = own_desk.wakebus(*words, "--json", env=env).json
    assert shown["parts"][1]["file"] == "180 bytes of build.log"
    assert [one.name for one in own_desk.root.iterdir()] == ["build.log"]


def test_not_sent_yet(desk: Desk) -> None:
    """ADP-22.5: exit 1, why the courier has put it off last, and how to follow it."""
    words = ("send", "slack:C12345678", "x", "--from", "ci", "--id", "m-late", "--json")
    desk.wakebus(*words, "--wait", "0")
    until(lambda: any(step["what"] == "later" for step in desk.traced("m-late")["steps"]), 60)
    done = desk.wakebus(*words, "--wait", "0")
    assert done.status == 1 and "the courier goes on trying: not reachable" in done.err, done
    assert "not reachable" in done.json["error"]["reason"]
    assert f"wakebus trace {done.json['error']['message']}" in done.err


class Failing(BaseHTTPRequestHandler):
    """A server that takes a text and answers 500."""

    def do_POST(self) -> None:
        """Take it."""
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(500)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


def test_the_platform_may_have_it(desk: Desk) -> None:
    """ADP-22.5, ADP-6.32: exit 5 and why, although the courier goes on; trace says so, too."""
    server = HTTPServer(("127.0.0.1", 0), Failing)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        with (desk.root / ".env").open("a") as file:
            file.write(f"WEBHOOK_DOUBT_URL=http://127.0.0.1:{server.server_port}/x\n")
        words = ("send", "webhook:doubt", "x", "--from", "ci", "--id", "m-doubt", "--wait", "0")
        desk.wakebus(*words)
        until(lambda: any(step.get("work") for step in desk.traced("m-doubt")["steps"]), 60)
        done = desk.wakebus(*words)
        assert done.status == 5 and "not settled yet: the platform may have it" in done.err, done
        assert "status 500" in done.err and "wakebus trace m-doubt" in done.err
    finally:
        server.shutdown()
        server.server_close()


FEISHU = {"FEISHU_APP_ID": "cli_a", "FEISHU_APP_SECRET": "hush-7f3a", "HTTPS_PROXY": "nonsense:"}


def test_a_dry_run(own_desk: Desk) -> None:
    """Exit 0 without bus or network: the exact request, the secret masked, nothing left behind."""
    text = "all\x1b[2J **green** 中文 [x](lark://y)"
    done = own_desk.wakebus("send", "--dry-run", "feishu:oc_1", text, "--id", "m1", env=FEISHU)
    assert done.status == 0 and not done.err, done
    assert "\\u200b" in done.out  # what makes the link harmless is to be seen
    assert done.out.startswith("dry run: nothing is sent. feishu:oc_1, 1 part\n")
    assert (
        "POST https://open.feishu.cn/open-apis/im/v1/messages?receive_id_type=chat_id" in done.out
    )
    assert "Authorization: ***" in done.out and '"app_secret":"***"' in done.out
    assert "all **green** 中文" in done.out and '"uuid":"m1"' in done.out
    assert "hush" not in done.out and "\x1b" not in done.out
    assert list(own_desk.root.iterdir()) == []


def test_a_dry_run_in_parts(own_desk: Desk) -> None:
    """With --json: how the text is split, each part with its size, key and requests."""
    text = "".join(f"line {number}\n" for number in range(4000)).strip()
    done = own_desk.wakebus(
        *("send", "--dry-run", "feishu:oc_1", "-", "--id", "m1", "--json"),
        stdin=text.encode(),
        env=FEISHU,
    )
    shown = done.json
    assert (done.status, shown["dry_run"], shown["chat"]) == (0, True, "feishu:oc_1")
    assert len(shown["parts"]) > 1 and "".join(p["text"] for p in shown["parts"]) == text
    assert all(part["size"] <= shown["limit"] for part in shown["parts"])
    assert '"uuid":"m1.2"' in shown["parts"][1]["requests"][0]["body"]


@pytest.mark.parametrize(
    "words",
    [
        ("x", "--id", "m1\nm2"),
        ("x", "--key", "k\n1"),
        ("x", "--from", "a b"),
        ("half a character: \udcff",),
    ],
)
def test_a_dry_run_of_what_is_no_message(own_desk: Desk, words: tuple[str, ...]) -> None:
    """What the bus would not take is not shown as if it could be sent."""
    done = own_desk.wakebus("send", "--dry-run", "feishu:oc_1", *words)
    assert done.status == 2 and done.out == "", done
    assert done.err.startswith(("wakebus: ", "usage: wakebus send ")), done


def test_a_dry_run_of_what_cannot_be_sent(own_desk: Desk) -> None:
    """Exit 1 with the reason, as the courier would say it."""
    done = own_desk.wakebus("send", "--dry-run", "feishu:oc_1", "x")
    assert done.status == 1 and "FEISHU_APP_ID" in done.err
    assert f"not set in {own_desk.root}/.env" in done.err
    done = own_desk.wakebus("send", "--dry-run", "consle:demo", "x", "--json")
    assert done.status == 2 and "did you mean console?" in done.json["error"]["text"]
