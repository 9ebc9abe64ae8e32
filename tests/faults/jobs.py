"""The content of a broker, in which no word of a mail may be."""

from typing import Any


def read_jobs(redis: Any) -> str:
    """Return every value in Redis with its key, as text."""
    readers = {
        b"string": redis.get,
        b"hash": redis.hgetall,
        b"set": redis.smembers,
        b"list": lambda key: redis.lrange(key, 0, -1),
        b"zset": lambda key: redis.zrange(key, 0, -1),
        b"stream": redis.xrange,
        b"none": lambda key: None,  # deleted meanwhile
    }
    return "\n".join(
        f"{key}: {readers[redis.type(key)](key)}" for key in redis.scan_iter(count=1000)
    )
