"""
The service that takes texts to chats: endpoint `courier`, one message at a time per lane.

Rule 1: what becomes of a message is handler.py's. Rule 2: a courier never starts a broker and never
gives up: it waits for its name. Rule 3: told to stop, or without its name, it begins nothing more.
Rule 4: its state stands in a file (status_file.py), on which no delivery rests.
"""

import logging
import random
import signal
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Final, TextIO, TypeVar

from wakebus.adapters.base import COURIER
from wakebus.adapters.courier.delivery_log import DeliveryLog
from wakebus.adapters.courier.handler import Courier
from wakebus.adapters.courier.lane_backoff import backoff
from wakebus.adapters.courier.status_file import StatusFile
from wakebus.adapters.inspect.set_up import PlatformsSetUp
from wakebus.adapters.settings.environment import Environment
from wakebus.adapters.transports import transports
from wakebus.broker import Client
from wakebus.broker.errors import WakebusError
from wakebus.broker.paths import bus_dir

log = logging.getLogger(__name__)
T = TypeVar("T")

LOG: Final = "courier.db"
ASKED_S: Final = 0.05  # between looks whether a signal came
CHECK_S: Final = 0.5  # between looks whether the name was lost
DRAIN_S: Final = 1.2  # for requests under way at the end; the broker kills a service after 2 s


def serve(stop: threading.Event) -> int:
    """Run as a child of the broker until `stop` is set; return the exit code."""
    return run(stop)


def run_foreground(*, takeover: bool = False) -> int:
    """
    Run in this terminal until Ctrl-C or SIGTERM; console chats are shown as well as kept.

    `takeover`: take the name from the broker's own courier, which has it again afterwards.
    """
    stop = threading.Event()
    asked: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        # Not stop.set(): the signal may fall while this thread is inside the Event's own lock.
        signal.signal(number, lambda number, _: asked.append(number))
    threading.Thread(target=_stop_when, args=(asked, stop), daemon=True).start()
    return run(stop, echo=sys.stdout, takeover=takeover)


def _stop_when(asked: list[int], stop: threading.Event) -> None:
    while not asked:
        time.sleep(ASKED_S)
    stop.set()


def run(stop: threading.Event, *, echo: TextIO | None = None, takeover: bool = False) -> int:
    """Hold the endpoint `courier` until `stop` is set, and again whenever it was lost."""
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.INFO)
    folder = bus_dir()
    delivery_log = DeliveryLog(folder / LOG)
    env = Environment()
    courier = Courier(transports(folder, echo, env), delivery_log, env=env, folder=folder)
    set_up = PlatformsSetUp(env, Environment({}, env.file, warn=lambda *_: None))
    status = StatusFile(folder, courier.admission.state, time.time(), env.file.absolute(), set_up)
    # The client first: it waits for the broker, which makes the folder.
    if client := persist(Client, stop):
        with client:
            persist(delivery_log.open, stop)
            persist(courier.restore_cooldowns, stop)
            while halt := persist(partial(register, client, courier, takeover), stop):
                takeover = False  # once: whoever takes the name from us keeps it
                maintain(courier, status, stop, halt)
            courier.drain(DRAIN_S)
            courier.save_cooldowns()
            status.write(time.time(), anew=True)
    delivery_log.close()
    return 0


def maintain(
    courier: Courier, status: StatusFile, stop: threading.Event, halt: threading.Event
) -> None:
    """Keep the files in order until `stop` or `halt` is set; then nothing more is begun."""
    status.claim()  # perhaps another courier wrote it last
    while not halt.is_set():
        status.write(time.time())
        courier.attachments.sweep(time.time())
        courier.save_cooldowns()
        if stop.wait(CHECK_S):
            halt.set()
            return
    status.release()


def register(client: Client, courier: Courier, takeover: bool) -> threading.Event:
    """Register once; return what is set when the name goes to another."""
    halt = threading.Event()

    def on_lost(why: str) -> None:
        log.warning("%s: the name is lost: %s", COURIER, why)
        halt.set()

    handle = partial(courier.handle, halt=halt)
    epoch = client.register(COURIER, handle, takeover=takeover, on_lost=on_lost)
    log.info("holding %s, epoch %d", COURIER, epoch)
    return halt


def persist(step: Callable[[], T], stop: threading.Event) -> T | None:
    """Return what `step` returns once it raises no WakebusError; None when `stop` is set."""
    tries, said = 0, ""
    while not stop.is_set():
        try:
            return step()
        except WakebusError as exc:
            if said != exc.text:  # once per reason, not once per second
                said = exc.text
                log.warning("%s: not yet (%s): %s", COURIER, exc.code, said)
        stop.wait(backoff(tries, random.random()))
        tries += 1
    return None
