"""What header fields are made of.

Every header is a frozen struct of strings, numbers and booleans, so none needs the garbage collector. Attributes are
the wire names in snake case; a field whose wire name does not follow from that carries it explicitly. Numbers are plain
``int`` within the range that Java gives them: what does not fit is refused at the border, it cannot overflow a record
later. Booleans without ``None`` and numbers with a default are Java primitives: their writers always send them.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


class Header(msgspec.Struct, frozen=True, kw_only=True, gc=False, rename="camel"):
    """Typed ext fields of one kind of request or response."""
