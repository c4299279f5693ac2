"""
An interactive `hermes` as a host of turns; knows no gateway.

    host  turns between the person's own     console  prints, and prompts that are only text
"""
