"""
What platform files are written with; pure.

    chat_ids    kinds of ids by their shapes        urls        URLs and credentials of settings
    requests    bodies: JSON, forms, sizes, keys    responses   answers, read alike everywhere
    error_codes what a platform's code means            error_words  and what its words do
    gateways    redirects, and what is too large on the way
"""
