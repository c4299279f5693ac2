"""What goes into a chat has nothing that Hermes would upload (HERMES-5.11)."""

import random
import re

import pytest

from wakebus.plugin.hermes.shared.safe_chat_text import without_uploads

# gateway/platforms/base.py:3848 of hermes-agent 0.19.0, with some of its extensions (1463).
TAKEN = re.compile(
    r"(?<![/:\w.])(?:~/|/|[A-Za-z]:[/\\])(?:[\w.\-]+[/\\])*[\w.\-]+\.(?:yaml|txt|gz|md)\b",
    re.IGNORECASE,
)
TAG = re.compile(r"MEDIA:\s*[`\"'~/A-Z]", re.IGNORECASE)  # :1499, or more


def taken(text: str) -> list[str]:
    """Return the paths that Hermes would upload if they are files (3855: not in code)."""
    code = [m.span() for m in re.finditer(r"```[^\n]*\n.*?```", text, re.DOTALL)]
    code += [m.span() for m in re.finditer(r"`[^`\n]+`", text)]
    found = TAKEN.finditer(text)
    return [m[0] for m in found if not any(s <= m.start() < e for s, e in code)]


@pytest.mark.parametrize(
    "text",
    [
        "rules: /h/u/.hermes/bus-rules.yaml",
        "~/x.md:7: bad",
        "/my home/a.txt and /b-/c.TXT",
        "a ` b /x.yaml `",
        "C:/x.txt",
        "MEDIA:/x.yaml",
        "media: `/x.yaml`",
    ],
)
def test_hermes_takes_nothing(text: str) -> None:
    """HERMES-5.11: no path, no MEDIA tag, also with backquotes of somebody else."""
    assert taken(without_uploads(text)) == [] and not TAG.search(without_uploads(text))


def test_whatever_is_written() -> None:
    """HERMES-5.11: any text."""
    draw = random.Random(7)
    parts = ["/", "~/", "a", ".yaml", ".txt", "`", "```", " ", "\n", "-", ":", "MEDIA:", "."]
    for _ in range(5000):
        text = "".join(draw.choices(parts, k=draw.randrange(1, 14)))
        assert taken(without_uploads(text)) == [] and not TAG.search(without_uploads(text)), repr(
            text
        )


def test_a_person_reads_the_path() -> None:
    """HERMES-5.11: whole, as code; words and commands stay."""
    assert without_uploads("rules: /h/r.yaml") == "rules: `/h/r.yaml`"
    assert without_uploads("/bus send NAME") == "/bus send NAME"
