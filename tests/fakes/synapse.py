"""
A real Matrix server: Synapse in a process and a folder of its own, on loopback, with users in it.
"""

import base64
import hashlib
import hmac
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx

from fakes.broker import until

_SECRET = "shared"
_KEEP = {"per_second": 10_000, "burst_count": 10_000}
_LOG = {
    "version": 1,
    "formatters": {"line": {"format": "%(asctime)s %(levelname)s %(name)s %(message)s"}},
    "handlers": {"file": {"class": "logging.FileHandler", "formatter": "line", "filename": "log"}},
    "root": {"level": "WARNING", "handlers": ["file"]},
    "disable_existing_loggers": False,
}


class Synapse:
    """`url`: for MATRIX_HOMESERVER. `kill` it. Ids end with `:localhost`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self._client = httpx.Client(trust_env=False, timeout=30)
        self.port = 0

    @property
    def url(self) -> str:
        """Its base URL."""
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> "Synapse":
        """Start it and wait until it answers; on the same port as before."""
        if not self.port:
            self.port = _free_port()
            self._configure()
        with (self._folder / "output").open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "synapse.app.homeserver", "-c", "hs.yaml"],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=self._folder,
                env={k: v for k, v in os.environ.items() if k != "PYTHONWARNINGS"},
            )
        until(self._healthy, 90)
        return self

    def kill(self) -> None:
        """SIGKILL."""
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self._process.wait(30)

    def close(self) -> None:
        """End it and what asks it."""
        self.kill()
        self._client.close()

    def ask(
        self, method: str, path: str, token: str, body: Any = None, *, bad: bool = False
    ) -> dict[str, Any]:
        """Ask the server something that works (with `bad`: or not)."""
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        answer = self._client.request(method, self.url + path, json=body, headers=headers)
        assert bad or answer.status_code == 200, (path, answer.status_code, answer.text)
        found: dict[str, Any] = answer.json()
        return found

    def register(self, name: str, *, admin: bool = False) -> str:
        """Make a user by the shared secret; return the access token."""
        path = "/_synapse/admin/v1/register"
        nonce = self.ask("GET", path, "")["nonce"]
        words = (nonce, name, "pw", "admin" if admin else "notadmin")
        mac = hmac.new(_SECRET.encode(), "\0".join(words).encode(), hashlib.sha1).hexdigest()
        body = {"nonce": nonce, "username": name, "password": "pw", "admin": admin, "mac": mac}
        return str(self.ask("POST", path, "", body)["access_token"])

    def room(self, token: str, **body: Any) -> str:
        """Make a room; return its id."""
        made = self.ask("POST", "/_matrix/client/v3/createRoom", token, body)
        return str(made["room_id"])

    def events(self, token: str, room: str) -> list[dict[str, Any]]:
        """Return the messages of a room, oldest first, with their ids."""
        path = f"/_matrix/client/v3/rooms/{quote(room)}/messages?dir=b&limit=100"
        found = self.ask("GET", path, token)["chunk"]
        return [event for event in reversed(found) if event["type"] == "m.room.message"]

    def _healthy(self) -> bool:
        assert self._process is not None and self._process.poll() is None, self._said()
        try:
            return self._client.get(f"{self.url}/health").status_code == 200
        except httpx.TransportError:
            return False

    def _said(self) -> str:
        return "".join(file.read_text() for file in self._folder.glob("*") if file.name == "output")

    def _configure(self) -> None:
        key = base64.b64encode(secrets.token_bytes(32)).decode().rstrip("=")
        (self._folder / "key").write_text(f"ed25519 a_test {key}\n")
        (self._folder / "log.yaml").write_text(json.dumps(_LOG))
        (self._folder / "hs.yaml").write_text(json.dumps(self._settings()))

    def _settings(self) -> dict[str, Any]:
        return {
            "server_name": "localhost",
            "pid_file": str(self._folder / "pid"),
            "listeners": [
                {
                    "port": self.port,
                    "type": "http",
                    "bind_addresses": ["127.0.0.1"],
                    "resources": [{"names": ["client", "media"]}],
                }
            ],
            "database": {"name": "sqlite3", "args": {"database": str(self._folder / "hs.db")}},
            "log_config": str(self._folder / "log.yaml"),
            "media_store_path": str(self._folder / "media"),
            "signing_key_path": str(self._folder / "key"),
            "registration_shared_secret": _SECRET,
            "macaroon_secret_key": "m",
            "form_secret": "f",
            "bcrypt_rounds": 4,
            "report_stats": False,
            "trusted_key_servers": [],
            "rc_message": _KEEP,
            "rc_registration": _KEEP,
            "rc_joins": {"local": _KEEP, "remote": _KEEP},
            "rc_invites": {"per_room": _KEEP, "per_user": _KEEP, "per_issuer": _KEEP},
            "rc_room_creation": _KEEP,
        }


def _free_port() -> int:
    """Return a free port below those that systems give to clients: nobody takes it meanwhile."""
    while True:
        port = 20_000 + secrets.randbelow(12_000)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
