"""The gateway hook as `wakebus install hermes` puts it into `$HERMES_HOME/hooks/wakebus`."""
