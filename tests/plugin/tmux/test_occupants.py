"""What a pane holds that must not get a text, by real screens of agents and of other programs."""

from typing import Final

import pytest

from wakebus.plugin.tmux.occupants import (
    FrontProcess,
    Obstacle,
    View,
    find_dialog,
    find_obstacle,
    parse_processes,
    parse_view,
)

ASKS: Final = {
    "claude: a command": """\
● Bash(rm -rf build)
────────────────────────────────
 Bash command

   rm -rf build
   Remove the build directory

 Do you want to proceed?
 ❯ 1. Yes
   2. Yes, and don't ask again for rm commands in
      /home/me/work
   3. No, and tell Claude what to do differently (esc)
""",
    "claude: an edit, the second choice": """\
 Do you want to make this edit to sessions.ts?
   1. Yes
 ❯ 2. Yes, allow all edits during this session (shift+tab)
   3. No

 Esc to cancel · Tab to amend
""",
    "claude: trust": """\
 Quick safety check: Is this a project you created or one you trust?
 ❯ 1. Yes, I trust this folder
   2. No, exit

 Enter to confirm · Esc to cancel
""",
    "claude: several answers": """\
 Which checks should run?

 ❯ ☐ 1. Unit tests
   ☐ 2. Type something.

 Enter to select · ↑/↓ to navigate · Esc to cancel
""",
    "claude: older, in a frame": """\
╭──────────────────────────────╮
│ Do you want to proceed?      │
│ ❯ 1. Yes                     │
│   2. No (esc)                │
╰──────────────────────────────╯
""",
    "claude: a list of sessions": """\
 Resume session
 ❯ fix the broker
   2 hours ago · main

 Enter to resume · Esc to cancel
""",
    "codex: a command": """\
› run the tests

  Would you like to run the following command?

  Reason: May I run the browser tests outside the sandbox?

  $ pnpm exec playwright test

› 1. Yes, proceed (y)
  2. Yes, and don't ask again for commands that start with `pnpm` (p)
  3. No, and tell Codex what to do differently (esc)

  Press enter to confirm or esc to cancel
""",
    "codex: hooks": """\
  Hooks need review
› 1. Review hooks
  2. Trust all and continue
  3. Continue without trusting (hooks won't run)

  Press enter to confirm or esc to go back
""",
    "codex: trust": """\
> You are in /home/me/work
  Do you trust the contents of this directory?
› 1. Yes, continue
  2. No, quit
  Press enter to continue
""",
    "gemini": """\
╭─────────────────────────────────────╮
│ ?  Shell npm test                   │
│ Allow execution of: 'npm'?          │
│                                     │
│ ● 1. Yes, allow once                │
│   2. Yes, allow always ...          │
│   3. No, suggest changes (esc)      │
╰─────────────────────────────────────╯
⠼ Waiting for user confirmation... (esc to cancel, 9s)
""",
    "copilot: trust": """\
╭────────────────────────────────────────────────────╮
│ Confirm folder trust                               │
│ Do you trust the files in this folder?             │
│ ❯ 1. Yes                                           │
│   2. Yes, and remember this folder                 │
│   3. No (Esc)                                      │
│ ↑/↓ to navigate · enter to select · esc to cancel  │
╰────────────────────────────────────────────────────╯
""",
    "hermes: a dangerous command": """\
╭─ ⚠️  Dangerous Command ──────────╮
│ rm -rf build                     │
│                                  │
│ ❯ 1. Allow once                  │
│   2. Allow for this session      │
│   3. Deny                        │
╰──────────────────────────────────╯
──────────────────────────────────
⚠ ❯
──────────────────────────────────
""",
    "hermes: in another language": """\
│ ❯ 1. 允许一次                    │
│   2. 拒绝                        │
╰──────────────────────────────────╯
⚠ ❯
""",
    "hermes: a slash command": """\
│ ❯ [1] Approve Once — clear now   │
│   [2] Cancel — keep the session  │
│ Type 1/2 or use ↑/↓ and Enter    │
╰──────────────────────────────────╯
""",
    "hermes: a password": "╭─ 🔐 Sudo ─╮\n╰───────────╯\n🔐 ❯\n",
    "opencode": "  △ Permission required\n  $ rm -rf build\n\n  Allow once   Reject\n",
    "a gate of one key": "  Update available!\n\n  Press enter to continue\n",
}

