"""Strings of the API: each with a pattern and a bound.

A string here may reach a command line, haproxy.cfg, a label or a file name, so each is one line of printable
ASCII without what is special there. Patterns are read by the API server's RE2 and by pydantic's regex crate
alike: `^` and `$` mean the ends of the text in both.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Final

from pydantic import AfterValidator, Field, StringConstraints

from .base import rule, validations
from .defaults import seconds

_DNS_LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_DNS_NAME: Final = rf"{_DNS_LABEL}(\.{_DNS_LABEL})*"
_QUALIFIED: Final = "[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"

LONGEST_DURATION: Final = "24h"


def _refuse(unfit: Callable[[str], bool], message: str) -> AfterValidator:
    """The same check as a CEL rule, should the CRD in the cluster be older than the operator."""

    def check(value: str) -> str:
        if unfit(value):
            raise ValueError(message)
        return value

    return AfterValidator(check)


def _text(pattern: str, longest: int, shortest: int = 1) -> StringConstraints:
    return StringConstraints(min_length=shortest, max_length=longest, pattern=f"^{pattern}$")


ModelId = Annotated[str, _text("[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)?", 200)]
ServedName = Annotated[str, _text("[A-Za-z0-9][A-Za-z0-9._/:-]*", 128)]
GitRevision = Annotated[str, _text("[A-Za-z0-9][A-Za-z0-9._/-]*", 100)]
EngineVersion = Annotated[str, _text(r"[0-9]{1,4}\.[0-9]{1,4}\.[0-9]{1,4}([.-]?[a-z0-9]+)*", 40)]
ImageReference = Annotated[str, _text("[a-z0-9]([a-zA-Z0-9._/:-]*[a-zA-Z0-9])?(@sha256:[0-9a-f]{64})?", 255)]
ObjectName = Annotated[str, _text(_DNS_NAME, 63)]
SecretKey = Annotated[str, _text("[-_a-zA-Z0-9][-._a-zA-Z0-9]*", 63)]
LabelKey = Annotated[str, _text(rf"({_DNS_NAME}/)?{_QUALIFIED}", 127)]
LabelValue = Annotated[str, _text("([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?", 63, 0)]
AnnotationValue = Annotated[str, _text("[ -~]*", 128, 0)]
#: One command line argument.
Argument = Annotated[str, _text("[ -~]+", 384)]
EnvName = Annotated[str, _text("[A-Za-z_][A-Za-z0-9_]*", 64)]
EnvValue = Annotated[str, _text("[ -~]*", 216, 0)]
#: Above 0; 20 characters are more than any node has.
Quantity = Annotated[str, _text(r"([1-9][0-9]*(\.[0-9]+)?|0\.[0-9]*[1-9][0-9]*)(m|k|M|G|T|Ki|Mi|Gi|Ti)?", 20)]
#: Without the suffix m: a thousandth of a byte is legal in Kubernetes, and always a slip.
Memory = Annotated[str, _text(r"([1-9][0-9]*(\.[0-9]+)?|0\.[0-9]*[1-9][0-9]*)(k|M|G|T|Ki|Mi|Gi|Ti)?", 20)]
#: An amount of money above 0, plain: no sign, no exponent.
Price = Annotated[str, _text(r"([1-9][0-9]*(\.[0-9]+)?|0\.[0-9]*[1-9][0-9]*)", 12)]
#: ISO 4217.
Currency = Annotated[str, _text("[A-Z]{3}", 3)]
HttpAddress = Annotated[
    str,
    _text(r"https?://([A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?(/[A-Za-z0-9._~-]+)*/?", 253),
]
AcceleratorName = Annotated[str, _text("[A-Za-z0-9][A-Za-z0-9 ._-]*", 63)]

_PATH_MESSAGE: Final = "a path below the volume's root can't hold '..'"
VolumePath = Annotated[
    str,
    _text("[A-Za-z0-9][A-Za-z0-9._/-]*", 200),
    _refuse(lambda path: ".." in path, _PATH_MESSAGE),
    Field(json_schema_extra=validations(rule("!self.contains('..')", _PATH_MESSAGE))),
]

_RESOURCE_MESSAGE: Final = (
    "extended resources can't lie under kubernetes.io: use the name that the device plugin "
    "registers, e.g. nvidia.com/gpu"
)
ResourceName = Annotated[
    str,
    _text(rf"{_DNS_NAME}/{_QUALIFIED}", 127),
    _refuse(lambda name: "kubernetes.io/" in name, _RESOURCE_MESSAGE),
    Field(json_schema_extra=validations(rule("!self.contains('kubernetes.io/')", _RESOURCE_MESSAGE))),
]

_DURATION_MESSAGE: Final = f"has to be at most {LONGEST_DURATION}"
#: Seconds, minutes or hours as Kubernetes people write them: 90s, 5m, 2h.
Duration = Annotated[
    str,
    _text("[1-9][0-9]{0,5}(s|m|h)", 7),
    _refuse(lambda text: seconds(text) > seconds(LONGEST_DURATION), _DURATION_MESSAGE),
    Field(
        json_schema_extra=validations(
            # What the pattern refuses would be an error of the rule as well, with a second message.
            rule(
                f"!self.matches('^[0-9]+[smh]$') || duration(self) <= duration('{LONGEST_DURATION}')",
                _DURATION_MESSAGE,
            )
        )
    ),
]
