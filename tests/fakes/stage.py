"""A broker, its courier and the platforms that it sends to; and who is killed."""

import os
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from typing import Any, NamedTuple

from fakes.broker import until
from fakes.desk import Desk, running
from fakes.platform import Platform


class Stage(NamedTuple):
    """A desk with its services, and the platforms that it sends to."""

    desk: Desk
    platform: Platform

    def courier(self) -> int:
        """Wait until a living process holds the name; return its pid."""
        with self.desk.client() as bus:

            def pid() -> int:
                held = [one for one in bus.list() if one["name"] == "courier"]
                found = int(held[0].get("pid") or 0) if held else 0
                return found if found and running(found) else 0

            return int(until(pid, 30))

    def kill(self, what: str) -> None:
        """SIGKILL the courier; or the broker, or both, and start another."""
        pid = self.courier() if what != "broker" else 0
        if what != "courier":
            self.desk.kill_broker()
        if pid:
            os.kill(pid, signal.SIGKILL)
            until(lambda: not running(pid))
        if what != "courier":
            self.desk.start()

    def send(self, channel: str, text: str, sender: str = "me") -> str:
        """Hand a text to the courier; return the message's id."""
        with self.desk.client() as bus:
            return bus.send("courier", text, type="say", channel=channel, sender=sender).id

    def outcome(self, id: str) -> dict[str, Any]:
        """Wait until the message has ended; return what became of it at its chat."""
        with self.desk.client() as bus:
            receipt = bus.wait(id, 60)
        assert receipt.outcome, receipt
        found: dict[str, Any] = receipt.outcome["channel"]
        return found

    def requested(self, chat: str = "") -> list[str]:
        """The first words of all requests to send (to one chat), in order."""
        found = [seen for seen in self.platform.requests() if chat in ("", seen.chat)]
        return [seen.text.split()[0] for seen in found]

    def begun(self) -> int:
        """How many parts the courier's notes hold."""
        file = self.desk.root / "bus" / "courier.db"
        with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as db:
            return int(db.execute("SELECT count(*) FROM part").fetchone()[0])

    def stands(self, channel: str = "") -> list[str]:
        """The first words of what stands in a chat, or in all."""
        return [text.split()[0] for text in self.platform.texts(channel.partition(":")[2] or None)]


def staged(*others: str, **more: str) -> Iterator[Stage]:
    """Yield a stage with Feishu and DingTalk; `others`: more platforms, `more`: settings."""
    # Ten kills in a few seconds are more deaths than a message may see before it counts as poison.
    desk, platform = Desk(services=True, attempts=20), Platform()
    settings = platform.settings("feishu", "dingtalk", *others) | more
    lines = (f"{name}={value}\n" for name, value in settings.items())
    (desk.root / ".env").write_text("".join(lines))
    desk.start()
    found = Stage(desk, platform)
    found.courier()
    yield found
    platform.close()
    desk.close()
