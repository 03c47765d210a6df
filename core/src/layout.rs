//! Where the parts of a stored record lie, and what its flags mean; `wire/record_layout.py` has the layout.

use std::ops::Range;

pub const FIXED_BYTES: usize = 88; // with both hosts IPv4; the body follows
pub const OVERHEAD_BYTES: usize = FIXED_BYTES + 3; // and the lengths of topic (V1) and properties
pub const SIZE_AT: usize = 0;
pub const MAGIC_AT: usize = 4;
pub const BODY_CRC_AT: usize = 8;
pub const QUEUE_ID_AT: usize = 12;
pub const FLAG_AT: usize = 16;
pub const OFFSET_AT: usize = 20;
pub const POSITION_AT: usize = 28;
pub const SYS_FLAG_AT: usize = 36;
pub const BORN_MS_AT: usize = 40;
pub const BORN_HOST_AT: usize = 48;
pub const STORED_MS_AT: usize = 56;
pub const STORE_HOST_AT: usize = 64;
pub const ATTEMPT_AT: usize = 72;
pub const BODY_BYTES_AT: usize = 84;
const V6_MORE_BYTES: usize = 12;
pub const MAGIC_V1: u32 = 0xDAA3_20A7;
pub const MAGIC_V2: u32 = 0xDAA3_20AB; // the length of its topic has two bytes
const MAGIC_V1_LOW: u8 = MAGIC_V1 as u8;
pub const CRC_MASK: u32 = 0x7FFF_FFFF; // of checksums as they are stored

// Flags of a message.
pub const COMPRESSED: i32 = 1;
pub const TRANSACTION_MASK: i32 = 0b1100;
pub const INNER_BATCH: i32 = 0x80;
pub const COMMITTED: i32 = 0b1000;
pub const BORN_V6: i32 = 0x10;
pub const STORE_V6: i32 = 0x20;
pub const ANY_V6: i32 = BORN_V6 | STORE_V6;

/// Panics unless four bytes are there.
#[inline]
pub fn i32_at(data: &[u8], at: usize) -> i32 {
    i32::from_be_bytes(data[at..at + 4].try_into().expect("four bytes"))
}

/// Panics unless eight bytes are there.
#[inline]
pub fn i64_at(data: &[u8], at: usize) -> i64 {
    i64::from_be_bytes(data[at..at + 8].try_into().expect("eight bytes"))
}

/// A record that is whole and whose parts fill it exactly; ranges count from the beginning of the data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Places {
    pub start: usize,
    pub end: usize,
    pub sys_flag: i32,
    pub body: Range<usize>,
    pub properties: Range<usize>,
}

impl Places {
    /// How much further things lie behind the host of the producer, and behind both.
    #[inline]
    pub fn more(&self) -> (usize, usize) {
        let born = if self.sys_flag & BORN_V6 != 0 { V6_MORE_BYTES } else { 0 };
        (born, born + if self.sys_flag & STORE_V6 != 0 { V6_MORE_BYTES } else { 0 })
    }
}

/// The record that begins at `start`; None when its parts do not add up, or it is cut.
#[inline]
pub fn record_at(data: &[u8], start: usize) -> Option<Places> {
    let rest = data.get(start..)?;
    if rest.len() < OVERHEAD_BYTES {
        return None;
    }
    let size = i32_at(rest, SIZE_AT) as u32 as usize;
    let magic = i32_at(rest, MAGIC_AT) as u32;
    if size < OVERHEAD_BYTES || size > rest.len() || (magic != MAGIC_V1 && magic != MAGIC_V2) {
        return None;
    }
    let record = &rest[..size];
    let sys_flag = i32_at(record, SYS_FLAG_AT);
    let (body_start, body_end) = body_range(record, i64::from(sys_flag))?;
    let properties = properties_start(record, i64::from(sys_flag))?;
    let length = usize::from(record[properties - 2]) << 8 | usize::from(record[properties - 1]);
    (properties + length == size).then(|| Places {
        start,
        end: start + size,
        sys_flag,
        body: start + body_start..start + body_end,
        properties: start + properties..start + size,
    })
}

/// Where the body of a record begins and ends; None when it leaves the record.
#[inline]
pub fn body_range(record: &[u8], sys_flag: i64) -> Option<(usize, usize)> {
    let start =
        FIXED_BYTES + (sys_flag as usize >> 4 & 1) * V6_MORE_BYTES + (sys_flag as usize >> 5 & 1) * V6_MORE_BYTES;
    if record.len() < start {
        return None;
    }
    let end = start.checked_add(i32_at(record, start - 4) as u32 as usize)?;
    (end <= record.len()).then_some((start, end))
}

/// Where the properties of a record begin; None when that is not inside of it.
#[inline]
pub fn properties_start(record: &[u8], sys_flag: i64) -> Option<usize> {
    let (_, body_end) = body_range(record, sys_flag)?;
    let first = usize::from(*record.get(body_end)?);
    let topic_end = if record[MAGIC_AT + 3] == MAGIC_V1_LOW {
        body_end + 1 + first
    } else {
        body_end + 2 + (first << 8 | usize::from(*record.get(body_end + 1)?))
    };
    (topic_end + 2 <= record.len()).then_some(topic_end + 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    pub fn encoded(magic: u32, sys_flag: i32, body: &[u8], topic: &[u8], properties: &[u8]) -> Vec<u8> {
        let more = (sys_flag as usize >> 4 & 1) * 12 + (sys_flag as usize >> 5 & 1) * 12;
        let mut record = vec![0u8; FIXED_BYTES + more];
        record[MAGIC_AT..BODY_CRC_AT].copy_from_slice(&magic.to_be_bytes());
        record[SYS_FLAG_AT..BORN_MS_AT].copy_from_slice(&sys_flag.to_be_bytes());
        record[BODY_BYTES_AT + more..].copy_from_slice(&(body.len() as u32).to_be_bytes());
        record.extend_from_slice(body);
        if magic == MAGIC_V2 {
            record.push(0);
        }
        record.push(topic.len() as u8);
        record.extend_from_slice(topic);
        record.extend_from_slice(&(properties.len() as u16).to_be_bytes());
        record.extend_from_slice(properties);
        let size = (record.len() as u32).to_be_bytes();
        record[..4].copy_from_slice(&size);
        record
    }

    #[test]
    fn parts_are_found_and_every_cut_is_not() {
        for (magic, sys_flag) in [(MAGIC_V1, 0), (MAGIC_V2, 0), (MAGIC_V1, BORN_V6), (MAGIC_V1, BORN_V6 | STORE_V6)] {
            let record = encoded(magic, sys_flag, b"body", b"orders", b"a\x01b\x02");
            let found = record_at(&record, 0).unwrap();
            assert_eq!((&record[found.body], &record[found.properties]), (&b"body"[..], &b"a\x01b\x02"[..]));
            for end in 0..record.len() {
                assert_eq!(record_at(&record[..end], 0), None);
            }
        }
        assert_eq!(record_at(&encoded(0xCBD4_3194, 0, b"b", b"t", b""), 0), None);
    }
}
