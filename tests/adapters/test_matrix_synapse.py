"""
The platform `matrix` against a real Synapse, through the shell and the real transport, and once
through the real courier: what a server does, not what a page says.
"""

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import pytest

from fakes.broker import until
from fakes.carrier import LONG, Carrier
from fakes.desk import Desk, running
from fakes.synapse import Synapse
from wakebus.adapters.base import ChannelResult, File, Outgoing, Request, Response
from wakebus.adapters.channel import parse
from wakebus.adapters.delivery.adapter_calls import GuardedAdapter
from wakebus.adapters.delivery.deliver import deliver
from wakebus.adapters.errors import Uncertain
from wakebus.adapters.inspect.credential_check import check_credential
from wakebus.adapters.platforms.matrix import Matrix
from wakebus.broker import Client

pytestmark = [
    pytest.mark.skipif(
        find_spec("synapse") is None, reason="matrix-synapse has no wheel for this system"
    ),
    pytest.mark.timeout(300),  # a server starts in 3 s, and in 20 where others work too
]
V3 = "/_matrix/client/v3"


class House(NamedTuple):
    """A server, the bot's token and a person's, and a room with the alias #bus that has both."""

    server: Synapse
    bot: str
    ada: str
    admin: str
    room: str

    def env(self, **more: str) -> dict[str, str]:
        """The settings that lead here."""
        known = {"MATRIX_HOMESERVER": self.server.url, "MATRIX_ACCESS_TOKEN": self.bot}
        return known | more

    def bodies(self, room: str = "") -> list[str]:
        """What stands in the room, as Ada sees it."""
        return [e["content"]["body"] for e in self.server.events(self.ada, room or self.room)]

    def last(self) -> dict[str, Any]:
        """The newest message in the room, as Ada sees it."""
        return self.server.events(self.ada, self.room)[-1]

    def new_room(self, token: str = "", guest: str = "", **body: Any) -> str:
        """A room of the bot's (or of `token`'s) that Ada (or `guest`) has joined."""
        room = self.server.room(token or self.bot, preset="public_chat", **body)
        self.server.ask("POST", f"{V3}/join/{quote(room)}", guest or self.ada, {})
        return room

    def slow(self, per_second: float, burst: int) -> None:
        """Let the bot send only so many messages from now on; 0, 0: as many as it wants."""
        body = {"messages_per_second": per_second, "burst_count": burst}
        path = "/_synapse/admin/v1/users/@bot:localhost/override_ratelimit"
        self.server.ask("POST", path, self.admin, body)


@pytest.fixture(scope="module")
def house() -> Iterator[House]:
    """One server for all tests of this file."""
    folder = Path(tempfile.mkdtemp(prefix="wb"))
    server = Synapse(folder)
    try:
        server.start()
        bot, ada = server.register("bot"), server.register("ada")
        found = House(server, bot, ada, server.register("root", admin=True), "")
        yield found._replace(room=found.new_room(room_alias_name="bus"))
    finally:
        server.close()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def carrier(house: House) -> Carrier:
    """The shell, as the bot."""
    return Carrier(house.env())


def test_a_text_arrives(house: House, carrier: Carrier) -> None:
    """ADP-16.1: as text, with its formatting, mentioning nobody; the id is the event's."""
    result = carrier(f"matrix:{house.room}", "**bold** 中文 <b>", "arrives")
    event = house.last()
    assert (result.result, result.id) == ("sent", event["event_id"])
    assert event["content"]["body"] == "**bold** 中文 <b>"
    assert event["content"]["m.mentions"] == {}
    assert "<strong>bold</strong>" in event["content"]["formatted_body"]
    assert "<b>" not in event["content"]["formatted_body"]


def test_one_key_is_one_message(house: House, carrier: Carrier) -> None:
    """ADP-16.4: the same key again gives the same event; another key another one."""
    before = len(house.bodies())
    ids = [carrier(f"matrix:{house.room}", "once", key).id for key in ("a", "a", "b")]
    assert ids[0] == ids[1] != ids[2]
    assert house.bodies()[before:] == ["once", "once"]


