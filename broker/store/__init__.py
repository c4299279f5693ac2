"""
SQL and the thread that runs it; knows no connection and no endpoint's holder.

    store         the tables, as methods            rows                 what goes in and comes out
    schema        the tables' steps                 group_commit         the writer thread
    batch_insert  many new messages at once         retention            what is kept; the quota
    recovery      opening, damage, closing          clock_marks          bus time over a restart
    dead_letters  dead letters, inboxes, redrive    dead_letter_history  what earlier lives tell
    stored_json   a row's JSON, or that it is none  lineage              what led to and came of it
"""
