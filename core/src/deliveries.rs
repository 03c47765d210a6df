//! Responses of a receive: stored records as clients of gRPC get them; `broker/grpc/messages.py` has the same in Python.
//!
//! Python's are records of IPv6 hosts, compressed bodies, messages with a time of delivery, a priority or a transaction,
//! properties that repeat a name or are no UTF-8, and messages without an id of their own.

use crate::guard::guarded;
use crate::http2_lane::{FRAME_MAX, PREFIX_BYTES};
use crate::json::put_decimal;
use crate::layout::{
    i32_at, i64_at, record_at, Places, ANY_V6, ATTEMPT_AT, BORN_HOST_AT, BORN_MS_AT, COMPRESSED, OFFSET_AT,
    QUEUE_ID_AT, STORED_MS_AT, STORE_HOST_AT,
};
use crate::md5::md5_each;
use crate::properties::{ITEM_END, NAME_END};
use crate::protobuf::{put_bytes, put_field, put_number, put_time};
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::collections::HashSet;

const ITEMS_MAX: usize = 128; // of one message: repeated names are looked for among all of them
const NORMAL: u64 = 1;
const FIFO: u64 = 2;
const MD5: u64 = 2;
const IDENTITY: u64 = 1;
const DIGEST_BYTES: usize = 32; // as text

const FRAME_HEAD_BYTES: usize = 9;
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const ODD: [&[u8]; 6] =
    [b"TRAN_MSG", b"TIMER_DELIVER_MS", b"TIMER_DELAY_MS", b"TIMER_DELAY_SEC", b"DELAY", b"_SYS_MSG_PRIORITY_"];

/// What all messages of a portion have in common.
struct Portion<'a> {
    topic: &'a [u8],   // encoded
    receipt: &'a [u8], // up to the offset
    invisible_ms: u64,
}

#[derive(Default)]
struct Scratch<'a> {
    items: Vec<(&'a [u8], &'a [u8])>,
    user: Vec<u8>,
    system: Vec<u8>,
    text: Vec<u8>,
}

/// Messages that are encoded but for their digests and bodies.
#[derive(Default)]
struct Heads<'a> {
    bytes: Vec<u8>,
    ends: Vec<usize>,    // of each in `bytes`
    digests: Vec<usize>, // where the text of each belongs
    bodies: Vec<&'a [u8]>,
    body_bytes: usize,
}

/// Of a portion: runs of records, receipts up to the offset, and how many messages there are.
type Popped = (Vec<PyBuffer<u8>>, Vec<u8>, usize);

#[pyclass(frozen, module = "pyromq_core")]
pub struct Deliveries {
    own: HashSet<Vec<u8>>, // names of properties that are no application's
}

#[pymethods]
impl Deliveries {
    #[new]
    fn new(own: Vec<String>) -> Self {
        Deliveries { own: own.into_iter().map(String::into_bytes).collect() }
    }

    /// Responses with all of these messages, one behind the other, each with the prefix of gRPC; `topic` is encoded. None:
    /// one of them is Python's, or they are not whole records, or not so many.
    fn messages<'py>(
        &self,
        py: Python<'py>,
        portions: Vec<Popped>,
        topic: &[u8],
        invisible_ms: u64,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        guarded(|| {
            let Some(heads) = self.heads(&portions, topic, invisible_ms)? else { return Ok(None) };
            PyBytes::new_with(py, heads.size(), |into| {
                heads.pieces().fold(0, |at, piece| {
                    into[at..at + piece.len()].copy_from_slice(piece);
                    at + piece.len()
                });
                Ok(())
            })
            .map(Some)
        })
    }

    /// A whole response in frames of HTTP/2, and how many bytes of DATA it has: `messages` between what comes first and the
    /// time of delivery, all within `room`; `blocks` are head and trailers. None: as `messages`, or there is no room.
    #[allow(clippy::too_many_arguments)]
    fn response<'py>(
        &self,
        py: Python<'py>,
        portions: Vec<Popped>,
        topic: &[u8],
        invisible_ms: u64,
        stream_id: u32,
        ends: (&[u8], u64),
        blocks: (&[u8], &[u8]),
        room: usize,
    ) -> PyResult<Option<(Bound<'py, PyBytes>, usize)>> {
        guarded(|| {
            let Some(heads) = self.heads(&portions, topic, invisible_ms)? else { return Ok(None) };
            let (first, last) = (ends.0, delivered_at(ends.1));
            let size = first.len() + heads.size() + last.len();
            if size > room {
                return Ok(None);
            }
            let (head, trailers) = blocks;
            let frames = size.div_ceil(FRAME_MAX) + 2;
            let whole = head.len() + size + trailers.len() + frames * FRAME_HEAD_BYTES;
            let data = std::iter::once(first).chain(heads.pieces()).chain(std::iter::once(&last[..]));
            let response = PyBytes::new_with(py, whole, |into| {
                let at = put_frame(into, 0, HEADERS, END_HEADERS, stream_id, head);
                let at = put_data(into, at, stream_id, data, size);
                put_frame(into, at, HEADERS, END_HEADERS | END_STREAM, stream_id, trailers);
                Ok(())
            })?;
            Ok(Some((response, size)))
        })
    }
}

