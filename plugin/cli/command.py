"""
A verb of `wakebus`: what its help says, what it takes, what it does.

Rule: a verb's name and its line of help stand in main.VERBS alone, so that `wakebus --help` loads
no verb; its module ends with its COMMAND.
"""

import argparse
from collections.abc import Callable
from typing import NamedTuple

from wakebus.plugin.cli.output import Parser

RunVerb = Callable[[argparse.Namespace], int]


class Command(NamedTuple):
    """
    One verb. `options` adds its arguments, `run` returns the exit status; None: its actions do.

    `json`: the help of its option `--json`, "" for a verb without one.
    """

    options: Callable[[Parser], None]
    run: RunVerb | None = None
    description: str | None = None
    epilog: str | None = None
    json: str = ""

    def set_up(self, parser: Parser) -> None:
        """Make `parser` the verb's."""
        parser.description, parser.epilog = self.description, self.epilog
        self.options(parser)
        _add_json(parser, self.json)
        parser.set_defaults(parser=parser)
        if self.run:
            parser.set_defaults(run=self.run)


def add_action(
    actions: "argparse._SubParsersAction[Parser]",
    name: str,
    text: str,
    run: RunVerb,
    *,
    json: str = "",
) -> Parser:
    """Add a word that stands behind a verb, as `list` in `wakebus dead list`; return its parser."""
    parser = actions.add_parser(name, help=text, description=text)
    _add_json(parser, json)
    parser.set_defaults(run=run, parser=parser)
    return parser


def _add_json(parser: Parser, text: str) -> None:
    if text:
        parser.add_argument("--json", action="store_true", help=text)
