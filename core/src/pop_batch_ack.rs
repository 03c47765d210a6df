//! BATCH_ACK_MESSAGE of the remoting protocol (200151): the request at the beginning of a read, and the response that says that
//! all is well; `broker/popping/ack_lane.py` asks, `wire/json/batch_ack.py` has the layout. Nothing is decided here.

use crate::command::{self, CODE, OPAQUE, REMARK};
use crate::frame::frame_at;
use crate::guard::guarded;
use crate::json::Cursor;
use crate::pop_ack::put_response;
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

const CODE_TEXT: &[u8] = b"{\"code\":200151,";
const ACKS_MAX: usize = 256; // of one request
const OFFSETS_MAX: usize = 256; // of one hand-out
const REQUIRED: u32 = 0x7F;

/// Messages of one hand-out in one queue.
#[derive(Debug, Default)]
struct Ack<'a> {
    group: &'a [u8],
    topic: &'a [u8],
    queue_id: i64,
    number: i64,
    popped_ms: i64,
    start: i64,
    offsets: Vec<i64>,
}

/// Where the rest begins, the opaque, of each hand-out its group, topic, queue id, number, time of the pop and offsets; and the
/// response if all of them are good.
type TakenBatch<'py> = (usize, i32, Bound<'py, PyList>, Bound<'py, PyBytes>);

/// The batch of acknowledgements that the data begins with; `response` is the header of a response around its correlation id.
/// None: what comes first is Python's.
#[pyfunction]
pub fn take_batch_ack<'py>(
    py: Python<'py>,
    data: PyBuffer<u8>,
    frame_bytes_max: usize,
    response: (Vec<u8>, Vec<u8>),
) -> PyResult<Option<TakenBatch<'py>>> {
    if !data.is_c_contiguous() {
        return Err(PyValueError::new_err("a read is one piece"));
    }
    guarded(|| {
        // SAFETY: the buffer is contiguous and alive until this function returns, and nothing writes to it meanwhile: the
        // GIL is held.
        let data = unsafe { std::slice::from_raw_parts(data.buf_ptr().cast::<u8>(), data.len_bytes()) };
        let Some(frame) = frame_at(data, 0, frame_bytes_max) else { return Ok(None) };
        let Some(opaque) = opaque_of(&data[frame.header]) else { return Ok(None) };
        let Some(acks) = acks_of(&data[frame.body.clone()]) else { return Ok(None) };
        let found = PyList::empty(py);
        for ack in acks {
            let (Ok(group), Ok(topic)) = (std::str::from_utf8(ack.group), std::str::from_utf8(ack.topic)) else {
                return Ok(None);
            };
            found.append((group, topic, ack.queue_id, ack.number, ack.popped_ms, ack.offsets))?;
        }
        let mut out = Vec::with_capacity(128);
        put_response(&mut out, opaque, &response);
        Ok(Some((frame.body.end, opaque, found, PyBytes::new(py, &out))))
    })
}

/// Of a header as clients write it; its fields, if it has any, mean nothing here.
fn opaque_of(text: &[u8]) -> Option<i32> {
    if !text.starts_with(CODE_TEXT) || std::str::from_utf8(text).is_err() {
        return None;
    }
    let command = command::read(text, |cursor| {
        (cursor.empty_object() || cursor.object(|cursor, _| cursor.plain().map(|_| 0)).is_some()).then_some(())
    })?;
    let is_plain = command.has(CODE | OPAQUE) && !command.has(REMARK) && command.flag == 0;
    is_plain.then_some(command.opaque)
}

fn acks_of(body: &[u8]) -> Option<Vec<Ack<'_>>> {
    if std::str::from_utf8(body).is_err() {
        return None;
    }
    let (mut cursor, mut acks) = (Cursor::new(body), Vec::new());
    let fields = cursor.object(|cursor, name| {
        Some(match name {
            b"acks" => {
                cursor.array(|cursor| {
                    acks.push(ack_of(cursor)?);
                    (acks.len() <= ACKS_MAX).then_some(())
                })?;
                1
            }
            b"brokerName" => cursor.plain().map(|_| 2)?,
            _ => return None,
        })
    })?;
    (fields & 1 != 0 && cursor.is_at_end()).then_some(acks)
}

fn ack_of<'a>(cursor: &mut Cursor<'a>) -> Option<Ack<'a>> {
    let (mut ack, mut bits) = (Ack::default(), &b""[..]);
    let fields = cursor.object(|cursor, name| {
        Some(match name {
            b"c" => {
                ack.group = cursor.plain()?;
                1
            }
            b"t" => {
                ack.topic = cursor.plain()?;
                2
            }
            b"q" => {
                ack.queue_id = cursor.long()?;
                4
            }
            b"rq" => {
                ack.number = cursor.long()?;
                8
            }
            b"pt" => {
                ack.popped_ms = cursor.long()?;
                0x10
            }
            b"so" => {
                ack.start = cursor.long().filter(|start| *start >= 0)?;
                0x20
            }
            b"b" => {
                bits = cursor.plain()?;
                0x40
            }
            b"it" => cursor.long().map(|_| 0x80)?,
            b"r" => cursor.plain().filter(|kind| *kind == b"0").map(|_| 0x100)?,
            _ => return None,
        })
    })?;
    put_offsets(bits, ack.start, &mut ack.offsets)?;
    (fields & REQUIRED == REQUIRED).then_some(ack)
}

