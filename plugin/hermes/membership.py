"""
A listening process of Hermes on the bus: its broker, name, rules, host, from joining to leaving.

Rule 1: a broker that is missing is started; one that somebody stopped is started once, when Hermes
starts, and then left alone. Rule 2: a terminal takes the next free name (`hermes-bus-2`), so does a
TUI, a gateway waits until its own is free: it is where messages are sent to. Rule 3: a name that
was taken over is not fought for; sending goes on. Rule 4: no text of a message is logged. Rule 5:
what is of one kind of host is loaded only there.
"""

import logging
import os
import threading
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from wakebus.broker import Client, Delivery, Later, Refusal
from wakebus.broker.errors import NameTaken, NotRunning, WakebusError
from wakebus.broker.paths import bus_dir, stop_mark
from wakebus.plugin.hermes.endpoint_name import endpoint_name, profile_of
from wakebus.plugin.hermes.host_api.choose import Inject, gateway_api, terminal_api, tui_api
from wakebus.plugin.hermes.host_api.protocol import GatewayApi, LiveHost
from wakebus.plugin.hermes.isolated.isolation import is_isolated
from wakebus.plugin.hermes.profile_environ import ProfileEnviron
from wakebus.plugin.hermes.profile_home import ProfileHome
from wakebus.plugin.hermes.shared.turn_tracker import TurnTracker
from wakebus.plugin.prompt.pending_context import Context, context_file
from wakebus.plugin.receive.answers import Answers
from wakebus.plugin.receive.dispatch import Dispatch
from wakebus.plugin.receive.event_rules import RuleSubscriptions
from wakebus.plugin.receive.host import Host
from wakebus.plugin.receive.maintenance import Maintenance, print_warnings, start_broker
from wakebus.plugin.receive.message_file import remove_stale_files
from wakebus.plugin.receive.terminal_output import TerminalOutput
from wakebus.plugin.rules.load import NAME, RulesFile
from wakebus.plugin.turns.flood_limit import FloodLimit

log = logging.getLogger("wakebus")

ENDED: Final = "this process of Hermes is leaving the bus"
GONE: Final = "the broker is gone; what is sent here waits until it is back"
BACK: Final = "the broker is back"
STOPPED: Final = "the broker was stopped by hand; start it: hermes-busd start"

# Returns the host for an endpoint's name, and what its prints go to.
MakeHost = Callable[[LiveHost, str, Answers, threading.Event], tuple[Host, TerminalOutput]]


class Registered(Protocol):
    """
    Whom Hermes has registered the plugin for. `told_name`, `inject`: what Hermes gave.

    `home`: the profile's; `tracker`: which of its turns are ours.
    """

    home: ProfileHome
    told_name: str
    inject: Inject | None
    tracker: TurnTracker

    def tell_failure(self, text: str) -> None:
        """Tell the user what should be known."""

    def endpoint_of(self, profile: str) -> str:
        """Return the endpoint of another profile of this process, "" where it has none."""


