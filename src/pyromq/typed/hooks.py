"""Values inside of others that msgspec does not know by itself: models of pydantic in a struct, a list, a dataclass."""

from __future__ import annotations

from typing import Any

from pyromq.typed.kinds import is_pydantic


def enc_hook(value: Any) -> Any:
    """For msgspec's encoders. Raises TypeError for what nobody knows."""
    kind = type(value)
    if is_pydantic(kind):
        return kind.__pydantic_serializer__.to_python(value, mode="json")
    raise TypeError(f"{kind.__qualname__} is neither a type that JSON knows nor a class with fields")


def dec_hook(kind: Any, value: Any) -> Any:
    """For msgspec's decoders: pydantic's ValidationError is a ValueError, to which msgspec adds the path."""
    if is_pydantic(kind):
        return kind.__pydantic_validator__.validate_python(value)
    raise TypeError(f"no codec makes a {getattr(kind, '__qualname__', kind)} of it")
