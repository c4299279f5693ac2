"""
One dead webhook delays no other: a real broker and courier, receivers on this machine.
"""

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from fakes.broker import until
from fakes.stage import Stage, staged
from fakes.webhook_receiver import WebhookReceiver, receiving
from wakebus.adapters.courier.status_file import read_status


class Hosts:
    """`dead`: takes connections and says nothing; `lives`: answers."""

    def __init__(self, stage: Stage, lives: WebhookReceiver) -> None:
        self.stage, self.lives = stage, lives

    def send_many(self, *channels: str) -> None:
        """Send texts of 20 senders to each, so that each has 20 lanes."""
        with self.stage.desk.client() as bus:
            for number in range(20):
                for channel in channels:
                    bus.send("courier", "for the dead", channel=channel, sender=f"s{number}")


@pytest.fixture
def hosts() -> Iterator[Hosts]:
    """Four webhooks and two services of Apprise on a dead host, one each on one that lives."""
    with ExitStack() as stack:
        dead, lives = stack.enter_context(socket.socket()), stack.enter_context(receiving())
        dead.bind(("127.0.0.1", 0))
        dead.listen(512)  # the kernel takes what nobody reads
        silent = f"127.0.0.1:{dead.getsockname()[1]}"
        settings = {f"WEBHOOK_DEAD{n}_URL": f"http://{silent}/{n}" for n in range(4)}
        settings |= {f"APPRISE_URL_DEAD{n}": f"json://{silent}/{n}" for n in range(2)}
        settings |= {"WEBHOOK_LIVES_URL": f"{lives.url}/in"}
        settings |= {"APPRISE_URL_LIVES": lives.url.replace("http", "json", 1) + "/apprise"}
        for stage in staged(**settings):
            yield Hosts(stage, lives)


@pytest.mark.parametrize(
    ("dead", "lives"),
    [
        ([f"webhook:dead{n}" for n in range(4)], "webhook:lives"),
        ([f"apprise:dead{n}" for n in range(2)], "apprise:lives"),
    ],
)
def test_one_dead_webhook_delays_no_other(hosts: Hosts, dead: list[str], lives: str) -> None:
    """ADP-6.37: neither while its requests hang nor when its circuit is open."""
    hosts.send_many(*dead)
    until(lambda: hosts.stage.begun() >= 20)
    for number in range(3):
        before = time.monotonic()
        sent = hosts.stage.outcome(hosts.stage.send(lives, f"hi {number}", f"lives-{number}"))
        assert sent["result"] == "sent"
        assert time.monotonic() - before < 10  # a held one comes again after 15 s and more
        if not number:
            until(lambda: held_back(hosts.stage, lives.partition(":")[0]), 60)
    assert len(hosts.lives.got) == 3


def held_back(stage: Stage, platform: str) -> bool:
    """Whether the courier says that a chat of it does not answer."""
    status = read_status(stage.desk.root / "bus")
    return bool(status and status.platforms.get(platform, {}).get("chats_held"))
