"""The console commands."""
