"""
What each platform says and wants to hear; one pure file per platform, beside its adapter.

Rule 1: pure. Rule 2: its docstring names the sources of its codes and limits (the platform's error
lists, by way of its SDKs and public reports).
"""
