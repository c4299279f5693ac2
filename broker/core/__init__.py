"""What the broker knows and decides; no socket, no file: effects are given in as callables."""
