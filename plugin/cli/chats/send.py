"""
`wakebus send CHANNEL ["text"] [--file PATH]`: through the courier to a chat, and what became of it.

`--dry-run` shows the redacted requests instead: no network, no bus. Exit status: 0 sent (or shown),
1 rejected or not sent, 2 usage, 5 uncertain.
"""

import argparse
import hashlib
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from wakebus.adapters import channel, registry
from wakebus.adapters.base import COURIER, File, Outgoing
from wakebus.adapters.channel import Channel
from wakebus.adapters.courier.status_file import elsewhere, read_status
from wakebus.adapters.delivery import attachments
from wakebus.adapters.delivery.adapter_calls import GuardedAdapter
from wakebus.adapters.delivery.deliver import check_size, reply_to_of
from wakebus.adapters.errors import BadChannel, Unavailable, UnknownAdapter
from wakebus.adapters.settings.environment import Environment
from wakebus.broker.client.client import Client
from wakebus.broker.duration import span_text
from wakebus.broker.errors import TimedOut, Undecided, WakebusError
from wakebus.broker.paths import bus_dir
from wakebus.broker.protocol.message import DEFAULT_TTL_S, from_wire, new_id
from wakebus.broker.protocol.receipt import Receipt
from wakebus.broker.system.durable_file import put_in_place
from wakebus.plugin.cli import message_body, notify
from wakebus.plugin.cli.chats.results import explain, unsettled
from wakebus.plugin.cli.command import Command
from wakebus.plugin.cli.output import (
    Parser,
    Usage,
    echo,
    echo_json,
    one_line,
    path_text,
    show_env_path,
)
from wakebus.plugin.cli.progress import waiting

WAIT_S: Final = 30.0

EPILOG: Final = """\
platforms: {platforms}
(settings, home channels and limits of each: wakebus channels)

examples:
  wakebus send console:demo "Hello"                     into bus/console-demo.log, to try it out
  wakebus send telegram:-1001234 "Deploy at noon"
  wakebus send slack "Nightly is done"                  to the home channel of slack
  wakebus send feishu:oc_1?thread=om_2 "Fixed"          into a thread
  make 2>&1 | tail -50 | wakebus send ntfy:builds -     the text from standard input
  wakebus send discord:1234 "The log" --file build.log
  wakebus send telegram:-1001234 --at 18:00 "Deploy"    wakebus cancel ID takes it back

exit status: 0 sent, or kept until its time; 1 rejected or not sent, or the bus is not running;
2 usage; 5 uncertain: it may have been accepted (also while it waits to be sent again)"""


def _options(parser: Parser) -> None:
    parser.add_argument(
        "channel", metavar="CHANNEL", help="platform:chat_id; platform alone: its home channel"
    )
    parser.add_argument("text", nargs="?", metavar="TEXT", help="the text; - reads stdin")
    parser.add_argument(
        "--file",
        type=path_text,
        metavar="PATH",
        help="a file, behind the text or alone, where the platform takes one",
    )
    parser.add_argument(
        "--reply-to",
        metavar="ID",
        help="the platform's id of the message that this answers; ignored where it cannot be shown",
    )
    parser.add_argument(
        "--wait",
        type=notify.seconds,
        metavar="S",
        help=f"seconds to wait for the result (default {WAIT_S:g}; of what goes out later: none)",
    )
    notify.add_delivery(parser)
    parser.add_argument("--from", dest="sender", metavar="N", help="sender (default: found)")
    parser.add_argument("--id", metavar="I", help="message id: resend what was undecided")
    parser.add_argument("--key", metavar="K", help="send once per key in 24 h")
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="print the requests that would be sent, secrets masked; send nothing",
    )
    parser.floating = ("text",)
    parser.set_defaults(
        **dict.fromkeys(("body", "type", "session", "socket", "config", "wake")),
        to=COURIER,
        queue=True,
    )