class Membership:
    """
    `live` on the bus, for `owner`. `endpoint`: "" until registered; `lost`: why it is no longer.

    `in_hand`: messages that are being worked on.
    """

    def __init__(
        self, live: LiveHost, owner: Registered, make_host: MakeHost | None = None
    ) -> None:
        self.live, self._owner = live, owner
        home, self._rules_path = owner.home, owner.home.path / NAME
        self._home = home._replace(launched=home.launched and live.launched)
        # Of a profile beside others the files count: the process's environment is the launcher's.
        apart = bool(live.profile) or not self._home.launched
        self._environ = ProfileEnviron(self._home) if apart else os.environ
        self._make_host = make_host or self._host
        self.rules: RulesFile | None = None
        self.client: Client | None = None
        self.host: Any = None
        self.context: Context | None = None
        self.endpoint = self.lost = ""
        self.in_hand = 0
        self._broker_asked = False
        self._name_note = ""
        self._broker_there = True  # once registered
        self._stop, self._ready = threading.Event(), threading.Event()
        self._in_hand_lock = threading.Lock()
        self._dispatch: Dispatch | None = None
        self._maintenance: Maintenance | None = None

    # --- joining --------------------------------------------------------------------------

    def join(self) -> None:
        """Be on the bus when this returns. Raises WakebusError: call it again later."""
        if self.rules is None:
            self.rules = RulesFile(self._rules_path, on_error=self._on_rules_error)
            print_warnings(self.rules.current(), self._say)
        if self.client is None:
            self._ensure_broker()
            self.client = Client()
        self._register(self.rules, self.client)

    def _ensure_broker(self) -> None:
        if self._broker_asked and stop_mark(bus_dir()).exists():
            raise NotRunning(STOPPED)
        self._broker_asked = True
        remove_stale_files()
        start_broker()

    def _register(self, rules: RulesFile, client: Client) -> None:
        asked = self._name(rules)
        several = self.live.mode != "gateway"
        try:
            client.register(asked, self._receive, suffix=several, on_lost=self._on_lost)
        except NotRunning:
            self.client = None  # it may have been another broker's address
            client.close()
            raise
        try:
            self._open(client.names.get(asked, asked), rules, client)
        except Exception:
            self.client = None
            client.close()
            raise
        self._ready.set()
        log.info("on the bus as %s (%s; rules: %s)", self.endpoint, self.live.mode, self._source())

    def _name(self, rules: RulesFile) -> str:
        found = endpoint_name(
            self.live.mode,
            given=self._environ.get("HERMES_BUS_ENDPOINT", ""),
            ruled=rules.current().endpoint or "",
            profile=profile_of(str(self._home.path), self.live.profile or self._owner.told_name),
        )
        if found.note and found.note != self._name_note:
            self._name_note = found.note
            log.warning("%s", found.note)
        return found.name

    def _open(self, name: str, rules: RulesFile, client: Client) -> None:
        """Make what receives as `name`; messages wait for it in `_receive`."""
        answers = Answers(client, name, self._stop)
        self.host, terminal = self._make_host(self.live, name, answers, self._stop)
        self.context = Context(context_file(bus_dir(), name))
        self._dispatch = Dispatch(
            name,
            rules,
            self.host,
            answers,
            self.context,
            terminal=terminal,
            environ=self._environ,
            limit=FloodLimit.load(bus_dir(), self._environ),
        )
        events = RuleSubscriptions(client, name, rules, self._say)
        self._maintenance = Maintenance(client, rules, events, self._say)
        self.endpoint = name

    def _host(
        self, live: LiveHost, endpoint: str, answers: Answers, stop: threading.Event
    ) -> tuple[Host, TerminalOutput]:
        """Return the host of `live`, and what its prints go to; `stop` is set when it leaves."""
        if live.mode == "cli":
            from wakebus.plugin.hermes.terminal.console import CliOutput
            from wakebus.plugin.hermes.terminal.host import CliHost

            terminal = terminal_api(live.object)
            cli = CliHost(terminal, endpoint, answers, self._owner.tracker, stop)
            return cli, CliOutput(terminal.printer)
        from wakebus.plugin.hermes.shared.turn_grant import TurnGrant

        home, granted = self._home, TurnGrant(self._home.path)
        if live.mode == "tui":
            from wakebus.plugin.hermes.tui.host import TuiHost
            from wakebus.plugin.hermes.tui.tui_output import TuiOutput

            server = tui_api(live.object, self._owner.inject, home.key)
            return TuiHost(server, answers, self._owner.tracker, granted, stop), TuiOutput(server)
        from wakebus.plugin.hermes.gateway.foreign_bots import ForeignBots
        from wakebus.plugin.hermes.gateway.host import GatewayHost

        gateway = GatewayHost(
            self._gateway_api(live),
            endpoint,
            answers,
            self._owner.tracker,
            granted,
            stop,
            self._environ,
            neighbour=self._owner.endpoint_of,
            foreign_bot=ForeignBots(answers, home.key, launched=home.launched),
        )
        return gateway, TerminalOutput()

    def _gateway_api(self, live: LiveHost) -> GatewayApi:
        inject = self._owner.inject
        if inject is not None and is_isolated():
            from wakebus.plugin.hermes.isolated.isolated_gateway import IsolatedGateway

            return IsolatedGateway(live.object, inject, environ=self._environ)
        return gateway_api(live.object, inject, live.profile, self._home.key)

    def explain(self, error: WakebusError) -> str:
        """Return an error of `join` as people read it in the log and in /bus."""
        if isinstance(error, NameTaken):
            pid = error.data.get("pid")
            holder = f"process {pid}" if pid else "another process"
            step = "it is taken as soon as that ends; to have two, set HERMES_BUS_ENDPOINT"
            if pid == os.getpid():  # another profile's
                step = f"it is this process; to have two, set bus.endpoint in {self._rules_path}"
            return f"not on the bus: {holder} has the name ({error.text}); {step}"
        step = str(error.data.get("step") or "")
        return f"not on the bus yet: {error.text}{'; ' if step else ''}{step}"

    # --- while it lasts -------------------------------------------------------------------

    def _receive(self, delivery: Delivery) -> Mapping[str, Any] | Later | Refusal:
        self._ready.wait()
        if self._dispatch is None or self._stop.is_set():
            delivery.lost = True
            raise NotRunning(ENDED)
        with self._in_hand_lock:
            self.in_hand += 1
        try:
            return self._dispatch.handle(delivery)
        finally:
            with self._in_hand_lock:
                self.in_hand -= 1

    def maintain(self) -> None:
        """Keep a broker running, follow the rules. Call it a few times a second."""
        if self._maintenance is not None and not self.lost:
            self._maintenance.check()
            self._log_broker()

    def _log_broker(self) -> None:
        """Say once that the broker went away, and once that it is back."""
        there = self.client is not None and self.client.connected(0)
        if there != self._broker_there:
            self._broker_there = there
            self._say(f"{self.endpoint}: {BACK if there else GONE}")

    def _on_lost(self, why: str) -> None:
        self.lost = why
        self._stop.set()
        text = f"{self.endpoint}: {why}; nothing is received here any more"
        self._owner.tell_failure(f"{text}. To have the name again, restart this process")
        if self._dispatch is not None:
            self._dispatch.stop()

    def close(self) -> None:
        """End what runs, give back what was not finished, close the connection."""
        self._stop.set()
        if self._dispatch is not None:
            self._dispatch.stop()
        self._ready.set()
        if self.client is not None:
            self.client.close()
        if self.endpoint:
            log.info("%s has left the bus", self.endpoint)

    def _source(self) -> str:
        return self.rules.current().source if self.rules else ""

    def _on_rules_error(self, error: Exception) -> None:
        log.warning("%s\nThe last good rules stay in force.", error)

    def _say(self, text: str) -> None:
        log.info("%s", text)