def test_a_lost_answer_and_a_restart(house: House, carrier: Carrier) -> None:
    """ADP-16.4: the answer is lost, the server dies and comes back: the key is still known."""
    before = len(house.bodies())
    lost: list[Response] = []

    def perform(request: Request) -> Response:
        answer = LONG(request)
        if request.method == "PUT" and not lost:
            lost.append(answer)
            house.server.kill()
            house.server.start()
            raise Uncertain("the answer is lost")
        return answer

    carrier.context = replace(carrier.context, performers={"http": perform})
    result = carrier(f"matrix:{house.room}", "through a restart", "restart")
    assert result.result == "sent" and result.id in lost[0].body.decode()
    assert house.bodies()[before:] == ["through a restart"]


def test_a_thread(house: House, carrier: Carrier) -> None:
    """ADP-16.3: the server counts the answer into the thread, in Hermes's writing too."""
    root = carrier(f"matrix:{house.room}", "root", "root").id
    for key, channel in (("t1", f"{house.room}?thread={root}"), ("t2", f"{house.room}:{root}")):
        assert carrier(f"matrix:{channel}", "reply", key).result == "sent"
        assert house.last()["content"]["m.relates_to"]["event_id"] == root
    reply = house.last()["event_id"]
    path = f"/_matrix/client/v1/rooms/{quote(house.room)}/relations/{quote(root)}/m.thread"
    assert len(house.server.ask("GET", path, house.ada)["chunk"]) == 2
    result = carrier(f"matrix:{house.room}?thread={reply}", "in a reply", "t3")
    assert result.result == "rejected" and "thread" in result.reason


def test_an_alias(house: House, carrier: Carrier) -> None:
    """ADP-16.2: an alias leads to its room; one that nobody has is refused with advice."""
    assert carrier("matrix:#bus:localhost", "by name", "alias").result == "sent"
    assert house.bodies()[-1] == "by name"
    result = carrier("matrix:#nobody:localhost")
    assert result.result == "rejected" and "M_NOT_FOUND" in result.reason


def test_a_person(house: House, carrier: Carrier) -> None:
    """ADP-16.2: a person is the direct chat that the bot's account knows; it makes none."""
    result = carrier("matrix:@ada:localhost", "private")
    assert result.result == "rejected" and "no direct chat with @ada:localhost" in result.reason
    left, open_ = house.new_room(is_direct=True), house.new_room(is_direct=True)
    house.server.ask("POST", f"{V3}/rooms/{quote(left)}/leave", house.bot, {})
    path = f"{V3}/user/@bot:localhost/account_data/m.direct"
    house.server.ask("PUT", path, house.bot, {"@ada:localhost": [open_, left]})
    assert carrier("matrix:@ada:localhost", "private", "dm").result == "sent"
    assert house.bodies(open_) == ["private"]


def test_an_encrypted_room(house: House, carrier: Carrier) -> None:
    """ADP-16.5: nothing goes into an encrypted room in the clear, unless that is allowed."""
    encryption = {"algorithm": "m.megolm.v1.aes-sha2"}
    state = [{"type": "m.room.encryption", "state_key": "", "content": encryption}]
    room = house.new_room(initial_state=state)
    result = carrier(f"matrix:{room}", "secret")
    assert result.result == "rejected" and "MATRIX_ALLOW_UNENCRYPTED" in result.reason
    assert house.bodies(room) == []
    allowed = Carrier(house.env(MATRIX_ALLOW_UNENCRYPTED="1"))
    assert allowed(f"matrix:{room}", "open", "open").result == "sent"
    assert house.bodies(room) == ["open"]


def test_a_room_that_the_bot_is_not_in(house: House, carrier: Carrier) -> None:
    """ADP-16.6: refused, with what to do."""
    result = carrier(f"matrix:{house.server.room(house.ada)}")
    assert result.result == "rejected" and "invite the bot" in result.reason


def test_a_wrong_token(house: House) -> None:
    """ADP-16.6: refused, with the setting, and without the token."""
    result = Carrier(house.env(MATRIX_ACCESS_TOKEN="syt_wrong_1234567890"))(f"matrix:{house.room}")
    assert result.result == "rejected"
    assert "M_UNKNOWN_TOKEN" in result.reason and "MATRIX_ACCESS_TOKEN" in result.reason
    assert "syt_wrong" not in result.reason


def test_check(house: House, carrier: Carrier) -> None:
    """ADP-16.9: the server says whose token it is, and nobody sees it."""
    good = check_credential("matrix", Matrix(house.env()), carrier.context)
    assert (good.result, good.text) == ("ok", "@bot:localhost")
    assert (
        check_credential(
            "matrix", Matrix(house.env(MATRIX_ACCESS_TOKEN="x")), carrier.context
        ).result
        == "failed"
    )


