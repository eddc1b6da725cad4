"""CacheLocality: nodes that have what a pod reads in their cache are preferred."""

from __future__ import annotations

from cache_locality.locality import DATASET, DATASETS, CacheLocality, CacheLocalityArgs

__all__ = ["DATASET", "DATASETS", "CacheLocality", "CacheLocalityArgs"]
