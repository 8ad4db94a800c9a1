"""A reward that answers after 0.2 to 2 s, as tools and graders do; how long is fixed by the reply."""

import asyncio
import zlib

FASTEST, SLOWEST = 0.2, 2.0  # seconds


def delay(reply: str) -> float:
    """Seconds for one reply: uniform over replies, the same for the same reply."""
    return FASTEST + (SLOWEST - FASTEST) * zlib.crc32(reply.encode()) / 2**32


async def reward_func(queries: list[str], prompts: list[str], labels: list[str]) -> list[float]:
    replies = [query[len(prompt) :] for query, prompt in zip(queries, prompts, strict=True)]
    await asyncio.sleep(delay(replies[0]))
    return [sum(character.isdigit() for character in reply) / max(1, len(reply)) for reply in replies]
