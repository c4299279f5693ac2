"""Text for a model: labels, and what waits for a session."""