/// The offsets that a set of bits in base64 stands for, the lowest byte first; some, and not too many.
fn put_offsets(text: &[u8], start: i64, into: &mut Vec<i64>) -> Option<()> {
    if text.len() % 4 != 0 || text.len() > OFFSETS_MAX {
        return None;
    }
    let quads = text.len() / 4;
    let (mut bytes, mut at) = ([0; 3], start);
    for (index, quad) in text.chunks_exact(4).enumerate() {
        let padding = if index + 1 < quads { 0 } else { quad.iter().rev().take_while(|byte| **byte == b'=').count() };
        let count = 3usize.checked_sub(padding).filter(|count| *count > 0)?;
        let mut value = 0_u32;
        for &byte in &quad[..4 - padding] {
            value = value << 6 | u32::from(sextet(byte)?);
        }
        value <<= 6 * padding as u32;
        bytes.copy_from_slice(&value.to_be_bytes()[1..]);
        if bytes[count..].iter().any(|byte| *byte != 0) {
            return None; // bits behind the last byte: who wrote them meant something else
        }
        for byte in &bytes[..count] {
            for bit in 0..8 {
                if byte >> bit & 1 != 0 {
                    into.push(at.checked_add(bit)?);
                }
            }
            at = at.checked_add(8)?;
        }
    }
    (!into.is_empty() && into.len() <= OFFSETS_MAX).then_some(())
}

fn sextet(byte: u8) -> Option<u8> {
    Some(match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = concat!(
        r#"{"code":200151,"extFields":{"bname":"b"},"flag":0,"language":"JAVA","opaque":-7,"#,
        r#""serializeTypeCurrentRPC":"JSON","version":401}"#
    );
    const BODY: &str = concat!(
        r#"{"acks":[{"b":"CQI=","c":"billing","it":60000,"pt":1700000000000,"q":3,"r":"0","rq":734215009,"so":100,"#,
        r#""t":"orders"}],"brokerName":"broker-a"}"#
    );

    #[test]
    fn a_batch_is_read_and_every_cut_is_not() {
        assert_eq!(opaque_of(HEADER.as_bytes()), Some(-7));
        let acks = acks_of(BODY.as_bytes()).unwrap();
        assert_eq!(acks.len(), 1);
        let ack = &acks[0];
        assert_eq!((ack.group, ack.topic, ack.queue_id), (&b"billing"[..], &b"orders"[..], 3));
        assert_eq!((ack.number, ack.popped_ms), (734_215_009, 1_700_000_000_000));
        assert_eq!(ack.offsets, [100, 103, 109]);
        for end in 0..HEADER.len() {
            assert!(opaque_of(&HEADER.as_bytes()[..end]).is_none());
        }
        for end in 0..BODY.len() {
            assert!(acks_of(&BODY.as_bytes()[..end]).is_none());
        }
    }

    #[test]
    fn oddities_are_pythons() {
        for (old, new) in [
            ("\"CQI=\"", "\"CQJ=\""),
            ("\"CQI=\"", "\"CQ==\",\"b\":\"CQ==\""),
            ("\"CQI=\"", "\"C=I=\""),
            ("\"CQI=\"", "\"====\""),
            ("\"CQI=\"", "\"CQI\""),
            ("\"CQI=\"", "\"\""),
            ("\"CQI=\"", "\"AAA=\""),
            ("\"q\":3", "\"q\":\"3\""),
            ("\"q\":3,", ""),
            ("\"so\":100", "\"so\":-1"),
            ("\"so\":100", "\"startOffset\":100"),
            ("\"r\":\"0\"", "\"r\":\"1\""),
            ("\"acks\":[{", "\"acks\":[ {"),
            ("broker-a\"}", "broker-a\"} "),
        ] {
            let odd = BODY.replace(old, new);
            assert_ne!(odd, BODY);
            assert!(acks_of(odd.as_bytes()).is_none(), "{odd}");
        }
        assert!(acks_of(br#"{"acks":[],"brokerName":"b"}"#).is_none());
        for (old, new) in [("{\"bname\":\"b\"}", "{}"), ("\"extFields\":{\"bname\":\"b\"},", "")] {
            assert_eq!(opaque_of(HEADER.replace(old, new).as_bytes()), Some(-7));
        }
        for (old, new) in [("\"flag\":0", "\"flag\":2"), ("200151", "200051"), (",\"opaque\":-7", "")] {
            assert!(opaque_of(HEADER.replace(old, new).as_bytes()).is_none());
        }
    }
}
