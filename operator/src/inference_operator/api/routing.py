"""The two documents between operator and gateway agents, each with exactly one writer.

Routing (operator -> agents): ConfigMap `<cluster>-routing`, key `routing.json`, the JSON of `Routing`.
Report (agents -> operator): ConfigMap `<cluster>-gateway-report`, one key `gateway.<pod name>` per gateway
pod, the JSON of `GatewayReport`, applied server-side with a field manager of its own per pod, at most once
a second and only when something other than `time` changed.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

#: Shares are counted in ten-thousandths, so that 0.01 % can be said in whole numbers.
FULL_SHARE = 10_000


class _Document(BaseModel):
    """Unknown keys are ignored: during an upgrade one side is newer than the other."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class Track(_Document):
    """One revision as the gateway sees it: a backend of its own."""

    revision: str
    #: Name of the revision's headless Service; its EndpointSlices list the engines.
    service: str
    #: Part of new requests that goes here, in ten-thousandths. 0 = finish what runs, take nothing new.
    share: int = Field(ge=0, le=FULL_SHARE)
    port: int
    health_path: str
    metrics_path: str
    #: Requests one engine works on at once within the SLO (plan); more wait in the gateway.
    concurrency: int = Field(ge=1)


class Drain(_Document):
    """An engine pod that gets no new requests, since it is about to be removed."""

    pod: str
    #: Seconds since the epoch at which the operator asked for it.
    since: float


class Routing(_Document):
    """What the gateway of one cluster has to do."""

    cluster: str
    namespace: str
    served_name: str
    tracks: tuple[Track, ...] = ()
    drains: tuple[Drain, ...] = ()
    #: Requests that may wait in one gateway pod, and how long one waits before it is told 503.
    queue_length: int = Field(ge=1)
    queue_timeout_seconds: float = Field(gt=0)
    #: Longest time a running stream is waited for when a gateway or an engine goes away.
    drain_timeout_seconds: float = Field(gt=0)


class EngineReport(_Document):
    """What one gateway pod knows of one engine pod. Only slow facts: this is written on change."""

    pod: str
    revision: str
    #: UP, DOWN or DRAIN (no new requests).
    state: str
    #: Only set for an engine in DRAIN: no request of this gateway is left on it.
    idle: bool = False


class GatewayEvent(_Document):
    """Something that a person wants to know: an engine went down, came back, a configuration was refused."""

    #: EngineDown, EngineUp, ConfigRefused.
    kind: str
    pod: str = ""
    revision: str = ""
    #: Seconds since the epoch.
    time: float
    #: From the first sign of trouble (last good answer) to no new request being sent there, if known.
    detection_ms: int | None = None
    streams_cut: int | None = None
    message: str = ""


class GatewayReport(_Document):
    """State of one gateway pod."""

    gateway: str
    #: HAProxy accepts and the first sync of routing and endpoints is done.
    ready: bool
    #: Routing generation understood: digest of the routing document that is in force.
    routing_digest: str
    engines: tuple[EngineReport, ...] = ()
    #: The last ten, oldest first.
    events: tuple[GatewayEvent, ...] = ()
