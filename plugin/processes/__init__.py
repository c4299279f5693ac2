"""
Child processes and their end; knows no message but its environment.

    run           one child: input, output, limits, its whole group
    cancel        ending from another thread
    orphan_guard  nothing outlives this program
    environment   what rules' commands and scripts find in theirs (pure)
"""
