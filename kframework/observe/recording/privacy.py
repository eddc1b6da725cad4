"""What of an object does not go into a recording: Secrets, and copies of manifests that may hold some.

In its place stands a fingerprint, so that a change is still a change.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from hashlib import blake2b

import msgspec

from kframework.objects import ApiObject
from kframework.objects.codec import encode

#: What `kubectl apply` leaves on an object: the whole manifest, with whatever stands in the containers' environment.
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


class Privacy:
    """Encodes objects without what is nobody's business; fingerprints cannot be guessed from outside this process."""

    def __init__(self) -> None:
        self._key = os.urandom(32)

    def encode(self, obj: ApiObject) -> bytes:
        """Encode an object to JSON."""
        if LAST_APPLIED in obj.metadata.annotations:
            obj = self._without_manifest(obj)
        encoded = encode(obj)
        return self._veiled(encoded) if type(obj).__name__ == "Secret" else encoded

    def _without_manifest(self, obj: ApiObject) -> ApiObject:
        annotations = obj.metadata.annotations
        hidden = annotations | {LAST_APPLIED: self._fingerprint(annotations[LAST_APPLIED])}
        metadata = msgspec.structs.replace(obj.metadata, annotations=hidden)
        return msgspec.structs.replace(obj, metadata=metadata)

    def _veiled(self, encoded: bytes) -> bytes:
        """Veil the values of a Secret, as a plugin that watches Secrets declares it."""
        secret = msgspec.json.decode(encoded)
        for field in ("data", "stringData"):
            values = secret.get(field)
            if isinstance(values, Mapping):
                secret[field] = {key: self._fingerprint(str(value)) for key, value in values.items()}
        return msgspec.json.encode(secret)

    def _fingerprint(self, text: str) -> str:
        return blake2b(text.encode(), key=self._key, digest_size=12).hexdigest()
