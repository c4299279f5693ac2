"""
Programs that run agents, from the command line: how each keeps a conversation.

    agent_command  `{session_id}` in `listen --agent CMD`: the first turn's line, and later ones
    conversations  which conversation belongs to which session, on disk
"""
