"""Commands that set wakebus up: one verb, one file."""
