//! Records of another broker's log, as a replica takes them over: checked as recovery checks them, with their queue
//! entries and hashed keys.
//!
//! `store/copied_log.py` has the same in Python, and takes what is left here: the record at which a run ends is either
//! cut by the end of the data, or out of the ordinary (long topics, IPv6 hosts, delay levels, odd properties, other
//! offsets than come next), or damaged. Nothing here says which.

use crate::guard::guarded;
use crate::index::put_key;
use crate::java_hash;
use crate::layout::{self, i32_at, i64_at, ANY_V6, COMMITTED, CRC_MASK, FIXED_BYTES, MAGIC_V1, TRANSACTION_MASK};
use crate::properties::{
    keys, value, Facts, CHECKSUM_BYTES, CHECKSUM_START, ITEM_END, KEYS_START, TAGS_START, UNIQUE_KEY_START,
};
use crate::records::{put_entry, BLANK_BYTES};
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};
use std::collections::HashMap;

const QUEUE_ID_MAX: i32 = 65_535;
const SCHEDULE_TOPIC: &[u8] = b"SCHEDULE_TOPIC_XXXX"; // its entries have times in place of tags
const RESEMBLING_BITS: u32 = 3;

/// Bytes of the run, how many records, the store time of the last, hashed keys, and of each queue: topic, number, the
/// offset of its first record here, entries.
type Run<'py> = (usize, usize, i64, Bound<'py, PyBytes>, Bound<'py, PyList>);

/// The plain records at the beginning of `data`, which lies at `position` of a log whose segment has `room` bytes from
/// there on; None without one. `keys_max` is of one message; one that has more is Python's. Raises RuntimeError for a
/// defect.
#[pyfunction]
pub fn copied_records<'py>(
    py: Python<'py>,
    data: PyBuffer<u8>,
    position: i64,
    room: usize,
    keys_max: usize,
) -> PyResult<Option<Run<'py>>> {
    if !data.is_c_contiguous() {
        return Err(PyValueError::new_err("what was received is one piece"));
    }
    // SAFETY: the buffer is contiguous and alive until this function returns, and nothing writes to it meanwhile: the GIL
    // is held all along, and no Python code runs before the last look at it.
    let data = unsafe { std::slice::from_raw_parts(data.buf_ptr() as *const u8, data.item_count()) };
    guarded(|| {
        let found = scan(data, position, room, keys_max);
        if found.records == 0 {
            return Ok(None);
        }
        let queues = PyList::empty(py);
        for queue in &found.queues {
            queues.append((queue.topic, queue.queue_id, queue.first_offset, PyBytes::new(py, &queue.entries)))?;
        }
        Ok(Some((found.size, found.records, found.stored_ms, PyBytes::new(py, &found.keys), queues)))
    })
}

#[derive(Default)]
pub struct Found<'a> {
    pub size: usize,
    pub records: usize,
    pub stored_ms: i64,
    pub keys: Vec<u8>,
    pub queues: Vec<Queue<'a>>,
}

pub struct Queue<'a> {
    pub topic: &'a str,
    pub queue_id: i32,
    pub first_offset: i64,
    pub entries: Vec<u8>,
    next_offset: i64,
    key_hash: u32, // of the topic and "#", from which the hashes of its keys go on
}

