"""The operator configuration: what belongs to the administrator of the Kubernetes cluster.

    prices:
      currency: USD
      gpuHour: {H100: "2.50", default: "1.20"}
    prometheus:
      address: http://prometheus-operated.monitoring:9090

A GPU type is a name of the catalogue, which only the planner knows: whoever reads the file checks it.
"""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field

from .base import ApiModel
from .scalars import AcceleratorName, Currency, HttpAddress, Price

#: Key of prices.gpuHour for every GPU type that has no price of its own.
ANY_GPU: Final = "default"


class Prices(ApiModel):
    """What GPUs cost."""

    currency: Currency = Field("USD", description="Currency of all prices, as three capitals.")
    gpu_hour: Annotated[dict[AcceleratorName, Price], Field(max_length=64)] = Field(
        default_factory=dict, description="Price of one GPU for an hour, by GPU type or for `default`."
    )

    def of(self, accelerator: str | None) -> str | None:
        """Price of one GPU of that type (None = any) for an hour, None = unknown."""
        return self.gpu_hour.get(accelerator or ANY_GPU) or self.gpu_hour.get(ANY_GPU)


class Prometheus(ApiModel):
    """The Prometheus of this Kubernetes cluster. Nothing asks it yet."""

    address: HttpAddress | None = Field(None, description="Base address, e.g. http://prometheus:9090.")


class OperatorConfig(ApiModel):
    """The whole file."""

    prices: Prices = Field(default_factory=Prices)
    prometheus: Prometheus = Field(default_factory=Prometheus)