def run(args: argparse.Namespace) -> int:
    """Check the channel, hand text and file to the courier, wait, print."""
    body = body_of(args)
    asked = channel_of(args.channel)
    settings = Environment()
    env = settings()
    check_home(asked, settings.file)
    chat = GuardedAdapter.resolve(asked, env)  # a wrong one is told before anything is queued
    if asked.chat_id is None:  # what is shown is where it goes
        body["channel"] = chat.token or args.channel
    if args.file is not None:
        check_file(Path(args.file), chat)
        check_stay(args)
    if args.dry_run:
        return show_dry_run(args, body, env)
    until = notify.end_of_wait(args, WAIT_S if args.wait is None else args.wait)
    with notify.connect(None) as client:
        receipt = _send(client, args, body)
        if receipt.not_before and args.wait is None:
            return notify.show(receipt._replace(to=chat.token or args.channel), args.json)
        notify.tell_delay({COURIER: receipt})
        id, wait = receipt.id, notify.seconds_left(until)
        if not args.json:
            echo(f"queued {id} for the courier", error=True)
        step = f"The courier goes on: wakebus trace {id}\nTo take it back: wakebus cancel {id}"
        try:
            with waiting(client, id, wait, step=step, as_json=args.json):
                receipt = client.wait(id, wait)
        except TimedOut as exc:
            raise unsettled(client, receipt, exc) from exc
    return show(receipt, as_json=args.json)


def body_of(args: argparse.Namespace) -> dict[str, Any]:
    """Return the message's body, still without the file. Raises Usage."""
    if not args.channel.strip():
        raise Usage("the channel is empty; write platform:chat_id, as console:demo")
    if args.text is None and args.file is None:
        raise Usage("give a text, - to read it from standard input, or --file PATH")
    if args.file == "":
        raise Usage("--file is empty; write the PATH of a file")
    text = {} if args.text is None else message_body.body_of(args)
    body = {"text": "", **text, "type": "say", "channel": args.channel}
    body |= {} if args.reply_to is None else {"reply_to": args.reply_to}
    reply_to_of(body)  # a wrong one is told before anything is queued
    return body


def channel_of(token: str) -> Channel:
    """Return the channel, of a platform that has an adapter. Raises Usage."""
    try:
        named = channel.parse(token)
        registry.load(named.platform)
    except (BadChannel, UnknownAdapter) as exc:
        raise Usage(exc.text, **exc.data) from exc
    return named


def check_home(named: Channel, own: Path) -> None:
    """
    Say that the courier reads another `.env` than `own`, if it does.

    Raises BadChannel for a bare platform then: its home channel and its account are others there.
    """
    other = elsewhere(read_status(bus_dir()), own)
    if other and named.chat_id is None:
        raise BadChannel(
            f"{named.token}: the courier reads {other}, not {own}; its home channel and its account"
            f" may be others there. Write the chat, as {named.token}:CHAT_ID, or use that home:"
            f" HERMES_HOME={Path(other).parent}"
        )
    if other:
        echo(f"note: the courier reads {other}, not {own}; what is set there counts", error=True)


def check_file(path: Path, chat: GuardedAdapter) -> None:
    """Raise Rejected where this platform does not take a file, or none of this size."""
    try:
        size = path.stat().st_size
    except (OSError, ValueError):
        size = 0  # what is wrong with it is said when it is read
    check_size(chat, size)


def check_stay(args: argparse.Namespace) -> None:
    """Raise Usage where the file's copy would be gone before its text is given up."""
    delay = max(0.0, (args.not_before or 0.0) - time.time())
    if delay + (DEFAULT_TTL_S if args.ttl is None else args.ttl) > attachments.KEEP_S:
        raise Usage(
            f"the copy of a file is kept for {span_text(attachments.KEEP_S)}, and this text may "
            "wait longer; send it sooner, or with a shorter --ttl"
        )


def _send(client: Client, args: argparse.Namespace, body: Mapping[str, Any]) -> Receipt:
    """
    Send; with a file, its copy is stored before, and gone if nothing was accepted.

    Whatever else ends this, Ctrl-C above all, says nothing of that: the copy stays, and is swept.
    """
    if args.file is None:
        return notify.send(client, args, body)
    folder = bus_dir()
    args.id = args.id or new_id(time.time())
    held, fresh = _stored(Path(args.file), args.id, folder)
    whole = {**body, "file": held}
    try:
        receipt = notify.send(client, args, whole)
    except WakebusError as exc:
        if fresh and not isinstance(exc, Undecided):
            attachments.forget(whole, folder)
        raise
    if fresh and receipt.id != args.id:  # it was sent before, by this key
        attachments.forget(whole, folder)
    return receipt


