"""
What an arriving message does here, by `bus-rules.yaml` (RULES.md).

    model   a rule, a set of rules      nodes   YAML with lines      schema  what a file may say
    load    files, reloading            trust   who may have written a file
    match   which rule, which actions   render  formats              script  formats as scripts
    clean   text made harmless          errors  what can be wrong
"""
