"""
Commands: how they speak, and the two light senders.

    main          `wakebus`: its verbs (bus/, chats/, setup/), each loaded when it is called
    command       a verb as a value
    output        text, tables or JSON, and an exit status
    notify        `notify-hermes`
    notify_agent  `notify-agent`
"""