TAKES: Final = {
    "claude": """\
● Done.

────────────────────────────────
❯\xa0
────────────────────────────────
  ⏵⏵ accept edits on (shift+tab to cycle)
""",
    "claude in vi mode, with an offer": """\
────────────────────────────────
❯ Try "write a test for repo.go"
────────────────────────────────
  -- INSERT -- ⏵⏵ bypass permissions on
""",
    "claude at work": """\
✻ Thinking… (12s · ↓ 1.2k tokens · esc to interrupt)

────────────────────────────────
❯
────────────────────────────────
  ? for shortcuts
""",
    "claude, an answer that quotes a dialog": """\
● Do you want to proceed?
  ❯ 1. Yes
    2. No
  Press enter to continue, Enter to confirm · Esc to cancel

────────────────────────────────
❯
────────────────────────────────
  ? for shortcuts
""",
    "claude, which asks in prose": """\
● Which one would you like?
  1. Yes, the cloud
  2. No cloud

────────────────────────────────
>
────────────────────────────────
""",
    "codex": """\
• Ran the tests.

› Ask Codex to do anything

  ? for shortcuts                          98% context left
""",
    "codex at work": "• Working (5s • esc to interrupt)\n\n› Ask Codex to do anything\n",
    "gemini": """\
⠏ Reticulating splines (esc to cancel, 3s)
╭──────────────────────────────────────────╮
│ >   Type your message or @path/to/file   │
╰──────────────────────────────────────────╯
~/work   no sandbox   gemini-2.5-pro
""",
    "copilot": "────────\n❯\n────────\n / commands · ? help\n",
    "hermes": "────────\n❯\n────────\n",
    "hermes at work, after a list": "● 1. yes, one\n  2. no, two\n────────\n☤ ❯\n────────\n",
    "hermes of a profile": "● 1. yes\n  2. no\nwork ❯\n",
    "an answer with a list": "● 1. First\n  2. Second\n",
    "a quotation": "> 1. First\n> 2. Second\n",
    "one choice alone": "❯ 1. Yes\n",
    "nothing": "\n\n",
    "a plain program": "recording\n",
}


def view(screen: str = "", *, cursor: int = 0, alternate: bool = False, mode: str = "") -> View:
    return View(cursor, alternate, mode, "", tuple(screen.split("\n")))


def in_front(*commands: str) -> list[FrontProcess]:
    return [FrontProcess(not n, tuple(command.split())) for n, command in enumerate(commands)]


def obstacle(screen: str, *commands: str, alternate: bool = False) -> Obstacle | None:
    return find_obstacle(view(screen, alternate=alternate), in_front(*commands))


@pytest.mark.parametrize("case", ASKS)
def test_a_dialog_is_seen(case: str) -> None:
    """RULES-7.6: whatever choice is marked, in a frame or not, with blank lines below it."""
    for below in ("", "\n" * 9):
        found = obstacle(ASKS[case] + below, "node")
        assert found and "dialog" in found.what and found.seen and not found.runs, found


@pytest.mark.parametrize("case", TAKES)
def test_an_input_is_no_dialog(case: str) -> None:
    """RULES-7.6: an agent that waits or works takes the text, also below a quoted dialog."""
    assert obstacle(TAKES[case], "node") is None
    assert obstacle(TAKES[case] + "\n" * 9, "node", alternate=True) is None


@pytest.mark.parametrize("case", ASKS)
def test_a_dialog_below_an_input_is_seen(case: str) -> None:
    """RULES-7.6: what was typed before stands above it."""
    assert obstacle(TAKES["claude"] + ASKS[case], "claude")


def test_what_was_typed_is_no_dialog() -> None:
    """RULES-7.6: a list in the text, and the list of commands that a `/` opens."""
    assert find_dialog(["❯ 1. First", "  2. Second"], typed="1. First") is None
    menu = ["› /compact", "", "  press enter to confirm or esc to close"]
    assert find_dialog(menu, typed="/compact") is None and find_dialog(menu)
    assert find_dialog(ASKS["claude: a command"].split("\n"), typed="⚕ [ci]: done")


RUNS: Final = {
    "-bash": ("-bash",),
    "zsh": ("/bin/zsh -l",),
    "fish": ("fish",),
    "with options": ("bash --rcfile /etc/x -o vi --norc -i",),
    "a script that reads": ("/bin/bash /home/me/ask.sh",),
    "a shell's helper": ("zsh", "gitstatusd -G"),
    "psql": ("/usr/lib/postgresql/15/bin/psql work",),
    "ipython": ("ipython3",),
}


@pytest.mark.parametrize("case", RUNS)
def test_a_shell_runs_the_text(case: str) -> None:
    """RULES-7.6: also a login shell, one with options, an interpreter: --shell allows it."""
    found = obstacle("", *RUNS[case])
    assert found and found.runs and "--shell" in found.step


@pytest.mark.parametrize(
    "commands",
    [
        ("node /usr/bin/claude",),
        ("/usr/bin/python3 /usr/bin/hermes",),
        ("claude",),
        ("/bin/bash /home/me/claude.sh", "node /usr/bin/claude"),
        ("sh -c claude; true", "claude"),
        ("bash -lc claude", "bash -c claude", "claude"),
        ("npm exec gemini", "sh -c gemini", "node gemini"),
        ("bash-agent",),
        ("shell-agent",),
        ("more-agents",),
        ("vi-agent",),
        ("claude", "less"),  # in the background: nothing on the screen is of a pager
        ("ssh host",),
        (),
    ],
)
def test_a_program_that_a_shell_started_is_none(commands: tuple[str, ...]) -> None:
    """RULES-7.6: a wrapper is looked through, a name is compared whole."""
    assert obstacle("", *commands) is None


