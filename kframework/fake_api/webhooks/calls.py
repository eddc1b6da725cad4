"""How webhooks are reached: over HTTP, for as long as they may take."""

from __future__ import annotations

from kframework.fake_api.webhooks.hooks import Webhook
from kframework.fake_api.webhooks.reviews import Unanswered

#: How many bytes a webhook may answer.
LARGEST = 3 << 20


async def ask(hook: Webhook, body: bytes) -> bytes:
    """Return what a webhook answers; Unanswered if it does not, in time or at all."""
    import ssl  # only those pay for a client who have webhooks

    from aiohttp import ClientError, ClientSession, ClientTimeout

    if not hook.url:
        raise Unanswered("it is a Service, and there is no network of Services here: give its clientConfig a url")
    call = f'failed to call webhook: Post "{hook.url}?timeout={hook.seconds}s"'
    try:
        trusted = ssl.create_default_context(cadata=hook.authorities or None) if hook.url.startswith("https") else False
        async with ClientSession(timeout=ClientTimeout(total=hook.seconds)) as session:
            settings = {"content-type": "application/json", "accept": "application/json"}
            address = f"{hook.url}?timeout={hook.seconds}s"
            async with session.post(address, data=body, headers=settings, ssl=trusted) as response:
                found = bytearray()
                async for chunk in response.content.iter_any():
                    found += chunk
                    if len(found) > LARGEST:
                        raise Unanswered(f"{call}: it answers more than {LARGEST} bytes")
                if response.status != 200:
                    raise Unanswered(f"{call}: it answers {response.status} {response.reason}")
                return bytes(found)
    except TimeoutError as error:
        raise Unanswered(f"{call}: context deadline exceeded") from error
    except (ClientError, OSError, ValueError) as error:  # the last two: certificates, addresses
        raise Unanswered(f"{call}: {error}") from error