/// The last message of a response, with the prefix of gRPC: when it was made.
fn delivered_at(ms: u64) -> Vec<u8> {
    let mut found = vec![0; PREFIX_BYTES];
    put_time(&mut found, 0x1A, ms);
    let size = (found.len() - PREFIX_BYTES) as u32;
    found[1..PREFIX_BYTES].copy_from_slice(&size.to_be_bytes());
    found
}

/// A frame of HTTP/2 at that place; where the next one begins.
fn put_frame(into: &mut [u8], at: usize, kind: u8, flags: u8, stream_id: u32, payload: &[u8]) -> usize {
    let start = put_frame_head(into, at, kind, flags, stream_id, payload.len());
    let end = start + payload.len();
    into[start..end].copy_from_slice(payload);
    end
}

fn put_frame_head(into: &mut [u8], at: usize, kind: u8, flags: u8, stream_id: u32, size: usize) -> usize {
    into[at..at + 3].copy_from_slice(&(size as u32).to_be_bytes()[1..]);
    into[at + 3..at + 5].copy_from_slice(&[kind, flags]);
    into[at + 5..at + FRAME_HEAD_BYTES].copy_from_slice(&stream_id.to_be_bytes());
    at + FRAME_HEAD_BYTES
}

/// DATA in frames that a peer takes by default: where messages begin and end does not matter.
fn put_data<'a>(
    into: &mut [u8],
    mut at: usize,
    stream_id: u32,
    pieces: impl Iterator<Item = &'a [u8]>,
    mut size: usize,
) -> usize {
    let mut room = 0; // of the frame under way
    for mut piece in pieces {
        while !piece.is_empty() {
            if room == 0 {
                room = size.min(FRAME_MAX);
                at = put_frame_head(into, at, DATA, 0, stream_id, room);
            }
            let (here, behind) = piece.split_at(piece.len().min(room));
            into[at..at + here.len()].copy_from_slice(here);
            at += here.len();
            room -= here.len();
            size -= here.len();
            piece = behind;
        }
    }
    at
}

impl<'a> Heads<'a> {
    /// Of what is in the scratch, with its body, whose digest comes later.
    fn put(&mut self, body: &'a [u8], topic: &[u8], scratch: &Scratch<'_>, digest_at: usize) {
        let system = scratch.system.len();
        let mut size = field_bytes(topic.len()) + scratch.user.len() + field_bytes(system);
        if !body.is_empty() {
            size += field_bytes(body.len());
        }
        let into = &mut self.bytes;
        into.push(0);
        into.extend_from_slice(&(field_bytes(size) as u32).to_be_bytes());
        put_number(into, 0x12);
        put_number(into, size as u64);
        put_bytes(into, 0x0A, topic);
        into.extend_from_slice(&scratch.user);
        put_number(into, 0x1A);
        put_number(into, system as u64);
        self.digests.push(into.len() + digest_at);
        into.extend_from_slice(&scratch.system);
        if !body.is_empty() {
            put_number(into, 0x22);
            put_number(into, body.len() as u64);
        }
        self.ends.push(into.len());
        self.bodies.push(body);
        self.body_bytes += body.len();
    }

    fn put_digests(&mut self) {
        const HEX: &[u8; 16] = b"0123456789ABCDEF";
        for (digest, &at) in md5_each(&self.bodies).iter().zip(&self.digests) {
            for (place, byte) in self.bytes[at..at + DIGEST_BYTES].chunks_exact_mut(2).zip(digest) {
                place.copy_from_slice(&[HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
            }
        }
    }

    fn size(&self) -> usize {
        self.bytes.len() + self.body_bytes
    }

    /// All messages, in pieces.
    fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).zip(&self.bodies).flat_map(|((start, &end), &body)| [&self.bytes[start..end], body])
    }
}

