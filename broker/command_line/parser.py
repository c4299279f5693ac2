"""
The parser of every command, on argparse.

Rule 1: with `--json` an error is one JSON object, too. Rule 2: a word that is near to one that
there is, is answered with that one. Rule 3: what the command line holds is text, as the locale
reads it, else as UTF-8; what is neither is an error that names the argument. A path keeps its
bytes.
"""

import argparse
import json
import os
import re
import sys
from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Any, Final, NoReturn

from wakebus.broker.errors import WakebusError
from wakebus.broker.system.standard_files import print_line

USAGE: Final = 2
LONGEST_LINE: Final = 100
LEAST: Final = 24  # columns for what stands behind a command; in fewer nobody reads


class Usage(WakebusError):
    """The command line or the body cannot be sent as it is."""

    code = "usage"


def path_text(given: str) -> str:
    """Return a path as it was given, for argparse's `type`: its bytes need be no text."""
    return given


def input_text(data: bytes) -> str:
    """Return the text on standard input: UTF-8, else as an 8-bit locale has it. Raises Usage."""
    try:
        return data.decode()
    except UnicodeDecodeError as exc:
        coding = sys.getfilesystemencoding()
        if coding in ("utf-8", "ascii"):
            raise Usage(f"standard input is not UTF-8 (byte {exc.start})") from exc
        return data.decode(coding, "replace")


