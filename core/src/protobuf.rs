//! Protocol Buffers: fields read in place, and written; `wire/grpc/protobuf.py` has the format.

/// Reads fields; a number is a varint.
pub struct Reader<'a> {
    data: &'a [u8],
    pub at: usize,
}

pub enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

impl<'a> Reader<'a> {
    pub fn new(data: &'a [u8]) -> Self {
        Reader { data, at: 0 }
    }

    #[inline]
    pub fn number(&mut self) -> Option<u64> {
        let mut found = 0;
        for shift in (0..63).step_by(7) {
            let byte = *self.data.get(self.at)?;
            self.at += 1;
            found |= u64::from(byte & 0x7F) << shift;
            if byte < 0x80 {
                return Some(found);
            }
        }
        None // of ten bytes: negative, or too long
    }

    /// The next field; None at the end too, which `is_at_end` tells from damage.
    #[inline]
    pub fn field(&mut self) -> Option<(u64, Value<'a>)> {
        let tag = self.number()?;
        let value = match tag & 7 {
            0 => Value::Number(self.number()?),
            2 => {
                let size = usize::try_from(self.number()?).ok()?;
                let bytes = self.data.get(self.at..self.at.checked_add(size)?)?;
                self.at += size;
                Value::Bytes(bytes)
            }
            _ => return None,
        };
        Some((tag >> 3, value))
    }

    pub fn is_at_end(&self) -> bool {
        self.at == self.data.len()
    }
}

#[inline]
pub fn put_number(into: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        into.push(value as u8 & 0x7F | 0x80);
        value >>= 7;
    }
    into.push(value as u8);
}

#[inline]
pub fn put_bytes(into: &mut Vec<u8>, tag: u64, value: &[u8]) {
    put_number(into, tag);
    put_number(into, value.len() as u64);
    into.extend_from_slice(value);
}

/// A number that is there, 0 too.
#[inline]
pub fn put_field(into: &mut Vec<u8>, tag: u64, value: u64) {
    put_number(into, tag);
    put_number(into, value);
}

/// `google.protobuf.Timestamp` or `Duration`, whose zeros are left out.
pub fn put_time(into: &mut Vec<u8>, tag: u64, ms: u64) {
    let (seconds, nanos) = (ms / 1000, ms % 1000 * 1_000_000);
    let start = into.len();
    put_number(into, tag);
    into.push(0);
    let inner = into.len();
    if seconds > 0 {
        put_field(into, 0x08, seconds);
    }
    if nanos > 0 {
        put_field(into, 0x10, nanos);
    }
    let size = into.len() - inner;
    debug_assert!(size < 0x80 && start < inner);
    into[inner - 1] = size as u8;
}
