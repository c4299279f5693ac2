"""
What Hermes's `config.yaml` says of wakebus, and the text in which it says what it shall.

Rule 1: pure. Rule 2: an edit is made in the user's own text and then read as Hermes reads it (YAML
1.1, PyYAML): unless it means exactly the old meaning plus the change, it is refused. Rule 3: the
keys are Hermes's own: `plugins.enabled`, `plugins.disabled` (hermes_cli/plugins.py:243, 0.19.0) and
`plugins.entries.wakebus.allow_gateway_injection`, which newer Hermes reads for
`ctx.inject_message(session_key=)`.
"""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import yaml
from yaml.reader import ReaderError

from wakebus.plugin.install import yaml_edit
from wakebus.plugin.install.errors import CannotInstall

PLUGIN: Final = "wakebus"
ENABLED: Final = ("plugins", "enabled")
DISABLED: Final = ("plugins", "disabled")
GRANT: Final = ("plugins", "entries", PLUGIN, "allow_gateway_injection")
ISOLATION: Final = ("plugins", "isolation")


class PluginConfig(NamedTuple):
    """`enabled`, `disabled`: wakebus stands in that list. `grant`: None if the key is not there."""

    enabled: bool = False
    disabled: bool = False
    grant: bool | None = None


def read_config(text: str, name: str) -> PluginConfig:
    """Return what `text` says; `name` is the file's, for errors. Raises CannotInstall."""
    return _state(load_config(text, name), name)


def is_isolated(text: str, name: str) -> bool:
    """
    Return whether plugins are to run in a process of their own; `name` as in read_config.

    Read as Hermes 0.22 does (hermes_cli/plugin_isolation.py:106); 0.19 knows no such key. Raises
    CannotInstall.
    """
    found: Any = load_config(text, name)
    for key in ISOLATION:
        found = found.get(key) if isinstance(found, dict) else None
    return str(found or "").strip().lower() == "host"


def change_config(text: str, wanted: PluginConfig, name: str) -> str:
    """Return `text` so that it says `wanted`. Raises CannotInstall, and then names the way out."""
    edits = _edits(read_config(text, name), wanted)
    final = load_config(text, name)
    for edit in edits:
        edit.meant(final)
    edited = text
    for edit in edits:
        if (after := _edited(edited, edit, name)) is None:
            raise _by_hand(text, final, name)
        edited = after
    return edited


class _Edit(NamedTuple):
    """`meant` does to the meaning, in place, what `edit` does to the text."""

    meant: Callable[[dict[str, Any]], None]
    edit: Callable[[str], str]


def _edits(has: PluginConfig, wanted: PluginConfig) -> list[_Edit]:
    found: list[_Edit] = []
    if has.disabled and not wanted.disabled:
        found.append(_drop_item(DISABLED))
    if has.enabled != wanted.enabled:
        found.append(_add_item(ENABLED) if wanted.enabled else _drop_item(ENABLED))
    if has.grant != wanted.grant:
        found.append(_drop_grant() if wanted.grant is None else _grant(wanted.grant))
    return found


def _add_item(path: yaml_edit.Path) -> _Edit:
    return _Edit(
        lambda data: _list(data, path).insert(0, PLUGIN),
        lambda text: yaml_edit.add_item(text, path, PLUGIN),
    )


def _drop_item(path: yaml_edit.Path) -> _Edit:
    return _Edit(
        lambda data: _list(data, path).remove(PLUGIN),
        lambda text: yaml_edit.drop_item(text, path, PLUGIN),
    )


def _grant(value: bool) -> _Edit:
    def meant(data: dict[str, Any]) -> None:
        _mapping(data, GRANT[:-1])[GRANT[-1]] = value

    return _Edit(meant, lambda text: yaml_edit.put(text, GRANT, str(value).lower()))


def _drop_grant() -> _Edit:
    def meant(data: dict[str, Any]) -> None:
        _mapping(data, GRANT[:-1]).pop(GRANT[-1], None)

    return _Edit(meant, lambda text: yaml_edit.drop_key(text, GRANT))


def _edited(text: str, edit: _Edit, name: str) -> str | None:
    """Return the edited text if it means what it should, else None."""
    wanted = load_config(text, name)
    edit.meant(wanted)
    try:
        edited = edit.edit(text)
        same = _pruned(load_config(edited, name)) == _pruned(wanted)
    except (yaml_edit.CannotEdit, CannotInstall):
        return None
    return edited if same else None


def _pruned(data: dict[str, Any]) -> dict[str, Any]:
    """Return `data` without those of our containers that hold nothing: they mean nothing."""
    for path in (ENABLED, DISABLED, GRANT[:3], GRANT[:2], GRANT[:1]):
        above: Any = data
        for name in path[:-1]:
            above = above.get(name) if isinstance(above, dict) else None
        if isinstance(above, dict) and path[-1] in above and not above[path[-1]]:
            del above[path[-1]]
    return data