class Parser(argparse.ArgumentParser):
    """
    A parser whose help fits the terminal. No abbreviated options.

    floating: words that are optional and may also stand behind an option. (argparse fills an
    optional word with the first words it meets, and knows none that comes later: bpo-15112.)
    synonyms: what is meant by a word that is no verb here but is one elsewhere.
    """

    floating: tuple[str, ...] = ()
    synonyms: Mapping[str, str] = {}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        defaults: dict[str, Any] = {"formatter_class": _Help, "allow_abbrev": False}
        super().__init__(*args, **(defaults | kwargs))
        self._given: list[str] = []

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Return what argparse finds, put floating words in their places, and decode all."""
        self._given = list(sys.argv[1:] if args is None else args)
        found, rest = super().parse_known_args(args, namespace)
        for name in self.floating:
            if rest and getattr(found, name) is None and (word := _next_word(rest)) is not None:
                setattr(found, name, word)
        self.decode(found)
        return found, rest

    def parse_words(self, words: list[str]) -> argparse.Namespace:
        """Return the arguments; `help VERB` is `VERB --help`. An error is told by its own verb."""
        if words[:1] == ["help"] and self._subparsers is not None:
            words = [*words[1:], "--help"]
        found: argparse.Namespace
        found, unknown = self.parse_known_args(words)
        if unknown:  # argparse would show the usage of the command, not that of the verb
            getattr(found, "parser", self).error(f"unrecognized arguments: {' '.join(unknown)}")
        return found

    def decode(self, found: argparse.Namespace) -> None:
        """Make text of what the locale could not read in `found`; exit where it is none."""
        for action in self._actions:
            value = getattr(found, action.dest, None)
            if action.type is path_text:
                continue
            if isinstance(value, str):
                setattr(found, action.dest, self._text(action, value))
            elif isinstance(value, list):
                texts = [self._text(action, x) if isinstance(x, str) else x for x in value]
                setattr(found, action.dest, texts)

    def _text(self, action: argparse.Action, word: str) -> str:
        try:
            word.encode()
            return word
        except UnicodeEncodeError:
            pass  # bytes that the locale has no character for
        raw = os.fsencode(word)
        try:
            return raw.decode()
        except UnicodeDecodeError:
            coding = sys.getfilesystemencoding()
            also = "" if coding == "utf-8" else f" nor {coding}, the locale's"
            name = "/".join(action.option_strings) or action.metavar or action.dest
            self.error(f"argument {name} is not UTF-8{also}: {raw!r}")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is None or value in action.choices:
            return
        words = [str(one) for one in action.choices]
        meant = self.synonyms.get(str(value)) or near_word(str(value), words)
        hint = f"did you mean {meant}?" if meant else f"there are: {', '.join(words)}"
        raise argparse.ArgumentError(action, f"invalid choice: {value!r}; {hint}")

    def error(self, message: str) -> NoReturn:
        """Say what is wrong with the command line and exit with 2."""
        if message.startswith(("unrecognized", "the following arguments are required")):
            near = "".join(f"; did you mean {one}?" for one in self._near_options())
            message += near or self._hint_of_text(message)
        message += self._hint_of_value(message)
        if "--json" in sys.argv:
            print_line(json.dumps({"error": Usage(message).to_wire()}))
        text = f"{self.format_usage()}{self.prog}: {message}\nMore: {self.prog} --help"
        print_line(_printable(text), error=True)
        raise SystemExit(USAGE)

    def _near_options(self) -> list[str]:
        """Return, for each option that was given and is none, the one that it is near to."""
        known = self._option_string_actions
        own = self._given[: self._given.index("--")] if "--" in self._given else self._given
        given = [word.partition("=")[0] for word in own if word.startswith("--")]
        near = [near_word(word, known) for word in given if word not in known]
        return [word for word in dict.fromkeys(near) if word]

    def _hint_of_text(self, message: str) -> str:
        """Return how a text is given, where one is taken and words are left over."""
        _, _, rest = message.partition("unrecognized arguments: ")
        if not rest or not any(one.dest == "text" for one in self._actions):
            return ""
        if not rest.startswith("-"):
            return "; a text of several words goes in quotes"
        return "" if rest.startswith("--") else '; a text that begins with "-" goes behind "--"'

    def _hint_of_value(self, message: str) -> str:
        """Return how a value is given that begins with "-", where an option found none."""
        found = re.fullmatch(r"argument (?:\S+/)?(-\S+): expected one argument", message)
        option = found[1] if found else ""
        after = self._given[self._given.index(option) + 1 :] if option in self._given else []
        if not after or not after[0].startswith("-") or after[0] in self._option_string_actions:
            return ""
        return f'; one that begins with "-" is joined to it: {option}={after[0]}'

    def _print_message(self, message: str, file: Any = None) -> None:
        """Print help and version as everything else is printed."""
        print_line(message.removesuffix("\n"), error=file is not sys.stdout)


def near_word(word: str, known: Iterable[str]) -> str:
    """Return the one of `known` that `word` may be a slip of, "" where none is near."""
    from difflib import get_close_matches  # 5 ms

    return next(iter(get_close_matches(word, known, n=1)), "")


def _printable(text: str) -> str:
    return "".join(char if char.isprintable() or char == "\n" else "?" for char in text)


def _next_word(rest: list[str]) -> str | None:
    """Take the first word from `rest`, behind a `--` any; None where an unknown option stands."""
    if rest[0] == "--" and len(rest) > 1:
        del rest[0]
    elif rest[0].startswith("-") and rest[0] != "-":
        return None
    return rest.pop(0)


class _Help(argparse.HelpFormatter):
    def __init__(self, prog: str) -> None:
        # argparse makes one for every argument and would ask shutil, a tenth of a whole send.
        super().__init__(prog, width=min(_columns(), LONGEST_LINE) - 2, max_help_position=26)
        self._action_max_length = 14  # it does not count the indent of verbs

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        if "\n" not in text:
            return super()._fill_text(text, width, indent)
        shown, fits = [], self._width + 2
        for is_prose, lines in groupby(text.splitlines(), lambda line: line[:1] not in ("", " ")):
            some = [*lines]
            if is_prose and max(map(len, some)) > fits:
                some = [" ".join(some)]
            shown += [_fitted(line, fits) for line in some]
        return "\n".join(shown)


def _fitted(line: str, width: int) -> str:
    """Return a written line in lines of `width`; a command, to be pasted, is not broken."""
    if len(line) <= width:
        return line
    command = re.match(r"\s+\S.*?\s{2,}(?=\S)", line)  # and behind it what it does
    if command is None:
        return line if line.startswith(" ") else _wrap(line, width, "")
    if command.end() <= width - LEAST:
        return _wrap(line, width, " " * command.end())
    return f"{command[0].rstrip()}\n{_wrap(' ' * 6 + line[command.end() :], width, ' ' * 6)}"


def _wrap(line: str, width: int, hanging: str) -> str:
    from textwrap import fill

    return fill(
        line, width, subsequent_indent=hanging, break_long_words=False, break_on_hyphens=False
    )


def _columns() -> int:
    try:
        return int(os.environ.get("COLUMNS", "")) or 80
    except ValueError:
        pass
    try:
        return os.get_terminal_size(1).columns or 80
    except OSError:
        return 80