@pytest.mark.parametrize(
    ("commands", "alternate", "screen", "what"),
    [
        (("less /etc/passwd",), False, "", "a pager (less)"),
        (("man ls", "less"), True, "", "a pager (man)"),
        (("git log", "less"), False, "commit 1\n:", "a pager (less)"),
        (("more x",), False, "", "a pager (more)"),
        (("vi x",), True, "", "an editor (vi)"),
        (("/usr/bin/vim.basic x",), True, "", "an editor (vim.basic)"),
        (("emacs-nox",), True, "", "an editor (emacs-nox)"),
        (("nano",), True, "", "an editor (nano)"),
        (("git commit", "nvim"), True, "", "an editor (nvim)"),
        (("claude", "vim"), True, "", "an editor (vim)"),
        (("bash -c vim; true", "vim"), True, "", "an editor (vim)"),
        (("htop",), True, "", "a full-screen program (htop)"),
        (("ssh host",), True, "x\n~\n~\n~\n", "an editor behind ssh"),
        (("ssh host",), True, "  GNU nano 7.2\n\n^X Exit", "an editor behind ssh"),
        (("ssh host",), False, "text\n--More--(12%)", "a pager"),
        (("docker exec",), False, "text\n Manual page ls(1) line 1", "a pager"),
        (("systemctl",), False, "text\nlines 1-23/50", "a pager"),
        (("codex",), True, "text\n ↑/↓ to scroll   pgup/pgdn to page\n q to quit", "a pager"),
    ],
)
def test_pagers_and_editors(
    commands: tuple[str, ...], alternate: bool, screen: str, what: str
) -> None:
    """RULES-7.6: by their own name, behind the program that started them, or by the screen."""
    found = obstacle(screen, *commands, alternate=alternate)
    assert found and what in found.what and not found.runs, found


@pytest.mark.parametrize(
    ("line", "command", "runs"),
    [
        ("me@host:~$ ", "ssh host", True),
        ("root@1234:/# ", "docker exec -it x bash", True),
        ("host% ", "sudo -i", True),
        ("[me@host work]$", "tmux", True),
        (">>> ", "python3 -i x.py", True),
        ("> ", "/usr/bin/node", True),
        ("In [3]: ", "python3.11", True),
        ("Proceed [Y/n]? ", "apt", False),
        ("remove regular file 'x'? (y/n) ", "rm -i x", False),
        ("continue connecting (yes/no/[fingerprint])? ", "ssh host", False),
        ("rm: remove regular empty file 'x'? ", "rm -i x", False),
        ("[sudo] password for me: ", "sudo -i", False),
        ("Enter passphrase for key '/x': ", "git push", False),
        ("Choice [o/s/a/D]: ", "hermes chat", False),
        ("Run it? (Y)es/(N)o/(D)on't ask again [Yes]: ", "aider", False),
    ],
)
def test_the_line_with_the_cursor(line: str, command: str, runs: bool) -> None:
    """RULES-7.6: a prompt of a shell behind ssh, an interpreter's, a question, a password."""
    found = obstacle(line, command)
    assert found and found.runs is runs and found.seen, found


@pytest.mark.parametrize(
    ("line", "command"),
    [
        ("Downloading 100%", "ssh host"),
        ("❯ ", "ssh host"),
        ("> is it done [y/n]", "claude"),
        ("│ > the password: │", "gemini"),
        ("price in $", "claude"),
        ("you> ", "python3 agent.py"),
        ("> ", "node agent.js"),
    ],
)
def test_a_line_with_the_cursor_that_takes_it(line: str, command: str) -> None:
    """RULES-7.6: a draft, a number, an agent's own prompt."""
    assert obstacle(line, command) is None


def test_a_mode_is_named() -> None:
    """RULES-7.6: copy mode, and every other."""
    found = find_obstacle(view(mode="copy-mode"), in_front("claude"))
    assert found and "copy-mode" in found.what


def test_answers_of_tmux_and_ps_are_read() -> None:
    """A name with blanks is whole; only who is in front; without ps tmux's word holds."""
    found = parse_view("1 1 - tmux: client\none\n two \n")
    assert found == View(1, True, "", "tmux: client", ("one", " two ", ""))
    assert found.cursor_line == "two" and parse_view("").cursor_line == ""
    assert parse_view("9 0 copy-mode bash\n").mode == "copy-mode"
    listing = " 7 7 9 -bash\n 9 9 9 /bin/sh x.sh\n 10 9 9 claude\n 11 11 9 gone\n bad\n"
    assert [row.name for row in parse_processes(listing)] == ["sh", "claude"]
    bash = find_obstacle(View(0, False, "", "bash", ()), [])
    assert bash and bash.runs and find_obstacle(View(0, False, "", "node", ()), []) is None
