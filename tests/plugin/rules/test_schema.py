"""What a rules file may say."""

from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakebus.plugin.rules.errors import RulesError
from wakebus.plugin.rules.model import OnFailure, Role, Rule
from wakebus.plugin.rules.schema import _RULE, read_rules

SEED_EXAMPLE = """\
callbacks:
  # Notification only (no context)
  - match_type: ack
    print: true
    print_format: "{color:cyan}📬 {from}{reset}  {text}  [{ts:%H:%M}]"
    context: false

  # Silent context injection
  - match_type: progress
    print: false
    context: true

  # Context + terminal + audio
  - match_type: task_done
    print: true
    print_format: "{color:bold_green}✔ {from}{reset} → {text}  {color:cyan}[{ts:%H:%M:%S}]{reset}"
    context: true
    command: "afplay ~/sounds/done.mp3"
"""


def _wrong(text: str) -> list[tuple[int, str, str]]:
    with pytest.raises(RulesError) as error:
        read_rules(text, "r.yaml")
    assert str(error.value).startswith("r.yaml")
    return [(p.line, p.key, p.text) for p in error.value.problems]


def _warned(text: str) -> list[str]:
    return [str(warning) for warning in read_rules(text, "r.yaml").warnings]


def test_the_seeds_files_are_read_unchanged() -> None:
    """What users of hermes-bus-plugin have."""
    rules = read_rules(SEED_EXAMPLE, "r.yaml")
    assert [rule.match_type for rule in rules.callbacks] == [
        ("ack",),
        ("progress",),
        ("task_done",),
    ]
    assert [rule.label for rule in rules.callbacks][2] == "3: task_done"
    assert rules.callbacks[2].where == "r.yaml:14"
    assert rules.callbacks[2].command == "afplay ~/sounds/done.mp3"
    listed = read_rules('- match_type: task_done\n  print: true\n  print_format: "~/f.sh"', "r")
    assert listed.callbacks[0].print_format == "~/f.sh"


def test_top_level_keys() -> None:
    """The endpoint, the names of tmux sessions, the default sender."""
    rules = read_rules(
        "bus:\n  endpoint: my-endpoint\n"
        "role_map:\n  lead-agent: {name: Lead, color: bold_cyan}\n  0: {name: Zero}\n  w:\n"
        "default_sender: notify-agent\n",
        "r",
    )
    assert (rules.endpoint, rules.default_sender) == ("my-endpoint", "notify-agent")
    assert rules.role_map == {"lead-agent": Role("Lead", "bold_cyan"), "0": Role("Zero")}
    assert rules.callbacks == () and rules.warnings == ()


def test_every_field() -> None:
    """Each key of RULES.md section 2 and 3 reaches its field."""
    text = """\
- match_type: [a, b]
  match_from: worker-*
  match_channel: ["feishu:*", weixin]
  print: always
  print_format: P
  context: yes
  context_format: C
  command: run
  wake: next_turn
  reply: both
  coalesce_ms: 250
  interrupt: true
  on_redelivery: skip
  timeout_s: 1.5
  retries: 3
  retry_after: 7.5
  env: [A_KEY]
"""
    rule = read_rules(text, "r").callbacks[0]
    assert rule == Rule(
        match_type=("a", "b"),
        match_from=("worker-*",),
        match_channel=("feishu:*", "weixin"),
        print="always",
        print_format="P",
        context=True,
        context_format="C",
        command="run",
        wake="next_turn",
        reply="both",
        coalesce_ms=250,
        interrupt=True,
        on_redelivery="skip",
        timeout_s=1.5,
        retries=3,
        retry_after=7.5,
        env=("A_KEY",),
        where="r:1",
        number=1,
    )


def test_every_field_has_a_reader() -> None:
    """A field without a line in the table could never be set."""
    assert set(_RULE) == {field.name for field in fields(Rule)} - {"where", "number"}


@pytest.mark.parametrize("text", ["", "callbacks:\n", "callbacks: []", "# nothing", "[]"])
def test_an_empty_file_has_no_rules(text: str) -> None:
    """RULES-1.3."""
    assert read_rules(text, "r").callbacks == ()


def test_an_empty_key_is_left_out() -> None:
    """RULES-1.8: `command:` with nothing behind it is no command."""
    rule = read_rules("- match_type: a\n  command:\n  wake: ~", "r").callbacks[0]
    assert (rule.command, rule.wake) == (None, None)


RULE = "- match_type: a\n  "


