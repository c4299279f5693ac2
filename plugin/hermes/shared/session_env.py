"""What Hermes says of the session that runs here and now, to tools, hooks and child processes."""

import sys


def session_env(name: str) -> str:
    """Return `HERMES_SESSION_<name>` of the session that runs here (session_context.py:304)."""
    find = getattr(sys.modules.get("gateway.session_context"), "get_session_env", None)
    return str(find(f"HERMES_SESSION_{name}", "") or "") if callable(find) else ""
