"""kubectl inference: what a person at a terminal asks about InferenceClusters.

A composition root beside the operator: it reads through the API server with the person's own rights, and
never writes. The modules of single commands are imported when their command runs, so that help and completion
start fast.
"""