impl Deliveries {
    /// All messages, with their digests; None: one of them is Python's, or they are not whole records, or not so many.
    fn heads<'a>(&self, portions: &'a [Popped], topic: &[u8], invisible_ms: u64) -> PyResult<Option<Heads<'a>>> {
        if portions.iter().any(|(runs, ..)| runs.iter().any(|run| !run.is_c_contiguous())) {
            return Err(PyValueError::new_err("a run is one piece"));
        }
        let mut heads = Heads::default();
        for (runs, receipt, count) in portions {
            let portion = Portion { topic, receipt, invisible_ms };
            let (before, mut scratch) = (heads.ends.len(), Scratch::default());
            for run in runs {
                // SAFETY: the buffer is contiguous and alive as long as the portions, and nothing writes to it meanwhile: the
                // GIL is held, and records are not written twice.
                let data = unsafe { std::slice::from_raw_parts(run.buf_ptr().cast::<u8>(), run.len_bytes()) };
                if self.put_run(data, &portion, &mut scratch, &mut heads).is_none() {
                    return Ok(None);
                }
            }
            if heads.ends.len() - before != *count {
                return Ok(None);
            }
        }
        heads.put_digests();
        Ok(Some(heads))
    }

    /// All records of a run; None: one is Python's, or none.
    fn put_run<'a>(
        &self,
        data: &'a [u8],
        portion: &Portion<'_>,
        scratch: &mut Scratch<'a>,
        heads: &mut Heads<'a>,
    ) -> Option<()> {
        let mut at = 0;
        while at < data.len() {
            let places = record_at(data, at)?;
            at = places.end;
            let digest_at = self.put(data, &places, portion, scratch)?;
            heads.put(&data[places.body.clone()], portion.topic, scratch, digest_at);
        }
        Some(())
    }

    /// Properties and system properties of a record into the scratch, and where the digest belongs; None: it is Python's.
    fn put<'a>(
        &self,
        data: &'a [u8],
        places: &Places,
        portion: &Portion<'_>,
        scratch: &mut Scratch<'a>,
    ) -> Option<usize> {
        if places.sys_flag & (COMPRESSED | ANY_V6) != 0 {
            return None;
        }
        let record = &data[places.start..places.end];
        read_items(&data[places.properties.clone()], &mut scratch.items)?;
        let mut facts = Facts::default();
        scratch.user.clear();
        for &(name, value) in &scratch.items {
            match name {
                b"TAGS" => facts.tag = Some(value),
                b"KEYS" => facts.keys = value,
                b"UNIQ_KEY" => facts.id = value,
                b"__BORNHOST" => facts.born_host = value,
                b"__SHARDINGKEY" => facts.group = Some(value),
                b"TRACE_CONTEXT" => facts.trace = Some(value),
                _ if ODD.contains(&name) => return None,
                _ if self.own.contains(name) => {}
                _ => {
                    let size = field_bytes(name.len()) + field_bytes(value.len());
                    put_number(&mut scratch.user, 0x12);
                    put_number(&mut scratch.user, size as u64);
                    put_bytes(&mut scratch.user, 0x0A, name);
                    put_bytes(&mut scratch.user, 0x12, value);
                }
            }
        }
        if facts.id.is_empty() || !facts.keys.is_ascii() {
            return None;
        }
        scratch.system.clear();
        put_system(record, &facts, portion, &mut scratch.system, &mut scratch.text)
    }
}

#[derive(Default)]
struct Facts<'a> {
    tag: Option<&'a [u8]>,
    keys: &'a [u8],
    id: &'a [u8],
    born_host: &'a [u8],
    group: Option<&'a [u8]>,
    trace: Option<&'a [u8]>,
}

