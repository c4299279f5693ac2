"""Where values come from, and which of them are secret."""