pub fn scan(data: &[u8], position: i64, room: usize, keys_max: usize) -> Found<'_> {
    let mut found = Found::default();
    let mut numbers: HashMap<(&[u8], i32), usize> = HashMap::new();
    while let Some(record) = record_at(data, found.size, position, room) {
        let Some(facts) = look(record.properties) else { break };
        if keys(&facts).take(keys_max + 1).count() > keys_max {
            break;
        }
        let key = (record.topic, record.queue_id);
        let number = match numbers.get(&key) {
            Some(&number) => number,
            None => {
                let Ok(topic) = std::str::from_utf8(record.topic) else { break };
                let key_hash = java_hash::extend(java_hash::extend(0, record.topic), b"#");
                found.queues.push(Queue {
                    topic,
                    queue_id: record.queue_id,
                    first_offset: record.offset,
                    entries: Vec::new(),
                    next_offset: record.offset,
                    key_hash,
                });
                numbers.insert(key, found.queues.len() - 1);
                found.queues.len() - 1
            }
        };
        let queue = &mut found.queues[number];
        if record.offset != queue.next_offset {
            break;
        }
        queue.next_offset = queue.next_offset.wrapping_add(1);
        let own_position = position + found.size as i64;
        put_entry(&mut queue.entries, own_position, record.size, java_hash::of_tag(facts.tag));
        for key in keys(&facts) {
            let hash = java_hash::for_index(java_hash::extend(queue.key_hash, key));
            put_key(&mut found.keys, hash, own_position, record.stored_ms);
        }
        found.size += record.size;
        found.records += 1;
        found.stored_ms = record.stored_ms;
    }
    found
}

struct Record<'a> {
    size: usize,
    queue_id: i32,
    offset: i64,
    stored_ms: i64,
    topic: &'a [u8],
    properties: &'a [u8], // without the checksum
}

/// A whole, undamaged record of the ordinary kind.
#[inline]
fn record_at(data: &[u8], start: usize, position: i64, room: usize) -> Option<Record<'_>> {
    let head: &[u8; FIXED_BYTES] = data.get(start..)?.first_chunk()?;
    let size = i32_at(head, layout::SIZE_AT) as u32 as usize;
    let (queue_id, sys_flag) = (i32_at(head, layout::QUEUE_ID_AT), i32_at(head, layout::SYS_FLAG_AT));
    let body_bytes = i32_at(head, layout::BODY_BYTES_AT);
    let transaction = sys_flag & TRANSACTION_MASK;
    if i32_at(head, layout::MAGIC_AT) as u32 != MAGIC_V1
        || i64_at(head, layout::POSITION_AT) != position.checked_add(start as i64)?
        || sys_flag & ANY_V6 != 0
        || (transaction != 0 && transaction != COMMITTED)
        || !(0..=QUEUE_ID_MAX).contains(&queue_id)
        || body_bytes < 0
        || size + BLANK_BYTES as usize > room.checked_sub(start)?
    {
        return None;
    }
    let record = data.get(start..start + size)?;
    let topic_at = FIXED_BYTES + body_bytes as usize + 1;
    let topic = record.get(topic_at..topic_at + usize::from(*record.get(topic_at - 1)?))?;
    let properties_at = topic_at + topic.len() + 2;
    let length = record.get(properties_at - 2..properties_at)?;
    let properties = record.get(properties_at..)?;
    if topic.is_empty()
        || topic == SCHEDULE_TOPIC
        || properties.len() != usize::from(u16::from_be_bytes([length[0], length[1]]))
    {
        return None;
    }
    let body = &record[FIXED_BYTES..topic_at - 1];
    let properties = checked(record, body, i32_at(head, layout::BODY_CRC_AT) as u32, properties)?;
    let (offset, stored_ms) = (i64_at(head, layout::OFFSET_AT), i64_at(head, layout::STORED_MS_AT));
    Some(Record { size, queue_id, offset, stored_ms, topic, properties })
}