@pytest.mark.parametrize(
    ("text", "line", "key", "says"),
    [
        ("callbacks:\n\t- match_type: a", 2, "", "a tab"),
        ("callbacks: {match_type: a}", 1, "callbacks", "a map where a list"),
        ("callbacks:\n  - ack", 2, "rule 1", "where a map"),
        ("callbacks:\n  - [match_type, a]", 2, "rule 1", "a list where a map (key: value) belongs"),
        ("just text", 1, "", "where a map"),
        ("bus: [a]", 1, "bus", "a list where a map"),
        ("bus: {endpoint: a.b}", 1, "endpoint", "an endpoint name has"),
        ("role_map: {a: b}", 1, "a", "where a map"),
        ("role_map: {a: {nam: b}}", 1, "nam", "did you mean name?"),
        ("callback: []", 1, "callback", "did you mean callbacks?"),
        ("- match_tpye: a", 1, "match_tpye", "unknown key; did you mean match_type?"),
        (RULE + "zzz: 1", 2, "zzz", "unknown key"),
        ("- match_topic: ci.bu*", 1, "match_topic", "stand for whole segments"),
        ("- match_topic: [a.**, b..c]", 1, "match_topic", "a segment is empty"),
        (RULE + "match_type: b", 2, "match_type", "twice (first on line 1)"),
        ("- match_type: on", 1, "match_type", "write 'on'"),
        ("- match_type: [a, 4]", 1, "match_type", "write '4'"),
        (RULE + "print: sometimes", 2, "print", "true, false or always"),
        (RULE + 'print: "true"', 2, "print", "true, false or always"),
        (RULE + "print: [true]", 2, "print", "true, false or always"),
        (RULE + 'context: "true"', 2, "context", "without quotes"),
        (RULE + "command: true", 2, "command", "write 'true'"),
        (RULE + 'command: " "', 2, "command", "empty"),
        (RULE + 'command: "a\\0b"', 2, "command", "NUL"),
        (RULE + "wake: now", 2, "wake", "one of immediate, next_turn, silent"),
        (RULE + "reply: [sender]", 2, "reply", "one of sender"),
        (RULE + "coalesce_ms: -1", 2, "coalesce_ms", "a number from 0"),
        (RULE + "retries: -1", 2, "retries", "a number from 0 to 100"),
        (RULE + "retries: 1.5", 2, "retries", "1.5 is no whole number"),
        (RULE + "retry_after: 0", 2, "retry_after", "a number from 0.1"),
        (RULE + "timeout_s: 0", 2, "timeout_s", "a number from 0.1"),
        (RULE + "env: {A: b}", 2, "env", "where text"),
        (RULE + "env: [A=b]", 2, "env", "list names, not values"),
        ("- print: true", 1, "rule 1", "add match_type"),
        ("- match_type:\n  print: true", 1, "rule 1", "add match_type"),
        ("? [a]\n: b", 1, "", "a list where a key belongs"),
    ],
)
def test_errors_name_line_and_key(text: str, line: int, key: str, says: str) -> None:
    """RULES-1.6, RULES-2.4: what is wrong, where, and what to write instead."""
    (found,) = _wrong(text)
    assert found[:2] == (line, key)
    assert says in found[2]


def test_all_errors_are_told_at_once() -> None:
    """In the order of the file."""
    found = _wrong("- match_tpye: a\n- match_type: b\n  wake: now\n- 3")
    assert [line for line, _, _ in found] == [1, 3, 4]


def test_too_many_rules() -> None:
    """RULES-1.7: a thousand; aliases cannot make a million out of a few bytes."""
    text = "- &a {match_type: a}\n" + "- *a\n" * 1000
    assert "over 1000" in _wrong(text)[0][2]


def test_on_failure() -> None:
    """RULES-8.6: what is left out is told."""
    text = "- match_type: a\n  command: x\n  on_failure: "

    def read(value: str) -> OnFailure:
        return read_rules(text + value, "r").callbacks[0].on_failure

    assert read("{chat: false, sender: false}") == OnFailure(chat=False, sender=False)
    assert read("\n    chat: false") == OnFailure(chat=False, sender=True)
    assert read("{}") == read("") == OnFailure()


@pytest.mark.parametrize(
    ("value", "key", "says"),
    [
        ("false", "on_failure", "where a map (key: value) belongs"),
        ("[chat]", "on_failure", "a list where a map"),
        ("{chat: no_, sender: false}", "chat", "write true or false"),
        ('{chat: "false"}', "chat", "write true or false"),
        ("{chta: false}", "chta", "unknown key; did you mean chat?"),
        ("{sender: false, sender: true}", "sender", "stands here twice"),
        ("{notice: false}", "notice", "unknown key"),
    ],
)
def test_a_wrong_on_failure(value: str, key: str, says: str) -> None:
    """RULES-8.6, RULES-1.6: file, line, key, and the near name."""
    (found,) = _wrong(f"- match_type: a\n  command: x\n  on_failure: {value}\n")
    assert (found[0], found[1]) == (3, key) and says in found[2], found


def test_a_platform_that_nobody_has() -> None:
    """RULES-1.9: a slip in `match_channel` is never reached; what is like no name is anybody's."""
    text = "- match_channel: ['{}']\n  print: true"
    (warning,) = _warned(text.format("telegramm:*"))
    near = "no platform 'telegramm' is known; did you mean telegram?"
    assert warning == f"r.yaml:1: match_channel: {near}"
    for good in ("telegram:*", "whatsapp", "*", "tele*:1", "zzz:42", "", "[ft]*:x"):
        assert _warned(text.format(good)) == []


