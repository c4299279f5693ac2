"""
Commands: how they speak, and the two light senders.

    main          `wakebus`: its verbs (bus/, chats/, setup/), each loaded when it is called
    command       a verb as a value
    progress      what a terminal shows while a command waits
    output        text, tables or JSON, and an exit status
    notify        `notify-hermes`, and how all verbs send
    message_body  text, JSON or standard input, as a message's body
    receipt_text  a receipt in words
    targets       one message to several
    when          `10m`, `18:00`
    no_answer     why a message that was handled has none
    notify_agent  `notify-agent`
"""