/// Properties without their checksum, if that, or without one the body's, is right.
#[inline]
fn checked<'a>(record: &[u8], body: &[u8], body_crc: u32, properties: &'a [u8]) -> Option<&'a [u8]> {
    let Some(at) = properties.len().checked_sub(CHECKSUM_BYTES) else {
        return (body.is_empty() || crc32fast::hash(body) & CRC_MASK == body_crc).then_some(properties);
    };
    let (own, trailer) = properties.split_at(at);
    let (name, end) = (&trailer[..CHECKSUM_START.len()], trailer[CHECKSUM_BYTES - 1]);
    if name == CHECKSUM_START && end == ITEM_END {
        if own.last().is_some_and(|&last| last != ITEM_END) {
            return None; // its last value goes on into the checksum
        }
        let mut rest = crc32fast::hash(&record[..record.len() - CHECKSUM_BYTES]) & CRC_MASK;
        for &digit in &trailer[CHECKSUM_START.len()..CHECKSUM_BYTES - 1] {
            if digit != b'0' + (rest % 10) as u8 {
                return None; // the least significant digit comes first
            }
            rest /= 10;
        }
        return Some(own);
    }
    let differing: u32 = name.iter().zip(CHECKSUM_START).map(|(a, b)| (a ^ b).count_ones()).sum();
    if name == CHECKSUM_START || differing + (end ^ ITEM_END).count_ones() <= RESEMBLING_BITS {
        return None; // a checksum that is damaged
    }
    (body.is_empty() || crc32fast::hash(body) & CRC_MASK == body_crc).then_some(properties)
}

/// What queue and index hold of a message. None: a name is the end of a longer one, part of a value, or has no value, or
/// something is not UTF-8: what then counts is Python's to say.
#[inline]
fn look(raw: &[u8]) -> Option<Facts<'_>> {
    let mut facts = Facts { unique_key: b"", keys: b"", tag: b"", waits: true };
    for at in 0..raw.len() {
        match raw[at] {
            b'T' if raw[at..].starts_with(TAGS_START) => facts.tag = value(raw, at, TAGS_START.len())?,
            b'U' if raw[at..].starts_with(UNIQUE_KEY_START) => {
                facts.unique_key = value(raw, at, UNIQUE_KEY_START.len())?
            }
            b'K' if raw[at..].starts_with(KEYS_START) => facts.keys = value(raw, at, KEYS_START.len())?,
            _ => {}
        }
    }
    let are_texts = [facts.tag, facts.unique_key, facts.keys].iter().all(|each| std::str::from_utf8(each).is_ok());
    are_texts.then_some(facts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::{put_record, Own, Shared, TopicField};

    fn run(count: i64) -> Vec<u8> {
        let topic = TopicField::new(b"orders");
        let shared = Shared {
            topic: &topic,
            queue_id: 3,
            sys_flag: 0,
            born_ms: 1,
            born_host: [0; 8],
            stored_ms: 9,
            store_host: [0; 8],
            attempts: 0,
        };
        let own = Own { flag: 0, body: b"body", properties: b"KEYS\x01a b\x02TAGS\x01t\x02", added: b"" };
        let mut into = Vec::new();
        for offset in 7..7 + count {
            let position = 1000 + into.len() as i64;
            put_record(&mut into, &shared, &own, offset, position, own.record_bytes(&topic));
        }
        into
    }

    #[test]
    fn a_run_is_found_up_to_where_it_is_cut() {
        let data = run(3);
        let found = scan(&data, 1000, 1 << 20, 10);
        assert_eq!((found.size, found.records, found.stored_ms, found.keys.len()), (data.len(), 3, 9, 6 * 20));
        assert_eq!((found.queues[0].topic, found.queues[0].first_offset), ("orders", 7));
        assert_eq!(found.queues[0].entries.len(), 60);
        for end in 0..data.len() {
            assert_eq!(scan(&data[..end], 1000, 1 << 20, 10).records, end / (data.len() / 3));
        }
        assert_eq!(scan(&data, 1001, 1 << 20, 10).records, 0, "it belongs elsewhere");
        assert_eq!(scan(&data, 1000, data.len() + 7, 10).records, 2, "no room for a blank mark behind it");
        assert_eq!(scan(&data, 1000, 1 << 20, 1).records, 0, "more keys than the index takes");
    }

    #[test]
    fn a_flipped_bit_ends_it() {
        let data = run(2);
        for bit in 0..data.len() * 8 {
            let mut bad = data.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(scan(&bad, 1000, 1 << 20, 10).records, bit / 8 / (data.len() / 2));
        }
    }
}
