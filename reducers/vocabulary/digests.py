"""Digests: BLAKE2b-128, written as 32 lower-case hexadecimal digits."""

import hashlib

DIGEST_BYTES = 16


def raw_digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=DIGEST_BYTES).digest()


def digest_of(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=DIGEST_BYTES).hexdigest()


def text_digest(text: str) -> str:
    """Digest of a text's UTF-8 bytes; of a call's arguments, exactly as the model wrote them."""
    return digest_of(text.encode("utf-8", "surrogatepass"))