def test_on_failure_of_what_cannot_fail() -> None:
    """RULES-1.9: a print alone."""
    (warning,) = _warned("- match_type: a\n  print: true\n  on_failure: {chat: false}")
    assert warning == "r.yaml:3: on_failure: does nothing without command or context"


@pytest.mark.parametrize(
    ("match", "more", "fails"),
    [
        ("a", "context: true", True),
        ("a", "context: true\n  wake: next_turn", False),
        ("a", "context: true\n  wake: silent", False),
        ("a", "context: true\n  wake: silent\n  command: x", True),
        ("[answer, ack]", "context: true", False),
        ("[answer, a]", "context: true", True),
        ("answer", "context: true\n  wake: immediate", True),
    ],
)
def test_retries_of_what_cannot_fail(match: str, more: str, fails: bool) -> None:
    """RULES-1.9, RULES-8.9: a text that only waits; also by its type."""
    for key, value in (("retries", "3"), ("on_failure", "{chat: false}")):
        warned = _warned(f"- match_type: {match}\n  {key}: {value}\n  {more}")
        text = "does nothing: the rule begins no turn and has no command that could fail"
        assert warned == ([] if fails else [f"r.yaml:2: {key}: {text}"])


@pytest.mark.parametrize(
    ("text", "warning"),
    [
        (
            'print: true\n  print_format: "{form}"',
            "r.yaml:3: print_format: unknown placeholder {form}; it stays as it is"
            "; did you mean from?",
        ),
        (
            'context: true\n  context_format: "{ts:%Q}"',
            "r.yaml:3: context_format: %Q is not known to every strftime",
        ),
        ("print_format: x", "r.yaml:2: print_format: does nothing without print"),
        ("wake: silent", "r.yaml:2: wake: does nothing without context"),
        ("timeout_s: 5", "r.yaml:2: timeout_s: does nothing without command or context"),
        (
            "print: true\n  context: true",
            "r.yaml:2: print: context silences it; `always` prints too",
        ),
    ],
)
def test_what_does_nothing_is_a_warning(text: str, warning: str) -> None:
    """RULES-1.9, RULES-4.2: the file is loaded, and the slip is told."""
    assert _warned(RULE + text) == [warning]


def test_rules_that_are_never_reached() -> None:
    """RULES-1.9: after `*` nothing comes; a wildcard in match_type is none."""
    text = '- match_type: "task_*"\n- match_type: "*"\n- match_type: ack\n- match_topic: a.**'
    assert _warned(text) == [
        "r.yaml:1: match_type: is compared exactly; no wildcards",
        "r.yaml:3: rule 3: is never reached: rule 2 takes every message",
    ]


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        ("match_type: a", "match_type: a", "takes the same"),
        ("match_type: [a, b]", "match_type: [b, a]", "takes the same"),
        ("match_type: a, match_from: w*", "match_from: w*, match_type: [a]", "takes the same"),
        ("match_type: [a, b]", "match_type: b, match_from: x", "takes all that it matches"),
        ("match_channel: [c:*, d:*]", "match_channel: d:*", "takes all that it matches"),
        ("match_topic: a.b", "match_topic: a.b, match_text: x", "takes all that it matches"),
        ("match_text: x", "match_text: x", "takes the same"),
        ("match_type: '*', match_text: x", "match_text: x, match_type: a", "takes all that it"),
        ("match_type: a, match_from: x", "match_type: a", ""),
        ("match_type: a", "match_type: [a, b]", ""),
        ("match_type: '*'", "match_topic: a", ""),
        ("match_topic: a", "match_type: '*'", ""),
        ("match_text: x", "match_text: X", ""),
    ],
)
def test_a9_identical_rules(first: str, second: str, words: str) -> None:
    """RULES-1.9: the later one is never reached, whatever it does."""
    warned = _warned(f"- {{{first}, print: true}}\n- {{{second}, command: x}}")
    assert [words in one and "rule 1" in one for one in warned] == [True] * bool(words)
    assert all(one.startswith("r.yaml:2: rule 2: is never reached") for one in warned)


def test_a9_very_many_rules() -> None:
    """RULES-1.7, RULES-1.9: 1000 of them are compared with each other in time."""
    text = "".join(f"- {{match_type: t{n}, match_from: [a, b{n}]}}\n" for n in range(1000))
    assert _warned(text) == []


def test_role_map_warnings() -> None:
    """A name that cannot send, a colour that is none."""
    assert _warned("role_map:\n  a: {name: Team Lead, color: pink}") == [
        "r.yaml:2: a: 'Team Lead' is no endpoint name; it cannot send",
        "r.yaml:2: a: unknown color 'pink'",
    ]


_YAML = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from([*_RULE, "bus", "endpoint", "role_map", "callbacks", "name", "x"]),
            inner,
        )
    ),
    max_leaves=12,
)


@given(_YAML)
def test_any_document_is_rules_or_an_error(value: object) -> None:
    """Nothing else is raised."""
    import yaml

    try:
        read_rules(yaml.safe_dump(value, allow_unicode=True), "r")
    except RulesError:
        pass
