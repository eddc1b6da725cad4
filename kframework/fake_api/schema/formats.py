"""What the client's models leave out of a field's type: how many bits an integer has, which texts are quantities.

Both go by the name of the field, which Kubernetes uses alike in all its kinds; the few exceptions stand apart.
"""

from __future__ import annotations

from kframework.client.models import Type, fields
from kframework.fake_api.schema.names import type_name

_64_BITS = frozenset(
    "activeDeadlineSeconds capacity deletionGracePeriodSeconds fsGroup generation gid gracePeriodSeconds int ints"
    " maxItems maxLength maxProperties minItems minLength minProperties nodeAllocatableUpdatePeriodSeconds"
    " observedGeneration remainingItemCount resourceSliceCount revision runAsGroup runAsUser seconds sizeBytes"
    " startingDeadlineSeconds supplementalGroups terminationGracePeriodSeconds tolerationSeconds uid".split()
)
_SOMETIMES_64_BITS = frozenset(
    {
        ("ServiceAccountTokenProjection", "expirationSeconds"),
        ("TokenRequest", "expirationSeconds"),
        ("TokenRequestSpec", "expirationSeconds"),
        ("DeviceRequest", "count"),
        ("ExactDeviceRequest", "count"),
        ("DeviceSubRequest", "count"),
    }
)

_QUANTITIES = frozenset(
    "allocatable allocatedResources allocationMultiplier averageValue capacity consumedCapacity default defaultRequest"
    " divisor hard limits max maxLimitRequestRatio maximumVolumeSize min overhead podFixed requests resources sizeLimit"
    " step tolerance used validValues".split()
)
_SOMETIMES_QUANTITIES = frozenset({"MetricTarget", "MetricValueStatus", "Counter", "DeviceCapacity"})
#: In lists these are names: of what a role is about, of what a claim asks for.
_SOMETIMES_NAMES = frozenset({"requests", "resources"})

#: Fields that hold numbers or texts; all others of which the models know no type may hold anything.
INT_OR_STRING = frozenset({"maxSurge", "maxUnavailable", "minAvailable", "port", "targetPort"})

#: Texts that hold bytes, in Base64.
_BYTES = frozenset({"binaryData", "caBundle", "certificate", "pkixPublicKey", "proofOfPossession", "stubPKCS10Request"})
_SOMETIMES_BYTES = frozenset({("V1Secret", "data"), ("V1CertificateSigningRequestSpec", "request")})


def bits(model: str, field: str) -> int:
    """Return how many bits an integer has."""
    return 64 if field in _64_BITS or (type_name(model).name, field) in _SOMETIMES_64_BITS else 32


def is_quantity(model: str, field: str, type: Type) -> bool:
    """Return whether a field holds quantities, itself or in a list or a map."""
    if type.name != "str" or (field in _SOMETIMES_NAMES and fields(model)[field].within[:1] == ("list",)):
        return False
    return field in _QUANTITIES or (field == "value" and type_name(model).name in _SOMETIMES_QUANTITIES)


def is_bytes(model: str, field: str) -> bool:
    """Return whether a field holds bytes, itself or in a map."""
    return field in _BYTES or (model, field) in _SOMETIMES_BYTES
