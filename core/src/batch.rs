//! The body of a batch send: items back to back.
//!
//! ```text
//!     byte   0       4       8      12     16            20      20+n                22+n
//!            total   0       0      flag   body length   body    properties length   properties
//!            size    magic   crc                                 (i16)                             big-endian
//! ```

use crate::layout::i32_at;
use std::ops::Range;

const HEAD_BYTES: usize = 20;
const OVERHEAD_BYTES: usize = HEAD_BYTES + 2;
pub const PROPERTIES_BYTES_MAX: usize = 32_767;

/// One message of a batch: where in the data its parts lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    pub flag: i32,
    pub body: Range<usize>,
    pub properties: Range<usize>,
}

/// The item that begins at `start`; None when its lengths do not add up.
#[inline]
pub fn item_at(data: &[u8], start: usize) -> Option<Item> {
    if data.len() - start < OVERHEAD_BYTES {
        return None;
    }
    let total = usize::try_from(i32_at(data, start)).ok()?;
    let body_bytes = usize::try_from(i32_at(data, start + 16)).ok()?;
    let (body_start, end) = (start + HEAD_BYTES, start.checked_add(total)?);
    let body_end = body_start.checked_add(body_bytes)?;
    if end > data.len() || body_end.checked_add(2)? > end {
        return None;
    }
    let properties_bytes = usize::from(data[body_end]) << 8 | usize::from(data[body_end + 1]);
    if body_end + 2 + properties_bytes != end || properties_bytes > PROPERTIES_BYTES_MAX {
        return None;
    }
    Some(Item { flag: i32_at(data, start + 12), body: body_start..body_end, properties: body_end + 2..end })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(flag: i32, body: &[u8], properties: &[u8]) -> Vec<u8> {
        let total = (OVERHEAD_BYTES + body.len() + properties.len()) as i32;
        let mut data = Vec::new();
        for each in [total, 0, 0, flag, body.len() as i32] {
            data.extend_from_slice(&each.to_be_bytes());
        }
        data.extend_from_slice(body);
        data.extend_from_slice(&(properties.len() as u16).to_be_bytes());
        data.extend_from_slice(properties);
        data
    }

    #[test]
    fn an_item_is_found_and_every_cut_is_not() {
        let data = encoded(-3, b"body", b"a\x01b\x02");
        let item = item_at(&data, 0).unwrap();
        assert_eq!((item.flag, &data[item.body], &data[item.properties]), (-3, &b"body"[..], &b"a\x01b\x02"[..]));
        for end in 0..data.len() {
            assert_eq!(item_at(&data[..end], 0), None);
        }
    }

    #[test]
    fn any_bytes_are_an_item_or_none() {
        let mut state = 1u64;
        for _ in 0..200_000 {
            let data: Vec<u8> = (0..40)
                .map(|_| {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    if state >> 62 == 0 {
                        (state >> 33) as u8
                    } else {
                        (state >> 60) as u8 & 3
                    }
                })
                .collect();
            if let Some(item) = item_at(&data, 0) {
                assert!(item.body.end <= data.len() && item.properties.end <= data.len());
            }
        }
    }
}
