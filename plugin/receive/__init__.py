"""
What an arrived message does; where it runs is a Protocol (host.py).

    dispatch         its actions, by its rule
    turn_queue       whose turn it is in each session
    host             what dispatch needs of where it runs
    listen_host      `wakebus listen`
    agent_process    one run of `listen --agent CMD`
    agent_conversations  its turns, each session's in one conversation
    shell_command    a rule's command
    message_file     MESSAGE_FILE of commands
    event_rules      events that rules ask for
    failure          what counts as failed, and how that is said
    answers          where an answer goes
    terminal_output  where prints go
    terminal_report  what a terminal is told of the work
    outcome_limits   an outcome that fits
    maintenance      a broker that runs, rules that are current
"""
