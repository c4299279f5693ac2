"""
What an arriving message does here, by `bus-rules.yaml` (RULES.md).

    model     a rule, a set of rules        schema       what a file may say
    load      files, reloading              yaml_values  YAML whose values know their line
    match     which rule, which actions     script       formats that are scripts
    render    formats                       errors       what can be wrong
    sanitize  text made harmless            retry_time   when what failed is tried again
"""
