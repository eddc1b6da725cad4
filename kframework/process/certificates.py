"""The certificate that the endpoints show: read again when its files have changed, as whoever renews it expects."""

from __future__ import annotations

import asyncio
import logging
import ssl
from pathlib import Path

from kframework.errors import ConfigError

_log = logging.getLogger(__name__)

#: The files are looked at so often, in seconds, as in kube-scheduler.
PERIOD = 60.0


class Certificate:
    """A certificate with its key, for TLS on our side; ConfigError if they are of no use."""

    def __init__(self, certificate: str, key: str) -> None:
        if not certificate or not key:
            raise ConfigError("TLS needs both --tls-cert-file and --tls-private-key-file")
        self._certificate, self._key = certificate, key
        self._seen = self._read()
        #: What is shown to whoever connects next.
        self.context: ssl.SSLContext = self._load()

    async def keep_up(self) -> None:
        """Read the files again and again, until cancelled."""
        while True:
            await asyncio.sleep(PERIOD)
            await asyncio.to_thread(self.renew)

    def renew(self) -> None:
        """Show what stands in the files now; where that is of no use, say so once, and go on with what was shown."""
        found = self._read()
        if found == self._seen:
            return
        self._seen = found
        try:
            self.context = self._load()
        except ConfigError as error:
            _log.warning("%s; the one before is shown on", error)
        else:
            _log.info("the certificate %s has changed, and is shown from now on", self._certificate)

    def _read(self) -> list[bytes]:
        """Return the contents of the files; of one that cannot be read nothing."""
        found = []
        for file in (self._certificate, self._key):
            try:
                found.append(Path(file).read_bytes())
            except OSError:
                found.append(b"")
        return found

    def _load(self) -> ssl.SSLContext:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        try:
            context.load_cert_chain(self._certificate, self._key, password=_no_password)
        except (OSError, ValueError) as error:
            message = f"cannot use the certificate {self._certificate} with the key {self._key}: {error}"
            raise ConfigError(message) from error
        return context


def _no_password() -> str:
    """Refuse a key with a password, for which ssl would ask at the terminal."""
    raise ValueError("the key has a password; give one without")
