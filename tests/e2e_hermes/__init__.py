"""
The real Hermes on loopback: `hermes gateway run` and `hermes` in tmux, with wakebus as installed.

server.py (HTTP on a free port) · model.py, script.py (the model server) · mattermost.py, ws.py (the
platform) · gateway.py, pane.py (real processes) · world.py (all of it).
Run by `make hermes` in an environment of its own; `make unit` does not collect it.
"""
