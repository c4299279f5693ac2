"""
`wakebus install`: puts wakebus into an agent's own configuration, and takes it out again.

    hermes_home    all of it for one Hermes home
    hermes_config  what Hermes's config.yaml says of wakebus, and what it shall say (pure)
    hermes_tool_search  how a model comes to the tools there (pure)
    hermes_python  the Python that runs Hermes
    yaml_edit      smallest edits of a YAML text (pure)
    user_files     one step from the old file to the new one
    shipped_files  files of ours in others' folders: current, outdated, or changed by them (pure)
    next_steps     the commands that a user is told to run next
    errors         why nothing was changed, with the next step
"""
