"""
Text for a model: labels, and what waits for a session.

    prompt           the prompt of a turn          label    what stands around text from the bus
    pending_context  texts for the next turn       journal  they, on disk
"""
