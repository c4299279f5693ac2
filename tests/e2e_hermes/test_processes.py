"""Which processes of Hermes are on the bus, under which names, and for how long (HERMES-2)."""

import json
import os
import re
import signal

from e2e_hermes.conftest import MakeWorld
from e2e_hermes.world import GATEWAY, World
from wakebus.broker.system.lock_file import lock_holder


def broker_pid(world: World) -> int | None:
    """Return the pid of the world's broker, whoever started it."""
    folder = world.root / "bus"
    return lock_holder(folder) if folder.exists() else None


def test_one_shots_open_nothing(make_world: MakeWorld) -> None:
    """HERMES-2.3, peer failure 9: no endpoint, no broker, no folder of the bus."""
    world = make_world()
    assert "answer to what is new" in world.chat("what is new")
    world.hermes("plugins", "list", "--plain")
    world.hermes("cron", "list")
    assert broker_pid(world) is None and not (world.root / "bus" / "address.json").exists()


def test_terminals_get_names_of_their_own(make_world: MakeWorld) -> None:
    """HERMES-2.4, HERMES-2.6, HERMES-2.8, HERMES-2.11: by profile, then -2; each is given back."""
    world = make_world()
    home = world.root / "profiles" / "work"
    home.mkdir(parents=True)
    (home / "config.yaml").write_text((world.root / "config.yaml").read_text())
    first = world.cli()
    world.wait_registered("hermes-bus")
    second = world.cli()
    world.wait_registered("hermes-bus-2")
    second.type("/bus")
    second.shows("endpoint: hermes-bus-2 (cli)")
    second.type("/exit")
    world.wait_gone("hermes-bus-2")
    first.close()
    world.wait_gone("hermes-bus")
    world.cli("-p", "work")
    world.wait_registered("work")


def test_the_model_sees_the_tools_and_calls_them(world: World) -> None:
    """HERMES-5.1, HERMES-5.4, HERMES-5.11: in a chat; the channel is that chat's; /bus answers."""
    world.wait_registered(GATEWAY)
    with world.client() as bus:
        bus.declare("worker-alpha")
    args = {"target": "worker-alpha", "type": "directive", "text": "from the chat"}
    request = world.begin("dm1", "u1", f"CALL:bus_send {json.dumps(args)}")
    world.answered("dm1", "called: ")
    ours = {"bus_send", "bus_status", "bus_info", "bus_read"}
    # 0.22 shows the bridge in their place, whose description lists them.
    assert ours <= set(request.tools) or all(name in request.shown_tools for name in ours)
    with world.client() as bus:
        (row,) = bus.inbox("worker-alpha")
        message = bus.read(row["id"])
    assert message.sender == GATEWAY and message.channel == "mattermost:dm1"
    assert message.text == "from the chat" and message.cause is None
    world.say("dm2", "u2", "/bus")
    page = world.answered("dm2", f"endpoint: {GATEWAY} (gateway)").text
    assert "turns in chats: on" in page and "broker: running" in page
    world.say("dm2", "u2", "/bus send worker-beta by hand")
    world.answered("dm2", "/bus who lists them.")
    world.say("dm2", "u2", "/bus send worker-alpha by hand")
    world.answered("dm2", "the answer is to come to this chat")
    with world.client() as bus:
        sent = [bus.read(one["id"]) for one in bus.inbox("worker-alpha")]
    assert "mattermost:dm2" in [one.channel for one in sent if one.text == "by hand"]


def test_a_gateway_keeps_its_name(world: World) -> None:
    """HERMES-2.7, HERMES-2.11, HERMES-2.12: over its own restart and the broker's death."""
    world.wait_registered(GATEWAY)
    killed = broker_pid(world)
    assert killed
    os.kill(killed, signal.SIGKILL)
    world.wait(lambda: broker_pid(world) not in (None, killed), "the broker is started again")
    world.wait_registered(GATEWAY)
    world.gateway.stop()
    world.wait_gone(GATEWAY)
    world.gateway.start()
    world.wait_registered(GATEWAY)
    assert f"on the bus as {GATEWAY} (gateway; rules: default rules)" in world.gateway.log


def test_who_answers_nobody_takes_no_message(make_world: MakeWorld) -> None:
    """
    HERMES-2.3: `hermes chat -q`, cron, `mcp serve` and `acp`, for whom a message waits.

    The last two serve another program as long as it talks to them; without their packages, which
    Hermes does not install by itself, they end at once.
    """
    world = make_world()
    world.start()
    waiting = {}
    for name in ("hermes-bus", GATEWAY):
        world.declare(name)
        words = ("--to", name, "--type", "directive", "do not end with me")
        waiting[name] = str(world.sent(*words)["id"])
    assert "answer to what is new" in world.chat("what is new")
    created = world.hermes("cron", "create", "every 1m", "what is due").out
    job = re.search(r"\b[0-9a-f]{12}\b", created)
    assert job, created
    world.hermes("cron", "run", job[0])
    world.hermes("cron", "tick")
    assert world.requests("what is due")
    for server in (("mcp", "serve"), ("acp",)):
        world.hermes(*server)  # its input ends at once
        assert not world.live(), server
    for name, id in waiting.items():
        assert world.traced(id)["state"] == "queued", name
    assert "wakebus: no " not in world.gateway.log
