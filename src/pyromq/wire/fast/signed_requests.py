"""Hot requests of a server that verifies signatures: one decoding gives the typed header and what its signature covers.

The content of a signature is written out again from the typed values, which are what the request is then answered from.
So a request whose number was written in another way (``"03"``) is verified as what it means. Where the signature does
not match that, the values as they travelled are looked at: the plain way is ``signed_content``, and it decides.

Headers with fields that no client of ours, Java's or Go's sends, or with anything else that is odd, are decoded as on
any other server, and verified the plain way.
"""

from __future__ import annotations

from collections.abc import Callable
from types import NoneType
from typing import Any, Final, NamedTuple, cast, get_args

import msgspec

from pyromq.wire.codes import RequestCode as Code
from pyromq.wire.ext import JSON_ERRORS, Truths, reader_of
from pyromq.wire.fast.signed_fields import MORE_FIELDS, SignedFields
from pyromq.wire.frame import Frame, SerializeType
from pyromq.wire.headers import REQUEST_HEADERS, Header
from pyromq.wire.received import Received, decode_received
from pyromq.wire.signature import ACCESS_KEY, SECURITY_TOKEN, SIGNATURE

HOT_CODES: Final = (Code.SEND_MESSAGE_V2, Code.SEND_BATCH_MESSAGE, Code.PULL_MESSAGE, Code.LITE_PULL_MESSAGE)

_JSON: Final = SerializeType.JSON
_RESPONSE: Final = 1
_TRUTHS: Final = {None: "", False: "false", True: "true"}


class _Form(NamedTuple):
    """How requests of one code are read."""

    code: int
    decode: Callable[[bytes], Received[Any]]
    truths: Truths | None
    header_type: type
    signed: Callable[[Any], SignedFields]


def _form_of(code: Code) -> _Form:
    plain = REQUEST_HEADERS[code]
    known = {field.encode_name for field in msgspec.structs.fields(plain)}
    more = {f"signed_{number}": name for number, name in enumerate(MORE_FIELDS) if name not in known}
    more |= {"access_key": ACCESS_KEY, "security_token": SECURITY_TOKEN, "signature": SIGNATURE}
    header_type = msgspec.defstruct(
        f"Signed{plain.__name__}",
        [(attribute, str, "") for attribute in more],
        bases=(plain,),
        rename=more,
        forbid_unknown_fields=True,
        frozen=True,
        kw_only=True,
        gc=False,
    )
    reader = reader_of(cast("type[Header]", header_type))
    decode = msgspec.json.Decoder(Received[header_type], strict=False).decode  # type: ignore[valid-type]
    return _Form(int(code), decode, reader.truths, header_type, _writer(header_type))


def _writer(header_type: type[msgspec.Struct]) -> Callable[[Any], SignedFields]:
    """Access key, signature, and all values in the order of their names, as plain senders write them."""
    fields = [field for field in msgspec.structs.fields(header_type) if field.encode_name != SIGNATURE]
    fields.sort(key=lambda field: field.encode_name.encode("utf-16-be"))
    texts = "".join(f"{{{_text_of(field)}}}" for field in fields)
    source = f'lambda h: (h.access_key, h.signature, f"{texts}".encode())'
    return cast("Callable[[Any], SignedFields]", eval(source, {"truths": _TRUTHS}))


def _text_of(field: msgspec.structs.FieldInfo) -> str:
    """The expression for its value."""
    kinds, value = {field.type, *get_args(field.type)}, f"h.{field.name}"
    if bool in kinds:
        return f"truths[{value}]"
    if NoneType not in kinds:
        return value
    return f"{value} or ''" if str in kinds else f"'' if {value} is None else {value}"


_forms: Final = {code: _form_of(code) for code in HOT_CODES}
_by_type: Final = {form.header_type: form.signed for form in _forms.values()}
_by_beginning: Final = {f'{{"code":{form.code},"'.encode()[:12]: form for form in _forms.values()}


def decode_signed(frame: Frame) -> Received[Any]:
    """``decode_received``, with a header that ``signed_content_of`` knows if the request is a hot one.

    Raises UndecodableHeaderError, HeaderFieldError.
    """
    form = _by_beginning.get(frame.header[:12])
    if form is not None and frame.serialize_type is _JSON:
        code, decode, truths, _, _ = form
        try:
            received = decode(frame.header)
        except JSON_ERRORS:
            return decode_received(frame)
        if received.code == code and not received.flag & _RESPONSE:
            if truths is None or True not in truths(received.header):
                received.body, received.frame = frame.body, frame
                return received
    return decode_received(frame)


def signed_values(request: Received[Any]) -> SignedFields | None:
    """Access key, signature and content without body, written out from the typed header; None: it has no such form."""
    signed = _by_type.get(type(request.header))
    return signed(request.header) if signed is not None else None