def _by_hand(text: str, final: dict[str, Any], name: str) -> CannotInstall:
    for path in (ENABLED, DISABLED, GRANT):
        if found := yaml_edit.find_duplicate_key(text, path):
            key, first, second = found
            return CannotInstall(
                f"{name}:{second}: {key} stands twice, lines {first} and {second}",
                "Make them one: Hermes reads only the last. Nothing was changed.",
            )
    return CannotInstall(
        f"{name} is laid out so that wakebus cannot edit it without touching other things",
        f"Write it yourself, beside what else stands there: {_wanted(final)}",
    )


def _wanted(final: dict[str, Any]) -> str:
    """Return what shall stand in the config, of ours only: other plugins have secrets there."""
    plugins = _pruned({"plugins": _plain(final.get("plugins"))}).get("plugins", {})
    shown = {key: plugins[key] for key in ("enabled", "disabled") if key in plugins}
    grant = plugins.get("entries", {}).get(PLUGIN, {}).get(GRANT[-1])
    if grant is not None:
        shown["entries"] = {PLUGIN: {GRANT[-1]: grant}}
    return _flow({"plugins": shown})


def _flow(value: Any) -> str:
    return yaml.safe_dump(value, default_flow_style=True, width=1 << 20, sort_keys=False).strip()


def load_config(text: str, name: str) -> dict[str, Any]:
    """Return the meaning of `text` as fresh, unshared values. Raises CannotInstall."""
    try:
        data = yaml.safe_load(text)
    except Exception as exc:  # PyYAML raises KeyError of `!!bool maybe`, IndexError of `!!int ""`
        raise CannotInstall(
            f"{name}{_line(exc, text)}: no YAML: {_problem(exc, text)}",
            "Repair this line; nothing was changed.",
        ) from None
    data = {} if data is None else data
    if not isinstance(data, dict):
        raise _wrong(name, "the whole file", "a mapping", data)
    return {key: _plain(value) for key, value in data.items()}


def _plain(value: Any) -> Any:
    """Return a copy in which no two places are one object, as aliases make them."""
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    return [_plain(one) for one in value] if isinstance(value, list) else value


def _line(error: Exception, text: str) -> str:
    if isinstance(error, ReaderError):
        return f":{text[: error.position].count(chr(10)) + 1}"
    mark = getattr(error, "problem_mark", None)
    return f":{mark.line + 1}" if mark is not None else ""


def _problem(error: Exception, text: str) -> str:
    if not isinstance(error, yaml.YAMLError | ValueError | RecursionError):
        return "a value is not what its type says"
    said = str(getattr(error, "problem", None) or error).splitlines()[0][:200]
    if isinstance(error, ReaderError):
        return said
    if line := yaml_edit.find_open_bracket(text):
        return f"{said}; a bracket is open since line {line}"
    begun, ended = (getattr(error, mark, None) for mark in ("context_mark", "problem_mark"))
    if begun is None or ended is None or begun.line == ended.line:
        return said
    return f"{said}; {error.context} that begins in line {begun.line + 1}"  # type: ignore[union-attr]


def _state(data: dict[str, Any], name: str) -> PluginConfig:
    plugins = _kind(data.get("plugins"), dict, "plugins", name)
    entries = _kind(plugins.get("entries"), dict, "plugins.entries", name)
    entry = _kind(entries.get(PLUGIN), dict, f"plugins.entries.{PLUGIN}", name)
    enabled = _kind(plugins.get("enabled"), list, "plugins.enabled", name)
    disabled = _kind(plugins.get("disabled"), list, "plugins.disabled", name)
    grant = entry.get(GRANT[-1])
    return PluginConfig(
        PLUGIN in enabled, PLUGIN in disabled, None if grant is None else grant is True
    )


def _kind(value: Any, kind: type[Any], key: str, name: str) -> Any:
    if value is None:
        return kind()
    if not isinstance(value, kind):
        raise _wrong(name, key, "a list" if kind is list else "a mapping", value)
    return value


def _wrong(name: str, key: str, wanted: str, value: Any) -> CannotInstall:
    got, step = type(value).__name__, "Repair it; nothing was changed."
    if wanted == "a list" and isinstance(value, str):
        words = [word.strip() for word in value.split(",") if word.strip()]
        ours = [PLUGIN] if key == ".".join(ENABLED) and PLUGIN not in words else []
        step = f"Write in its place: {key.rpartition('.')[2]}: {_flow(ours + words)}"
    return CannotInstall(f"{name}: {key}: {wanted} is needed, this is {got}", step)


def _mapping(data: dict[str, Any], path: yaml_edit.Path) -> dict[str, Any]:
    """Return the mapping at `path`, made where there is none."""
    for name in path:
        if data.get(name) is None:
            data[name] = {}
        data = data[name]
    return data


def _list(data: dict[str, Any], path: yaml_edit.Path) -> list[Any]:
    above = _mapping(data, path[:-1])
    if above.get(path[-1]) is None:
        above[path[-1]] = []
    found: list[Any] = above[path[-1]]
    return found
