"""The process: sockets, signals, children, command line; decides nothing about a message."""