def _stored(path: Path, id: str, folder: Path) -> tuple[dict[str, Any], bool]:
    """
    Copy the file to the attachments; return `body.file`, and whether that copy is a new one.

    The same file under the same id gives the same body: what was undecided can be sent again.
    Raises Rejected and Unavailable, naming the path.
    """
    held = attachments.store(path, folder)
    name = "\0".join((id, held["sha256"], held["name"]))
    copy = hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()[:32]
    stored = folder / attachments.FOLDER
    try:
        fresh = not (stored / copy).exists()
        put_in_place(stored / held["copy"], stored / copy)
    except OSError as exc:
        attachments.forget({"file": held}, folder)
        raise Unavailable(f"file {str(path)!r} cannot be kept in {stored}: {exc.strerror}") from exc
    return held | {"copy": copy}, fresh


def show_dry_run(args: argparse.Namespace, body: Mapping[str, Any], env: Mapping[str, str]) -> int:
    """Show what would be sent; no network, no bus."""
    from wakebus.adapters.inspect.dry_run import dry_run

    chat = GuardedAdapter.resolve(channel.parse(args.channel), env)
    now = time.time()
    key = checked_id(args, body, now)
    file = None if args.file is None else _read(Path(args.file))
    message = Outgoing(body["text"], key, reply_to=args.reply_to, file=file)
    return show_requests(dry_run(chat, message, now, env), as_json=args.json)


def _read(path: Path) -> File | None:
    """Return the file as the courier would read it; its copy is gone again."""
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as folder:
        return attachments.load({"file": attachments.store(path, Path(folder))}, Path(folder))


def checked_id(args: argparse.Namespace, body: Mapping[str, Any], now: float) -> str:
    """Return the id the message would have; raises what `send` would say of it."""
    id_ = new_id(now) if args.id is None else args.id
    sender = COURIER if args.sender is None else args.sender  # any good name: none is looked up
    message = {"id": id_, "ts": now, "from": sender, "to": COURIER, "body": body}
    return from_wire(message | ({} if args.key is None else {"key": args.key})).id


def show(receipt: Receipt, *, as_json: bool) -> int:
    """Print the channel result; return the exit status."""
    outcome = dict(receipt.outcome or {})
    if receipt.state == "dead" and "channel" not in outcome:
        outcome["channel"] = {"result": "rejected", "reason": receipt.reason}
    status, line = explain(outcome)
    if as_json:
        echo_json({"id": receipt.id, "state": receipt.state, **outcome})
    else:
        echo(show_env_path(one_line(line)), error=status != 0)
    return status


def show_requests(shown: Mapping[str, Any], *, as_json: bool) -> int:
    """Print what a dry run found; return the exit status."""
    if as_json:
        echo_json({"dry_run": True, **shown})
        return 0
    total = len(shown["parts"])
    echo(f"dry run: nothing is sent. {shown['chat']}, {total} part{'s' * (total > 1)}")
    if shown["lookup"]:
        echo(_block("the chat's own id, looked up once an hour", {"way": "", **shown["lookup"]}))
    for number, request in enumerate(shown["tokens"]):
        echo(_block("access token, fetched once and kept" if not number else "", request))
    for part in shown["parts"]:
        _tell_part(part, total, f"{shown['limit']} {shown['unit']}")
    return 0


def _tell_part(part: Mapping[str, Any], total: int, limit: str) -> None:
    size = part.get("file") or f"{part['size']} of {limit}"
    for number, request in enumerate(part["requests"]):
        first = f"part {part['part']} of {total} ({size})"
        title = first if not number else "if that way is closed or fails"
        if upload := request.get("upload"):
            echo(_block(f"{title}: brought there first", {"way": request["way"], **upload}))
        echo(_block(title, request))


def _block(title: str, request: Mapping[str, Any]) -> str:
    way = f"way {request['way']}" if request["way"] else ""
    head = f"\n# {', '.join(filter(None, (title, way)))}"
    if "error" in request:
        return f"{head}\nnot this way: {request['error']}"
    headers = "".join(f"\n{name}: {value}" for name, value in request["headers"].items())
    # Exact, and to be seen: JSON says the same by its escape.
    body = request["body"].replace("\u200b", "\\u200b")
    return f"{head}\n{request['method']} {request['url']}{headers}\n\n{body}"


COMMAND: Final = Command(
    options=_options,
    run=run,
    description="Send a text, a file or both to a chat through the courier; print what the "
    "chat's platform said. To send to an agent instead: notify-hermes, or wakebus ask.",
    epilog=EPILOG.format(platforms=", ".join(registry.known())),
    json="print one JSON object, errors too",
)