fn put_system(
    record: &[u8],
    facts: &Facts<'_>,
    portion: &Portion<'_>,
    into: &mut Vec<u8>,
    text: &mut Vec<u8>,
) -> Option<usize> {
    if let Some(tag) = facts.tag {
        put_bytes(into, 0x0A, tag);
    }
    for key in facts.keys.split(|&byte| is_blank(byte)).filter(|key| !key.is_empty()) {
        put_bytes(into, 0x12, key);
    }
    put_bytes(into, 0x1A, facts.id);
    into.extend_from_slice(&[0x22, 4 + DIGEST_BYTES as u8, 0x08, MD5 as u8, 0x12, DIGEST_BYTES as u8]);
    let digest_at = into.len();
    into.extend_from_slice(&[0; DIGEST_BYTES]);
    put_field(into, 0x28, IDENTITY);
    put_field(into, 0x30, if facts.group.is_some() { FIFO } else { NORMAL });
    put_time(into, 0x3A, u64::try_from(i64_at(record, BORN_MS_AT)).ok()?);
    if facts.born_host.is_empty() {
        put_host(into, 0x42, &record[BORN_HOST_AT..BORN_HOST_AT + 8], text);
    } else {
        put_bytes(into, 0x42, facts.born_host);
    }
    put_time(into, 0x4A, u64::try_from(i64_at(record, STORED_MS_AT)).ok()?);
    put_host(into, 0x52, &record[STORE_HOST_AT..STORE_HOST_AT + 8], text);
    let offset = u64::try_from(i64_at(record, OFFSET_AT)).ok()?;
    text.clear();
    text.extend_from_slice(portion.receipt);
    put_decimal(text, offset as i64);
    put_bytes(into, 0x62, text);
    let queue_id = u64::try_from(i32_at(record, QUEUE_ID_AT)).ok()?;
    if queue_id > 0 {
        put_field(into, 0x68, queue_id);
    }
    put_field(into, 0x70, offset);
    put_time(into, 0x7A, portion.invisible_ms);
    put_field(into, 0x80, u64::try_from(i32_at(record, ATTEMPT_AT)).ok()? + 1);
    if let Some(group) = facts.group {
        put_bytes(into, 0x8A, group);
    }
    if let Some(trace) = facts.trace {
        put_bytes(into, 0x92, trace);
    }
    Some(digest_at)
}

/// Bytes of a field of so many bytes: tag, size, and themselves.
#[inline]
fn field_bytes(length: usize) -> usize {
    let mut size = 2 + length;
    let mut rest = length >> 7;
    while rest > 0 {
        size += 1;
        rest >>= 7;
    }
    size
}

/// As Python's `str.split` sees ASCII.
#[inline]
fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | 0x09..=0x0D | 0x1C..=0x1F)
}

/// An IPv4 address and a port, as text.
fn put_host(into: &mut Vec<u8>, tag: u64, host: &[u8], text: &mut Vec<u8>) {
    text.clear();
    for (index, &part) in host[..4].iter().enumerate() {
        if index > 0 {
            text.push(b'.');
        }
        put_decimal(text, i64::from(part));
    }
    text.push(b':');
    put_decimal(text, i64::from(i32_at(host, 4)));
    put_bytes(into, tag, text);
}

/// Names and values; None when a name is there twice, there are very many, or it is no UTF-8.
fn read_items<'a>(raw: &'a [u8], items: &mut Vec<(&'a [u8], &'a [u8])>) -> Option<()> {
    items.clear();
    std::str::from_utf8(raw).ok()?;
    for item in raw.split(|&byte| byte == ITEM_END) {
        let Some(at) = item.iter().position(|&byte| byte == NAME_END) else { continue };
        let (name, value) = (&item[..at], &item[at + 1..]);
        if name.is_empty() || value.is_empty() {
            continue;
        }
        if items.len() >= ITEMS_MAX || items.iter().any(|(known, _)| *known == name) {
            return None;
        }
        items.push((name, value));
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_that_python_would_see_otherwise_are_left() {
        let mut items = Vec::new();
        assert_eq!(read_items(b"a\x01b\x02\x01x\x02c\x01\x02d\x01e", &mut items), Some(()));
        assert_eq!(items, [(&b"a"[..], &b"b"[..]), (b"d", b"e")]);
        assert_eq!(read_items(b"a\x01b\x02a\x01c\x02", &mut items), None);
        assert_eq!(read_items(b"a\x01\xff\x02", &mut items), None);
    }

    #[test]
    fn sizes_of_fields() {
        for size in [0, 1, 127, 128, 16_383, 16_384] {
            let (text, mut put) = (vec![b'x'; size], Vec::new());
            put_bytes(&mut put, 0x0A, &text);
            assert_eq!(field_bytes(size), put.len());
        }
    }
}
