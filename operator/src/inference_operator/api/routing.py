"""The two documents between operator and gateway agents, each with exactly one writer.

Routing (operator -> agents): ConfigMap `<cluster>-routing`, key `routing.json`, the JSON of `Routing`.
Report (agents -> operator): ConfigMap `<cluster>-gateway-report`, one key `gateway.<pod name>` per gateway
pod, the JSON of `GatewayReport`, applied server-side with a field manager of its own per pod, at most once
a second and only when the key doesn't hold what is true now.

Whoever may edit ConfigMaps may write into both, so every value has a bound: a reader calculates with them and
shows them. The bounds are far above what the writers put in.
"""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field

#: Shares are counted in ten-thousandths, so that 0.01 % can be said in whole numbers.
FULL_SHARE = 10_000
#: 9999-12-31T23:59:59Z, the last second that a date has.
_LAST_SECOND: Final = 253_402_300_799

Name = Annotated[str, Field(max_length=253)]
Word = Annotated[str, Field(max_length=63)]
Path = Annotated[str, Field(max_length=256)]
Message = Annotated[str, Field(max_length=1_000)]
#: Seconds since the epoch.
Moment = Annotated[float, Field(ge=0, le=_LAST_SECOND)]
#: Seconds, a week at most: HAProxy counts milliseconds in 31 bits, and infinity is no number for it.
Span = Annotated[float, Field(gt=0, le=604_800)]


class _Document(BaseModel):
    """Unknown keys are ignored: during an upgrade one side is newer than the other."""

    model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=False)


class Track(_Document):
    """One revision as the gateway sees it: a backend of its own."""

    revision: Word
    #: Name of the revision's headless Service; its EndpointSlices list the engines.
    service: Word
    #: Part of new requests that goes here, in ten-thousandths. 0 = finish what runs, take nothing new.
    share: int = Field(ge=0, le=FULL_SHARE)
    port: int = Field(ge=1, le=65_535)
    health_path: Path
    metrics_path: Path
    #: Requests one engine works on at once within the SLO (plan); more wait in the gateway.
    concurrency: int = Field(ge=1, le=1_000_000)


class Drain(_Document):
    """An engine pod that gets no new requests, since it is about to be removed."""

    pod: Name
    #: When the operator asked for it.
    since: Moment


class Routing(_Document):
    """What the gateway of one cluster has to do."""

    cluster: Word
    namespace: Word
    served_name: Name
    tracks: tuple[Track, ...] = Field((), max_length=1_000)
    drains: tuple[Drain, ...] = Field((), max_length=100_000)
    #: Requests that may wait in one gateway pod, and how long one waits before it is told 503.
    queue_length: int = Field(ge=1, le=1_000_000)
    queue_timeout_seconds: Span
    #: Longest time a running stream is waited for when a gateway or an engine goes away.
    drain_timeout_seconds: Span


class EngineReport(_Document):
    """What one gateway pod knows of one engine pod. Only slow facts: this is written on change."""

    pod: Name
    revision: Word
    #: UP, DOWN or DRAIN (no new requests).
    state: Word
    #: Only set for an engine in DRAIN: no request of this gateway is left on it.
    idle: bool = False


class GatewayEvent(_Document):
    """Something that a person wants to know: an engine went down, came back, a configuration was refused."""

    #: EngineDown, EngineUp, ConfigRefused.
    kind: Word
    pod: Name = ""
    revision: Word = ""
    time: Moment
    #: From the first sign of trouble (last good answer) to no new request being sent there, if known.
    detection_ms: int | None = Field(None, ge=0, le=86_400_000)
    streams_cut: int | None = Field(None, ge=0, le=1_000_000)
    message: Message = ""


class GatewayReport(_Document):
    """State of one gateway pod."""

    gateway: Name
    #: HAProxy accepts and the first sync of routing and endpoints is done.
    ready: bool
    #: Routing generation understood: digest of the routing document that is in force.
    routing_digest: Annotated[str, Field(max_length=64)]
    engines: tuple[EngineReport, ...] = Field((), max_length=100_000)
    #: The last ten, oldest first.
    events: tuple[GatewayEvent, ...] = Field((), max_length=100)
