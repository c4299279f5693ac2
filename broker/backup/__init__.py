"""
A bus in one file, and the way back.

    backup_file  what such a file is, and making one while a broker writes
    restore      putting one in the place of the store; no broker runs meanwhile
"""
