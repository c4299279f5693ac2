"""
One platform, one file: its ids, limits and codes, then its adapter, then the reading of answers.

Rule 1: pure. Rule 2: at most 300 lines of code. Rule 3: the docstring names the sources of codes
and limits (the platform's error lists, by way of its SDKs and public reports).
"""
