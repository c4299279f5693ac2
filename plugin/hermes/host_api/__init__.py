"""
What wakebus needs of a live Hermes: no private name of Hermes stands anywhere else.

protocol.py says what is needed; private_*.py is the way of hermes-agent 0.19, by looking inside;
public_*.py what newer ones offer to plugins; choose.py takes the one that is there.
"""
