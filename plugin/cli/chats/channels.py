"""
`wakebus channels [PLATFORM]`, `wakebus channels check [PLATFORM]`: what is set up for chats.

Rule 1: listing asks nobody, neither a platform nor the bus. Rule 2: checking sends nothing to
anybody, and takes no longer than a platform may take to answer. Rule 3: no secret is shown.
Exit status: 0 done, 1 a check failed or the platform is not set up, 2 usage.
"""

import argparse
import sys
import time
from collections.abc import Mapping
from typing import Any, Final

from wakebus.adapters import registry
from wakebus.adapters.courier.status_file import elsewhere, is_hidden, read_status
from wakebus.adapters.errors import BadSetting
from wakebus.adapters.inspect.check_all import check_all
from wakebus.adapters.inspect.describe import describe, missing_text
from wakebus.adapters.settings.environment import Environment
from wakebus.broker.paths import bus_dir, hermes_home
from wakebus.plugin.cli.chats.channels_text import (
    COLUMNS,
    courier_words,
    platform_rows,
    settings_words,
)
from wakebus.plugin.cli.command import Command
from wakebus.plugin.cli.output import (
    FAILED,
    OK,
    Parser,
    Usage,
    echo,
    echo_json,
    echo_table,
    show_env_path,
)

CHECK: Final = "check"
_COURIER: Final = ("pid", "started", "at", "alive", "settings")

EXAMPLES: Final = """\
examples:
  wakebus channels                  every platform: what is set up, and what is missing
  wakebus channels telegram         one of them: all its settings, limits, what the courier does
  wakebus channels check            ask each platform that is set up whether it takes the credential
  wakebus channels check telegram   ask this one

Settings stand in $HERMES_HOME/.env (default ~/.hermes/.env), under the names that Hermes uses.

exit status: 0 done, all checks good; 1 a check failed, or that platform is not set up; 2 usage"""


def _options(parser: Parser) -> None:
    parser.add_argument("word", nargs="?", metavar="PLATFORM|check", help="one platform; or check")
    parser.add_argument("platform", nargs="?", metavar="PLATFORM", help="the platform to check")
    parser.floating = ("word", "platform")


def run(args: argparse.Namespace) -> int:
    """List, show one, or check."""
    env = Environment()()
    if args.word == CHECK:
        return run_check(args.platform, env, as_json=args.json)
    if args.platform is not None:
        raise Usage(f"{args.word!r} is not `check`; one platform at a time")
    if args.word is not None:
        registry.load(args.word)  # an unknown one is an error here, and one that is broken
    names = registry.known() if args.word is None else [args.word]
    courier = read_status(bus_dir())
    now = courier.platforms if courier and courier.alive else {}
    found = [{**describe(name, env, registry.load), "now": now.get(name)} for name in names]
    if args.json:
        said = {name: getattr(courier, name) for name in _COURIER} if courier else None
        echo_json({"courier": said, "channels": found})
        return OK
    at, own = time.time(), hermes_home() / ".env"
    echo_table(COLUMNS, platform_rows(found, at, whole=args.word is not None))
    echo(f"\ncourier: {courier_words(courier, at, hidden=is_hidden(bus_dir()))}")
    echo(f"settings: {settings_words(str(own), elsewhere(courier, own))}")
    if args.word is None:
        echo("One platform: wakebus channels PLATFORM\nTry the credentials: wakebus channels check")
    return OK


def run_check(platform: str | None, env: Mapping[str, str], *, as_json: bool) -> int:
    """Check the credentials of one platform, or of all that are set up; print what they said."""
    names = platforms_to_check(platform, env)
    own = hermes_home() / ".env"
    if other := elsewhere(read_status(bus_dir()), own):
        echo(f"note: checked is {settings_words(str(own), other)}", error=True)
    if sys.stderr.isatty() and not as_json:
        echo(f"asking {', '.join(names)} …", error=True)
    results = []
    for name, (word, text) in check_all(names, env):
        results.append({"platform": name, "result": word, "text": show_env_path(text)})
        if not as_json:
            echo(line_of(results[-1]))
    if as_json:
        echo_json({"checks": sorted(results, key=lambda one: one["platform"])})
    return FAILED if any(one["result"] == "failed" for one in results) else OK


def platforms_to_check(platform: str | None, env: Mapping[str, str]) -> list[str]:
    """Return what is to be checked; raise UnknownAdapter, or BadSetting for what is not set up."""
    if platform is None:
        every = [describe(name, env, registry.load) for name in registry.known()]
        return [one["platform"] for one in every if in_use(one)]
    registry.load(platform)
    found = describe(platform, env, registry.load)
    if found["state"] != "unset":
        return [platform]
    groups = found["missing"]
    what = f"set {missing_text(groups)} in $HERMES_HOME/.env" if groups else ""
    raise BadSetting(f"{platform} is not set up: {what or found['problem']}")


def in_use(one: Mapping[str, Any]) -> bool:
    """Whether anything is set up there; one that works without settings is not asked unbidden."""
    if one["state"] == "wrong":
        return True
    return one["state"] == "ready" and bool(one["settings"] or one["home"] or not one["unset"])


def line_of(one: Mapping[str, str]) -> str:
    """Return one result as a line."""
    word = "skipped" if one["result"] == "none" else one["result"]
    return f"{word}: {one['platform']}: {one['text']}"


COMMAND: Final = Command(
    options=_options,
    run=run,
    description="Show the chat platforms: what is set up (secrets as ***), what is missing, "
    "the home channel, limits, and what the courier is doing there. `check` asks the platforms "
    "whether they take the credentials; it sends nothing to any chat.",
    epilog=EXAMPLES,
    json="print one JSON object, errors too",
)
