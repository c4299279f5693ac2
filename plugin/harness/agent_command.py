"""
`{session_id}` in `listen --agent CMD`: the command line of a conversation's first and later turns.

Rule 1: pure; CMD is written as for a later turn, and the first one's is made from it, as each
program wants it (their words: claude 2.1.197, codex 0.171.0, run; hermes-agent 0.19.0, 0.22.2,
read). Rule 2: what a program prints reaches a command line only as a plain id. Rule 3: a program
that says that it did no turn, for it has forgotten the conversation, or has it already, is asked
the other way; nothing else that fails is done twice.
"""

import re
from typing import Final, NamedTuple, Self

PLACE: Final = "{session_id}"
_PLACE: Final = r"""["']?\{session_id\}["']?"""
_ID: Final = r"([A-Za-z0-9][A-Za-z0-9_-]{7,127})"
_NEARLY: Final = re.compile(
    r"(?<!\$)\{\s*(session|sessions?[ _-]?id|conversation|thread_?id)\s*\}", re.I
)


class Harness(NamedTuple):
    """
    A program that keeps conversations.

    `resume`: how a command line names one; `first`, `later`: what stands in its place in the first
    turn and in later ones. `prints`: where its own id stands in what it writes to stderr, "" where
    it takes ours (a UUID). `forgot`, `has`: what it says of an id that it does not know, or has.
    """

    name: str
    resume: str
    first: str
    later: str
    prints: str = ""
    forgot: str = ""
    has: str = ""


HARNESSES: Final = (
    Harness(
        "claude",
        rf"(?:--resume|-r|--session-id)[ =]+{_PLACE}",
        f"--session-id {PLACE}",
        f"--resume {PLACE}",
        forgot="No conversation found with session ID: {}",
        has="Session ID {} is already in use",
    ),
    Harness(
        "codex",
        rf"\s+resume\b(?P<options>[^|;&\n]*?)\s+{_PLACE}",
        r"\g<options>",
        rf" resume\g<options> {PLACE}",
        prints=rf"^session id: {_ID}$",
        forgot="no rollout found for thread id {}",
    ),
    Harness(
        "hermes",
        rf"(?:--resume|-r)[ =]+{_PLACE}",
        "",
        f"--resume {PLACE}",
        prints=rf"^session_id: {_ID}$",
        forgot="{}",  # in the language of its user; after a turn its own line says the id
    ),
)
OTHER: Final = Harness("", "", "", "")


class AgentConversation(NamedTuple):
    """`id`: "" where the program has not told it yet; `begun`: whether the program knows it."""

    id: str
    begun: bool = False

    @classmethod
    def new(cls, harness: Harness, id: str) -> Self:
        """Return one that is to begin, as `id` where the program takes ours."""
        return cls("" if harness.prints else id)


class AgentCommand:
    """The command line `text` of `--agent`."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.keeps = PLACE in text
        fits = (one for one in HARNESSES if _names(text, one))
        self.harness = next(fits, OTHER) if self.keeps else OTHER

    @property
    def nearly(self) -> str:
        """Return what looks as if it were meant to be `{session_id}`, "" for nothing."""
        found = None if self.keeps else _NEARLY.search(self.text)
        return found[0] if found else ""

    def line(self, conversation: AgentConversation) -> str:
        """Return the command line of the conversation's next turn."""
        line, one = self.text, self.harness
        if one.resume:
            line = re.sub(one.resume, one.later if conversation.begun else one.first, line)
        return line.replace(PLACE, conversation.id)

    def after(
        self, conversation: AgentConversation, stderr: str, *, well: bool
    ) -> AgentConversation:
        """Return what is known of the conversation once a turn has ended. `stderr`: both ends."""
        id = self._printed(stderr) or conversation.id
        return AgentConversation(id, bool(id) and (well or conversation.begun or self._own_ids))

    def instead(self, conversation: AgentConversation, stderr: str) -> AgentConversation | None:
        """Return how to begin what was no turn, None where it was one, for all that is known."""
        one, id = self.harness, conversation.id
        forgot = one.forgot and one.forgot.format(id) in stderr and not self._printed(stderr)
        if conversation.begun and forgot:
            return AgentConversation.new(one, id)
        if not conversation.begun and one.has and one.has.format(id) in stderr:
            return AgentConversation(id, begun=True)
        return None

    @property
    def _own_ids(self) -> bool:
        return self.harness.prints != ""

    def _printed(self, stderr: str) -> str:
        # The first one: Codex repeats the prompt, in which anything may stand.
        prints = self.harness.prints
        found = re.search(prints, stderr, re.MULTILINE) if prints else None
        return found[1] if found else ""


def _names(text: str, harness: Harness) -> bool:
    word = re.search(rf"\b{harness.name}\b", text)
    return word is not None and re.search(harness.resume, text) is not None
