"""What nodes cost an hour, one by one and many at once, in millionths of the currency: scores are integers.

Both forms do the same arithmetic in the same order, so they agree to the last digit.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from kframework import NodeInfo, NodeTable, PluginArgs, Rows

Price = Annotated[float, Field(ge=0, le=1_000_000, allow_inf_nan=False)]


class CheapestArgs(PluginArgs):
    """What `pluginConfig` may say.

    `prices` of a node an hour by the value of its `label`, `defaultPrice` for all others; `spotFactor` is how much of
    that a node costs whose `spotLabel` says `spot`.
    """

    prices: dict[str, Price]
    default_price: Price
    label: str = "node.kubernetes.io/instance-type"
    spot_label: str = "karpenter.sh/capacity-type"
    spot_factor: Annotated[float, Field(ge=0, le=1)] = 1.0

    def price(self, node: NodeInfo) -> float:
        """Return what a node costs."""
        price = self._list_price(node.labels.get(self.label))
        return price * self.spot_factor if _is_spot(node.labels.get(self.spot_label)) else price

    def price_nodes(self, nodes: NodeTable, rows: Rows) -> NDArray[np.float64]:
        """Return what nodes cost; each value of a label is looked up once, however many nodes have it."""
        prices = nodes.label(self.label).map_values(rows, self._list_price)
        spot = nodes.label(self.spot_label).map_values(rows, _is_spot) == 1
        return np.where(spot, prices * self.spot_factor, prices)

    def _list_price(self, value: str | None) -> int:
        price = self.default_price if value is None else self.prices.get(value, self.default_price)
        return round(price * 1e6)


def _is_spot(value: str | None) -> bool:
    return value == "spot"
