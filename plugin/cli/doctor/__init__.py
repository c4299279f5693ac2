"""
What `wakebus doctor` looks at: one check, one function, in the file of its subject.

    doctor         the verb, and the list of checks
    finding        what a check saw, and the next step
    bus_checks     the folder, the broker, the courier
    file_checks    rules and settings
    install_checks the commands on PATH, and Hermes
"""
