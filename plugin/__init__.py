"""The receive side: rules, turns, the commands."""
