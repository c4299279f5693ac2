"""bus-rules.yaml: read, matched, rendered."""
