"""The one error that ends a command; a module of its own, since it is needed before anything slow."""

from __future__ import annotations


class PluginError(Exception):
    """The command can't answer; the message is a whole line: what, where, why and what to do."""
