"""
What a unit says: systemd's (systemd.service(5), systemd.exec(5)) and launchd's (launchd.plist(5)).

Rule 1: pure. Rule 2: the interpreter is absolute and the environment is written down: a service
manager has neither the PATH nor the variables of a shell. Rule 3: no credential gets in by itself.
"""

import plistlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, NamedTuple
from unicodedata import category

from wakebus.broker.settings import Settings
from wakebus.broker.user_unit import BROKER, ROOT_LINE, label_of, unit_of

ROOT: Final = "HERMES_BUS_ROOT"
# A proxy's may hold a password: the file is private.
_PROXIES: Final = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")
_OTHERS: Final = ("PATH", "LANG", "TZ", "HERMES_HOME", "SSL_CERT_FILE", "SSL_CERT_DIR")
PASSED: Final = (*_OTHERS, *_PROXIES, *(name.upper() for name in _PROXIES))
_SETTINGS: Final = tuple(f"WAKEBUS_{name.upper()}" for name in Settings.__struct_fields__)


class Service(NamedTuple):
    """
    A process that is to be kept running. `name`: `broker`, or `listen-NAME`; `command`: its first
    word is absolute; `environment` holds the root of the bus; `log`: where launchd puts what it
    prints.
    """

    name: str
    description: str
    command: tuple[str, ...]
    environment: Mapping[str, str]
    folder: Path
    log: Path


def passed_environment(environ: Mapping[str, str], extra: Iterable[str]) -> dict[str, str]:
    """
    Return the variables that a service gets of `environ`; `extra`: names that were asked for.

    What cannot stand in a unit is left out.
    """
    wanted = [*PASSED, *_SETTINGS, *(one for one in environ if one.startswith("LC_")), *extra]
    found = {name: environ[name] for name in dict.fromkeys(wanted) if name in environ}
    return {name: value for name, value in found.items() if fits_unit(value)}


def fits_unit(text: str) -> bool:
    """Whether a unit can hold `text`: no byte that was no UTF-8, no control but `\\n` and `\\t`."""
    return not any(category(char) in ("Cs", "Cc") and char not in "\n\t" for char in text)


def fits_line(path: str) -> bool:
    """Whether `path` can be a whole line of systemd's, which knows no quotes there."""
    ends_well = path == path.rstrip() and not path.endswith("\\")
    return fits_unit(path) and path.splitlines() == [path] and ends_well


def systemd_unit(service: Service) -> str:
    """Return the text of a unit for a user's systemd (since 244)."""
    broker = service.name == BROKER
    # A broker whose place is taken gives up; a listener waits until its name is free.
    limit = [] if broker else ["StartLimitIntervalSec=0"]
    after = [] if broker else [f"Wants={unit_of(BROKER)}", f"After={unit_of(BROKER)}"]
    lines = [
        f"# Made by: wakebus install service. To change it: systemctl --user edit "
        f"{unit_of(service.name)}",
        "[Unit]",
        f"Description={_percent(service.description)}",
        *after,
        *limit,
        "",
        "[Service]",
        "Type=exec",
        # ":": no `$` is a variable; `$$` would stay two in the program's path.
        f"ExecStart=:{' '.join(map(_quoted, service.command))}",
        f"WorkingDirectory={_percent(str(service.folder))}",
        *(f"Environment={_quoted(f'{k}={v}')}" for k, v in sorted(service.environment.items())),
        "Restart=on-failure",  # `hermes-busd stop` ends it well: stopped is stopped
        f"RestartSec={1 if broker else 5}",
        # It ends its own children; a broker that a listener has started is not to end with that.
        f"KillMode={'mixed' if broker else 'process'}",
        "TimeoutStopSec=30",
        "UMask=0077",
        "",
        "[Install]",
        "WantedBy=default.target",
        "",
        "[X-Wakebus]",
        f"{ROOT_LINE}{service.environment[ROOT]}",
    ]
    return "\n".join(lines) + "\n"


def _quoted(word: str) -> str:
    for char, escaped in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\t", "\\t")):
        word = word.replace(char, escaped)
    return f'"{_percent(word)}"'


def _percent(text: str) -> str:
    return text.replace("%", "%%")


def launchd_plist(service: Service) -> str:
    """Return the text of a property list for launchd (macOS)."""
    facts = {
        "Label": label_of(service.name),
        "ProgramArguments": [*service.command],
        "EnvironmentVariables": dict(sorted(service.environment.items())),
        "WorkingDirectory": str(service.folder),
        "RunAtLoad": True,
        "KeepAlive": {"SuccessfulExit": False},
        "ThrottleInterval": 5,
        "ExitTimeOut": 30,
        "Umask": 0o077,
        "ProcessType": "Interactive",  # else its timers are slowed down
        "StandardOutPath": str(service.log),
        "StandardErrorPath": str(service.log),
    }
    return plistlib.dumps(facts, sort_keys=False).decode()
