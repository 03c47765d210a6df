//! Records of the commit log and entries of consume queues, for IPv4 hosts and with checksums.
//!
//! `wire/record_layout.py` has the layout.

use crate::layout::{self, CRC_MASK, FIXED_BYTES, MAGIC_V1, MAGIC_V2};
use crate::properties::{CHECKSUM_BYTES, CHECKSUM_DIGITS, CHECKSUM_START, ITEM_END};

pub const BLANK_BYTES: i64 = 8;
pub const ENTRY_BYTES: usize = 20;
const TOPIC_V1_BYTES_MAX: usize = 127;

/// What every record of a topic repeats.
pub struct TopicField {
    pub magic: u32,
    pub bytes: Vec<u8>,
}

impl TopicField {
    pub fn new(topic: &[u8]) -> Self {
        let mut field = TopicField { magic: MAGIC_V1, bytes: Vec::new() };
        field.set(topic);
        field
    }

    /// Of another topic.
    #[inline]
    pub fn set(&mut self, topic: &[u8]) {
        let is_long = topic.len() > TOPIC_V1_BYTES_MAX;
        let length = (topic.len() as u16).to_be_bytes();
        self.magic = if is_long { MAGIC_V2 } else { MAGIC_V1 };
        self.bytes.clear();
        self.bytes.extend_from_slice(if is_long { &length } else { &length[1..] });
        self.bytes.extend_from_slice(topic);
    }
}

/// What the records of one request have in common.
pub struct Shared<'a> {
    pub topic: &'a TopicField,
    pub queue_id: i32,
    pub sys_flag: i32,
    pub born_ms: i64,
    pub born_host: [u8; 8],
    pub stored_ms: i64,
    pub store_host: [u8; 8],
    pub attempts: i32,
}

/// One message of them. `added` follows its properties, which are closed by 0x02 first if they are not.
pub struct Own<'a> {
    pub flag: i32,
    pub body: &'a [u8],
    pub properties: &'a [u8],
    pub added: &'a [u8],
}

impl Own<'_> {
    /// Bytes of the properties as they are stored, with their checksum.
    #[inline]
    pub fn properties_bytes(&self) -> usize {
        self.properties.len() + usize::from(self.is_open()) + self.added.len() + CHECKSUM_BYTES
    }

    #[inline]
    fn is_open(&self) -> bool {
        self.properties.last().is_some_and(|&last| last != ITEM_END)
    }

    #[inline]
    pub fn record_bytes(&self, topic: &TopicField) -> usize {
        FIXED_BYTES + self.body.len() + topic.bytes.len() + 2 + self.properties_bytes()
    }
}

/// Append a record of that size, as `record_bytes` tells it.
#[inline]
pub fn put_record(into: &mut Vec<u8>, shared: &Shared<'_>, own: &Own<'_>, offset: i64, position: i64, size: usize) {
    let start = into.len();
    let mut head = [0u8; FIXED_BYTES];
    let mut put = |at: usize, bytes: &[u8]| head[at..at + bytes.len()].copy_from_slice(bytes);
    put(layout::SIZE_AT, &(size as u32).to_be_bytes());
    put(layout::MAGIC_AT, &shared.topic.magic.to_be_bytes());
    put(layout::BODY_CRC_AT, &(crc32fast::hash(own.body) & CRC_MASK).to_be_bytes());
    put(layout::QUEUE_ID_AT, &shared.queue_id.to_be_bytes());
    put(layout::FLAG_AT, &own.flag.to_be_bytes());
    put(layout::OFFSET_AT, &offset.to_be_bytes());
    put(layout::POSITION_AT, &position.to_be_bytes());
    put(layout::SYS_FLAG_AT, &shared.sys_flag.to_be_bytes());
    put(layout::BORN_MS_AT, &shared.born_ms.to_be_bytes());
    put(layout::BORN_HOST_AT, &shared.born_host);
    put(layout::STORED_MS_AT, &shared.stored_ms.to_be_bytes());
    put(layout::STORE_HOST_AT, &shared.store_host);
    put(layout::ATTEMPT_AT, &shared.attempts.to_be_bytes());
    put(layout::BODY_BYTES_AT, &(own.body.len() as u32).to_be_bytes()); // between these two: no prepared message
    into.reserve(size);
    into.extend_from_slice(&head);
    into.extend_from_slice(own.body);
    into.extend_from_slice(&shared.topic.bytes);
    into.extend_from_slice(&(own.properties_bytes() as u16).to_be_bytes());
    into.extend_from_slice(own.properties);
    if own.is_open() {
        into.push(ITEM_END);
    }
    into.extend_from_slice(own.added);
    let mut rest = crc32fast::hash(&into[start..]) & CRC_MASK;
    into.extend_from_slice(CHECKSUM_START);
    for _ in 0..CHECKSUM_DIGITS {
        into.push(b'0' + (rest % 10) as u8); // the least significant digit first
        rest /= 10;
    }
    into.push(ITEM_END);
    debug_assert_eq!(into.len() - start, size);
}

#[inline]
pub fn put_entry(into: &mut Vec<u8>, position: i64, size: usize, tag_hash: i64) {
    into.extend_from_slice(&position.to_be_bytes());
    into.extend_from_slice(&(size as i32).to_be_bytes());
    into.extend_from_slice(&tag_hash.to_be_bytes());
}
