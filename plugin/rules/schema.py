"""
What a rules file may say: its keys, their types, and what is doubtful about them.

Rule 1: pure; text in, Rules out. Rule 2: every problem is collected, so that one look at the
file mends all. Rule 3: a new field is one line in `_RULE`, one field of Rule, one row of RULES.md.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from yaml.nodes import Node, SequenceNode

from wakebus.adapters.platform_names import HERMES, OURS
from wakebus.broker.errors import BadTopic
from wakebus.broker.protocol.message import NAME
from wakebus.broker.protocol.topics import check_pattern
from wakebus.plugin.rules import text_search, yaml_hints, yaml_values
from wakebus.plugin.rules.errors import Problem, RulesError
from wakebus.plugin.rules.model import (
    ON_REDELIVERY,
    REPLIES,
    WAKES,
    OnFailure,
    Role,
    Rule,
    Rules,
)
from wakebus.plugin.rules.render import compile_format, doubtful_times, sgr
from wakebus.plugin.rules.yaml_values import MapEntry, Wrong

MAX_RULES: Final = 1000
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_PLATFORM: Final = re.compile(r"([A-Za-z][A-Za-z0-9_.-]*)(?::|\Z)")  # of a pattern for channels
_MATCHES: Final = ("match_type", "match_from", "match_channel", "match_topic", "match_text")

Read = Callable[[Node], Any]


def _print(node: Node) -> Any:
    if node.value == "always":
        return "always"
    try:
        return yaml_values.flag(node)
    except Wrong as wrong:
        raise Wrong(
            wrong.line, "", f"{yaml_values.kind(node)}; write true, false or always"
        ) from wrong


def _filled(node: Node) -> str:
    value = yaml_values.text(node)
    if not value.strip():
        raise Wrong(yaml_values.line_of(node), "", "empty; leave the key out instead")
    if "\0" in value:
        raise Wrong(yaml_values.line_of(node), "", "holds a NUL character")
    return value


def _variables(node: Node) -> tuple[str, ...]:
    names = yaml_values.texts(node)
    for name in names:
        if not _VARIABLE.match(name):
            text = f"{name[:40]!r} is no name of a variable; list names, not values"
            raise Wrong(yaml_values.line_of(node), "", text)
    return names


def _endpoint(node: Node) -> str:
    name = yaml_values.text(node)
    if not NAME.match(name):
        text = f"{name[:80]!r}: an endpoint name has 1 to 64 of the characters A-Z a-z 0-9 _ -"
        raise Wrong(yaml_values.line_of(node), "", text)
    return name


def _patterns(node: Node) -> tuple[str, ...]:
    found = yaml_values.texts(node)
    for pattern in found:
        try:
            check_pattern(pattern)
        except BadTopic as exc:
            raise Wrong(yaml_values.line_of(node), "", exc.text) from exc
    return found


def _text_patterns(node: Node) -> tuple[str, ...]:
    found = yaml_values.texts(node)
    for pattern in found:
        if fault := text_search.fault_of(pattern):
            raise Wrong(yaml_values.line_of(node), "", fault)
    return found


def _milliseconds(node: Node) -> int:
    return int(yaml_values.number(0, 600_000)(node))


def _retries(node: Node) -> int:
    count = yaml_values.number(0, 100)(node)
    if count != int(count):
        raise Wrong(yaml_values.line_of(node), "", f"{count:g} is no whole number")
    return int(count)


_RULE: Final[Mapping[str, Read]] = {
    "match_type": yaml_values.texts,
    "match_from": yaml_values.texts,
    "match_channel": yaml_values.texts,
    "match_topic": _patterns,
    "match_text": _text_patterns,
    "print": _print,
    "print_format": yaml_values.text,
    "context": yaml_values.flag,
    "context_format": yaml_values.text,
    "command": _filled,
    "wake": yaml_values.one_of(WAKES),
    "reply": yaml_values.one_of(REPLIES),
    "coalesce_ms": _milliseconds,
    "interrupt": yaml_values.flag,
    "on_redelivery": yaml_values.one_of(ON_REDELIVERY),
    "timeout_s": yaml_values.number(0.1, 86_400),
    "on_failure": lambda node: node,  # a map of its own
    "retries": _retries,
    "retry_after": yaml_values.number(0.1, 86_400),
    "env": _variables,
}
_TOP: Final = ("bus", "role_map", "default_sender", "callbacks")
_ON_FAILURE: Final[Mapping[str, Read]] = {"chat": yaml_values.flag, "sender": yaml_values.flag}
_ROLE: Final[Mapping[str, Read]] = {"name": _filled, "color": yaml_values.text}
_BUS: Final[Mapping[str, Read]] = {"endpoint": _endpoint}

# Keys that mean nothing without another one; said, because it is always a slip.
_NEEDS: Final[Mapping[str, tuple[str, ...]]] = {
    "print_format": ("print",),
    "context_format": ("context",),
    "wake": ("context",),
    "reply": ("context",),
    "coalesce_ms": ("context",),
    "interrupt": ("context",),
    "timeout_s": ("command", "context"),
    "on_failure": ("command", "context"),
    "retries": ("command", "context"),
    "retry_after": ("retries",),
    "env": ("command",),
}


def read_rules(text: str, source: str) -> Rules:
    """Return the rules in `text`. `source` names it in messages. Raises RulesError."""
    reader = _Reader(source)
    try:
        node = yaml_values.parse(text)
        rules = reader.rules(node) if node else Rules(source=source)
    except Wrong as wrong:
        reader.wrong(wrong)
    if reader.problems:
        raise RulesError(sorted(reader.problems, key=lambda problem: problem.line))
    return rules


class _Reader:
    """Reads one file; what is wrong is noted, and reading goes on."""

    def __init__(self, source: str) -> None:
        self._source = source
        self.problems: list[Problem] = []
        self.warnings: list[Problem] = []

    def wrong(self, wrong: Wrong, key: str = "") -> None:
        self.problems.append(Problem(self._source, wrong.line, wrong.key or key, wrong.text))

    def warn(self, line: int, key: str, text: str) -> None:
        self.warnings.append(Problem(self._source, line, key, text))

    def rules(self, root: Node) -> Rules:
        if isinstance(root, SequenceNode):  # a bare list of rules, as the scripts' examples show
            callbacks, top = self._callbacks(root), {}
        else:
            top = self._map(root, "", _TOP)
            callbacks = self._callbacks(top["callbacks"].node) if "callbacks" in top else ()
        bus = self._values(top["bus"].node, "bus", _BUS) if "bus" in top else {}
        sender = top.get("default_sender")
        return Rules(
            callbacks=callbacks,
            endpoint=bus.get("endpoint"),
            role_map=self._role_map(top["role_map"].node) if "role_map" in top else {},
            default_sender=self._value(sender, _filled) if sender else None,
            source=self._source,
            warnings=tuple(sorted(self.warnings, key=lambda warning: warning.line)),
        )

    def _map(self, node: Node, key: str, known: Any) -> dict[str, MapEntry]:
        """Return the entries with known keys that are not left empty."""
        try:
            found = yaml_values.entries(node, key, self.wrong)
        except Wrong as wrong:
            self.wrong(wrong)
            return {}
        for entry in found.values():
            if known and entry.key not in known:
                dash = f"; write a blank behind the dash: - {entry.key[1:80]}: …"
                near = yaml_values.near(entry.key, known)
                text = f"unknown key{dash if entry.key.startswith('-') else near}"
                self.wrong(Wrong(entry.line, entry.key[:80], text))
        for entry in found.values():
            for doubt in yaml_hints.doubts(entry.node, entry.key[:80]):
                self.warn(doubt.line, entry.key[:80], doubt.text)
        return {
            name: entry
            for name, entry in found.items()
            if not yaml_values.is_nothing(entry.node) and (not known or name in known)
        }

    def _value(self, entry: MapEntry, read: Read) -> Any:
        try:
            return read(entry.node)
        except Wrong as wrong:
            self.wrong(wrong, entry.key)
            return None

    def _values(self, node: Node, key: str, known: Mapping[str, Read]) -> dict[str, Any]:
        found = self._map(node, key, known)
        values = {name: self._value(entry, known[name]) for name, entry in found.items()}
        return {name: value for name, value in values.items() if value is not None}

    def _role_map(self, node: Node) -> dict[str, Role]:
        roles = {}
        for session, entry in self._map(node, "role_map", ()).items():
            values = self._values(entry.node, session, _ROLE)
            name, color = values.get("name", session), values.get("color")
            if not NAME.match(name):
                self.warn(entry.line, session, f"{name!r} is no endpoint name; it cannot send")
            if color is not None and sgr(color) is None:
                self.warn(entry.line, session, f"unknown color {color!r}")
            roles[session] = Role(name, color)
        return roles

    def _callbacks(self, node: Node) -> tuple[Rule, ...]:
        try:
            found = list(yaml_values.items(node, "callbacks"))
        except Wrong as wrong:
            self.wrong(wrong)
            return ()
        if len(found) > MAX_RULES:
            self.wrong(Wrong(yaml_values.line_of(node), "callbacks", f"over {MAX_RULES} rules"))
            return ()
        rules = tuple(self._rule(item, number) for number, item in enumerate(found, 1))
        self._warn_unreachable(rules)
        return rules

    def _rule(self, node: Node, number: int) -> Rule:
        line = yaml_values.line_of(node)
        before = len(self.problems)
        values = self._values(node, f"rule {number}", _RULE)
        if told := values.pop("on_failure", None):
            values["on_failure"] = OnFailure(**self._values(told, "on_failure", _ON_FAILURE))
        rule = Rule(**values, number=number, where=f"{self._source}:{line}")
        if len(self.problems) > before:
            return rule
        if not any(key in values for key in _MATCHES):
            text = 'matches nothing it names; add match_type ("*" for every message)'
            self.wrong(Wrong(line, f"rule {number}", text))
        self._warn_rule(rule, yaml_values.entries(node, "", self.wrong))
        return rule

    def _warn_rule(self, rule: Rule, stated: Mapping[str, MapEntry]) -> None:
        for key in ("print_format", "context_format"):
            if key in stated:
                self._warn_format(getattr(rule, key), key, stated[key].line)
        for key, needs in _NEEDS.items():
            if key in stated and not any(getattr(rule, need) for need in needs):
                self.warn(stated[key].line, key, f"does nothing without {' or '.join(needs)}")
        for key in ("on_failure", "retries"):
            if key in stated and rule.context and not rule.can_fail:
                text = "does nothing: the rule begins no turn and has no command that could fail"
                self.warn(stated[key].line, key, text)
        if rule.print is True and rule.context:
            self.warn(stated["print"].line, "print", "context silences it; `always` prints too")
        for platform in map(_PLATFORM.match, rule.match_channel or ()):
            if platform and platform[1] not in OURS | HERMES:
                hint = yaml_values.near(platform[1], OURS | HERMES)
                text = f"no platform {platform[1]!r} is known{hint}"
                if hint:  # what is like none may be anybody's
                    self.warn(stated["match_channel"].line, "match_channel", text)
        for key in _MATCHES[:-1]:
            one = getattr(rule, key) or ("",)
            if len(one) == 1 and ", " in one[0]:
                text = f"is one text with a comma; a list is written [{one[0]}]"
                self.warn(stated[key].line, key, text)
        if any("*" in t and t != "*" for t in rule.match_type or ()):
            self.warn(stated["match_type"].line, "match_type", "is compared exactly; no wildcards")

    def _warn_format(self, source: str, key: str, line: int) -> None:
        template = compile_format(source)
        for name in template.unknown:
            known = ("from", "text", "type", "ts", "channel", "id", "session", "to")
            hint = yaml_values.near(name.strip("{}"), known)
            self.warn(line, key, f"unknown placeholder {name}; it stays as it is{hint}")
        for directive in doubtful_times(template):
            self.warn(line, key, f"{directive} is not known to every strftime")

    def _warn_unreachable(self, rules: tuple[Rule, ...]) -> None:
        stated = [_stated(rule) for rule in rules]
        for later, matches in enumerate(stated):
            first = next((n for n in range(later) if _takes_all_of(stated[n], matches)), None)
            if first is None:
                continue
            what = "every message" if stated[first] == _EVERY else "all that it matches"
            if stated[first] == matches:
                what = "the same"
            line = int(rules[later].where.rpartition(":")[2])
            text = f"is never reached: rule {rules[first].number} takes {what}"
            self.warn(line, f"rule {rules[later].number}", text)


_Stated = Mapping[str, frozenset[str]]
_EVERY: Final[_Stated] = {}


def _stated(rule: Rule) -> _Stated:
    """Return what a rule asks of a message, by field; `*` as a type asks for nothing."""
    found = {key: frozenset(getattr(rule, key)) for key in _MATCHES if getattr(rule, key)}
    return {
        key: values for key, values in found.items() if key != "match_type" or "*" not in values
    }


def _takes_all_of(earlier: _Stated, later: _Stated) -> bool:
    """Whether all that meets `later` meets `earlier`, as far as their patterns are the same."""
    if ("match_topic" in earlier) != (
        "match_topic" in later
    ):  # one is for events, one for messages
        return False
    return all(
        later.get(key, frozenset()) <= values and key in later for key, values in earlier.items()
    )
