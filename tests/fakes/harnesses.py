"""Stand-ins for command-line agents that keep conversations, with the words of the real ones."""

from pathlib import Path

# As claude 2.1.197 was seen to behave: `--session-id` begins one and takes no id twice, also where
# the turn then failed; `--resume` goes on with one.
CLAUDE = r"""#!/bin/sh
id= resume=
while [ $# -gt 0 ]; do
  case "$1" in
    --session-id) id=$2; shift ;;
    --resume) id=$2 resume=1; shift ;;
  esac
  shift
done
text=$(cat) here=$(dirname "$0")
if [ "$resume" ] && [ ! -e "$here/kept-$id" ]; then
  echo "No conversation found with session ID: $id" >&2; exit 1
elif [ ! "$resume" ] && [ -e "$here/kept-$id" ]; then
  echo "Error: Session ID $id is already in use." >&2; exit 1
fi
echo turn >> "$here/kept-$id"
if [ -e "$here/fails" ]; then echo "API Error: 400 broken"; exit 1; fi
echo "turn $(wc -l < "$here/kept-$id" | tr -d ' ')"
"""

# As codex 0.171.0: it makes the id, and tells it on stderr before it repeats the prompt.
CODEX = r"""#!/bin/sh
here=$(dirname "$0") id=
[ "$2" = resume ] && id=$3
text=$(cat)
if [ "$id" ] && [ ! -e "$here/kept-$id" ]; then
  echo "Error: thread/resume: thread/resume failed: no rollout found for thread id $id" >&2; exit 1
fi
[ "$id" ] || id=01a22513-02cd-7c63-8a16-$(printf %012d $$)
echo turn >> "$here/kept-$id"
printf '%s\n' 'OpenAI Codex v0.171.0' '--------' "session id: $id" '--------' user "$text" >&2
if [ -e "$here/fails" ]; then echo "ERROR: broken" >&2; exit 1; fi
echo "turn $(wc -l < "$here/kept-$id" | tr -d ' ')"
"""

# As hermes-agent 0.19.0 and 0.22.2 are written: `-q` takes the prompt, the id ends stderr.
HERMES = r"""#!/bin/sh
here=$(dirname "$0") id=
[ "$3" = --resume ] && id=$4
if [ "$id" ] && [ ! -e "$here/kept-$id" ]; then echo "Session not found: $id" >&2; exit 0; fi
[ "$id" ] || id=20261129_021000_$$
echo turn >> "$here/kept-$id"
printf '\nsession_id: %s\n' "$id" >&2
if [ -e "$here/fails" ]; then echo "broken" >&2; exit 1; fi
echo "turn $(wc -l < "$here/kept-$id" | tr -d ' ')"
"""


def claude(folder: Path) -> str:
    """Write a stand-in for claude; return its command line, for `--agent`."""
    return f"{_written(folder / 'claude', CLAUDE)} -p --resume {{session_id}}"


def codex(folder: Path) -> str:
    """Write a stand-in for codex; return its command line, for `--agent`."""
    return f"{_written(folder / 'codex', CODEX)} exec resume {{session_id}} -"


def hermes(folder: Path) -> str:
    """Write a stand-in for hermes; return its command line, for `--agent`."""
    return f"{_written(folder / 'hermes', HERMES)} chat -Q --resume {{session_id}} -q"


def forget_all(folder: Path) -> None:
    """Let a stand-in lose what it has kept."""
    for file in folder.glob("kept-*"):
        file.unlink()


def _written(path: Path, text: str) -> Path:
    path.write_text(text)
    path.chmod(0o700)
    return path
