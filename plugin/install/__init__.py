"""
`wakebus install`: puts wakebus into an agent's own configuration, and takes it out again.

errors    why nothing was changed, with the next step
yamltext  smallest edits of a YAML text (pure)
config    what Hermes's config.yaml says of wakebus, and what it shall say (pure)
shipped   files of ours in other people's folders: current, outdated, or changed by the user (pure)
files     one step from the old file to the new one
python    the Python that runs Hermes
commands  the commands that a user is told to run next
hermes    all of it for one Hermes home
"""
