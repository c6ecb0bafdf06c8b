"""The one error type that the sandbox shows to people."""

from __future__ import annotations


class SandboxError(Exception):
    """A failure told in four parts: what failed, where, why, and what to do about it.

    `fix` is an instruction that can be followed as it stands (a command, a file to read), never a guess.
    """

    def __init__(self, what: str, *, where: str = "", why: str = "", fix: str = "") -> None:
        self.what, self.where, self.why, self.fix = what, where, why, fix
        parts = [what]
        if where:
            parts.append(f"where: {where}")
        if why:
            parts.append(f"why: {why}")
        if fix:
            parts.append(f"what to do: {fix}")
        super().__init__("\n  ".join(parts))
