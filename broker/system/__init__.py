"""
The machine: files, locks, logs, clocks, processes, forks, socket options; knows no message.

    private_files  files of one user        sqlite_file   damage, versions, copies of one file
    cached_file    files others write       lock_file     one broker a folder
    log_file       logs that rotate         processes     whether a process still runs
    clock          wall, mono, bus time     fork_safety   what a forked child lets go of
    durable_file   small files, replaced whole, that outlive a cut of power
    zmq_options    sockets that connect     text_table    tables for people and pipes
    text_width     columns of a text        file_trust    who may have written a file
    standard_files descriptors 0 to 2, where they were closed or nobody reads
"""