@pytest.mark.parametrize(
    "text",
    ["<&\"'\\\n" * 3500, "中文 **x** " * 2000, ("x" * 79 + "\n") * 500],
    ids=["escapes", "marks", "plain"],
)
def test_a_long_text(house: House, carrier: Carrier, text: str) -> None:
    """ADP-16.7: measured, no part is too large for the server, and all of the text arrives."""
    before = len(house.bodies())
    result = carrier(f"matrix:{house.room}", text, f"long{len(text)}")
    assert (result.result, result.done) == ("sent", result.parts)
    assert result.parts > 1
    assert "".join("".join(house.bodies()[before:]).split()) == "".join(text.split())


def test_an_event_that_is_too_large(house: House, carrier: Carrier) -> None:
    """ADP-16.7: what is over the limit would be refused by the server, finally."""
    chat = GuardedAdapter.resolve(parse(f"matrix:{house.room}"), house.env())
    assert isinstance(chat.adapter, Matrix)
    chat.adapter.measure = lambda text: 1  # type: ignore[method-assign]
    result = deliver(chat, Outgoing("x" * 70_000, "large"), carrier.context)
    assert result.result == "rejected" and "M_TOO_LARGE" in result.reason


def test_too_fast(house: House, carrier: Carrier) -> None:
    """ADP-16.8: a throttled bot waits as long as the server says, and all arrives once."""
    before = len(house.bodies())
    house.slow(2, 1)
    try:
        for key in ("fast1", "fast2"):
            result = carrier(f"matrix:{house.room}", key, key)
            while result.again and result.result == "not_sent":
                assert result.retry_after is not None and 0 < result.retry_after < 2
                result = carrier(f"matrix:{house.room}", key, key)
            assert result.result == "sent"
    finally:
        house.slow(0, 0)
    assert house.bodies()[before:] == ["fast1", "fast2"]


@pytest.mark.parametrize(("kind", "msgtype"), [("image/png", "m.image"), ("text/x-log", "m.file")])
def test_a_file(house: House, carrier: Carrier, kind: str, msgtype: str) -> None:
    """ADP-16.10: the file is on the server, and the room shows it by its name."""
    result = send_file(house, carrier, File("бюджет 1.bin", b"\x00data", kind), f"file {kind}")
    content = house.last()["content"]
    assert result.result == "sent"
    assert (content["msgtype"], content["body"]) == (msgtype, "бюджет 1.bin")
    assert content["info"] == {"mimetype": kind, "size": 5}
    server, _, media = content["url"].removeprefix("mxc://").partition("/")
    url = f"{house.server.url}/_matrix/client/v1/media/download/{server}/{media}"
    answer = LONG(Request(url, headers={"Authorization": f"Bearer {house.ada}"}, method="GET"))
    assert answer.body == b"\x00data"


def send_file(house: House, carrier: Carrier, file: File, key: str) -> ChannelResult:
    """Deliver a file without a text."""
    return carrier(f"matrix:{house.room}", "", key, file=file)


def test_the_courier_is_killed_between_parts(house: House) -> None:
    """ADP-16.4, ADP-6.8: SIGKILL in the middle of five parts; every part stands there once."""
    desk = Desk(services=True)
    before = len(house.bodies())
    env = "".join(f"{name}={value}\n" for name, value in house.env().items())
    (desk.root / ".env").write_text(env)
    text = "\n\n".join(f"part-{n} {'x' * 28_000}" for n in range(1, 6))
    house.slow(1, 2)  # after two parts the server makes the courier wait
    try:
        desk.start()
        with desk.client() as bus:
            pid = until(lambda: courier(bus), 60)
            id_ = bus.send("courier", text, channel="matrix:#bus:localhost", sender="me").id
            until(lambda: len(house.bodies()) >= before + 2, 60)
            os.kill(pid, signal.SIGKILL)
            until(lambda: not running(pid))
            house.slow(0, 0)
            receipt = bus.wait(id_, 60)
        assert receipt.outcome and receipt.outcome["channel"]["result"] == "sent", receipt
    finally:
        house.slow(0, 0)
        desk.close()
    marks = [body.split()[0] for body in house.bodies()[before:]]
    assert marks == [f"part-{n}" for n in range(1, 6)]


def courier(bus: Client) -> int:
    """Return the pid of the process that holds the name `courier`, 0 without one."""
    return next((int(one.get("pid") or 0) for one in bus.list() if one["name"] == "courier"), 0)
