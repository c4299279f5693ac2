"""
How commands read their words: argparse, near words, help that fits; knows no verb.

    parser     the one parser of all commands
"""
