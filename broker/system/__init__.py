"""The machine: files, locks, logs, clocks, processes, forks, socket options; knows no message."""
