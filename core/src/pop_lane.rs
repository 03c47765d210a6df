//! Pops: plain requests 200050 read in place, messages of a queue that were never handed out, and the head of the response;
//! `broker/popping/pop_lane.py` asks. Which queues a pop looks at, what is in flight and who gets what is Python's.

use crate::command::{self, CODE, EXT_FIELDS, OPAQUE, REMARK};
use crate::frame::{self, frame_at, PREFIX_BYTES};
use crate::guard::guarded;
use crate::json::{put_decimal, small, whole};
use crate::pulls::SCATTERED_BYTES;
use crate::queue_reads::{Log, QueueReads, ReadNumbers};
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::collections::HashMap;

const CODE_TEXT: &[u8] = b"{\"code\":200050,";
const REQUIRED: u32 = 0x7F; // of the fields below, those that every pop has

#[derive(Debug, Default)]
struct Header<'a> {
    opaque: i32,
    group: &'a [u8],
    topic: &'a [u8],
    queue_id: i32,
    count: i32,
    invisible_ms: i64,
    init_mode: i32,
    expression: Option<&'a [u8]>,
    expression_type: Option<&'a [u8]>,
}

/// Group, topic, queue id, messages, invisible time, init mode, expression and its type.
type Kind<'a> = (&'a str, &'a str, i32, i32, i64, i32, Option<&'a str>, Option<&'a str>);

/// The stored bytes in pieces; how many messages and bytes these are, the next offset, the end of the queue.
type Read<'py> = (Bound<'py, PyAny>, usize, i64, i64, i64);

#[pyclass]
pub struct PopLane {
    known: HashMap<Vec<u8>, Py<PyAny>>, // what Python made of such requests
    reads: QueueReads,
    frame_bytes: usize,
    response: [Vec<u8>; 8], // the text around its six fields and the opaque
    wanted: Vec<u8>,        // what is looked up
}

#[pymethods]
impl PopLane {
    /// `segments` and reader of the log; `limits` of reads; `response`: the text around pop time, invisible time, number, rest,
    /// starts, offsets and opaque.
    #[new]
    fn new(
        segments: Py<PyAny>,
        records: Py<PyAny>,
        limits: ReadNumbers,
        frame_bytes: usize,
        response: [Vec<u8>; 8],
    ) -> PyResult<Self> {
        let reads = QueueReads::new(segments, records, limits)?;
        Ok(PopLane { known: HashMap::new(), reads, frame_bytes, response, wanted: Vec::new() })
    }

    /// Python has read a request of this kind, and made this of it.
    fn learn(&mut self, kind: Kind<'_>, request: Py<PyAny>) {
        let (group, topic, queue_id, count, invisible_ms, init_mode, expression, expression_type) = kind;
        let header = Header {
            opaque: 0,
            group: group.as_bytes(),
            topic: topic.as_bytes(),
            queue_id,
            count,
            invisible_ms,
            init_mode,
            expression: expression.map(str::as_bytes),
            expression_type: expression_type.map(str::as_bytes),
        };
        kind_of(&header, &mut self.wanted);
        self.known.insert(self.wanted.clone(), request);
    }

    fn forget(&mut self) {
        self.known.clear();
    }

    /// How many kinds of requests it knows.
    fn __len__(&self) -> usize {
        self.known.len()
    }

    /// The pop that the data begins with: where it ends, what Python made of such a request, and its opaque. None: what comes
    /// first is Python's.
    fn take(&mut self, py: Python<'_>, data: PyBuffer<u8>) -> PyResult<Option<(usize, Py<PyAny>, i32)>> {
        if !data.is_c_contiguous() {
            return Err(PyValueError::new_err("a read is one piece"));
        }
        guarded(|| {
            // SAFETY: the buffer is contiguous and alive until this function returns, and nothing writes to it meanwhile: the
            // GIL is held.
            let data = unsafe { std::slice::from_raw_parts(data.buf_ptr().cast::<u8>(), data.len_bytes()) };
            let Some(frame) = frame_at(data, 0, self.frame_bytes).filter(|frame| frame.body.is_empty()) else {
                return Ok(None);
            };
            let Some(header) = read(&data[frame.header]) else { return Ok(None) };
            kind_of(&header, &mut self.wanted);
            let known = self.known.get(&self.wanted);
            Ok(known.map(|request| (frame.body.end, request.clone_ref(py), header.opaque)))
        })
    }

    /// Messages of a ConsumeQueue from `offset` on whose tags pass, empty for all; None when there are none, or one has to be
    /// verified first: that is Python's. Many short runs come in one piece.
    fn read<'py>(
        &self,
        py: Python<'py>,
        queue: &Bound<'py, PyAny>,
        offset: i64,
        count_max: i32,
        tags: Vec<i64>,
        log: Log,
    ) -> PyResult<Option<Read<'py>>> {
        guarded(|| {
            let Some(limits) = self.reads.limits.of(count_max, None) else { return Ok(None) };
            let tags = (!tags.is_empty()).then_some(&tags[..]);
            let Some(found) = self.reads.find(queue, offset, limits, tags, log)? else { return Ok(None) };
            let (scanned, end) = (found.scanned, found.end);
            if scanned.removed > 0 {
                return Ok(None); // a pop passes over them for good: Python looks twice
            }
            let mut joined = None;
            if scanned.runs.len() > 1 && scanned.size_bytes < SCATTERED_BYTES * scanned.runs.len() as i64 {
                joined = self.reads.joined(py, b"", &scanned.runs, log.4, &mut None)?;
            }
            let pieces = match joined {
                Some(joined) => (joined,).into_pyobject(py)?.into_any(),
                None => self.reads.slices(py, &scanned.runs)?,
            };
            Ok(Some((pieces, scanned.count, scanned.size_bytes, scanned.next_offset, end)))
        })
    }

    /// A response up to its body. `numbers`: pop time, invisible time, number of the hand-out, and what is left; of each portion
    /// its kind, queue id and offsets.
    fn response<'py>(
        &self,
        py: Python<'py>,
        opaque: i32,
        numbers: [i64; 4],
        portions: Vec<(i64, i64, Vec<i64>)>,
        body_bytes: usize,
    ) -> PyResult<Bound<'py, PyBytes>> {
        guarded(|| {
            let mut head = Vec::with_capacity(1024);
            head.extend_from_slice(&[0; PREFIX_BYTES]);
            for (text, number) in self.response.iter().zip(numbers) {
                head.extend_from_slice(text);
                put_decimal(&mut head, number);
            }
            head.extend_from_slice(&self.response[4]);
            put_places(&mut head, &portions, |offsets| &offsets[..offsets.len().min(1)]);
            head.extend_from_slice(&self.response[5]);
            put_places(&mut head, &portions, |offsets| offsets);
            head.extend_from_slice(&self.response[6]);
            put_decimal(&mut head, i64::from(opaque));
            head.extend_from_slice(&self.response[7]);
            let prefix = frame::prefix(head.len() - PREFIX_BYTES, body_bytes);
            head[..PREFIX_BYTES].copy_from_slice(&prefix);
            Ok(PyBytes::new(py, &head))
        })
    }
}

/// Kind and queue of each portion, and those of its offsets: `0 3 7,8;0 1 2`.
fn put_places(into: &mut Vec<u8>, portions: &[(i64, i64, Vec<i64>)], which: impl Fn(&[i64]) -> &[i64]) {
    for (index, (kind, queue_id, offsets)) in portions.iter().enumerate() {
        if index > 0 {
            into.push(b';');
        }
        put_decimal(into, *kind);
        into.push(b' ');
        put_decimal(into, *queue_id);
        for (index, offset) in which(offsets).iter().enumerate() {
            into.push(if index > 0 { b',' } else { b' ' });
            put_decimal(into, *offset);
        }
    }
}

/// As strict as that of a pull: what clients write is read, and everything else is Python's, valid or not.
fn read(text: &[u8]) -> Option<Header<'_>> {
    if !text.starts_with(CODE_TEXT) || std::str::from_utf8(text).is_err() {
        return None;
    }
    let (mut header, mut fields) = (Header::default(), 0);
    let command = command::read(text, |cursor| {
        fields = cursor.object(|cursor, name| {
            let value = cursor.plain()?;
            Some(match name {
                b"consumerGroup" => {
                    header.group = value;
                    1
                }
                b"topic" => {
                    header.topic = value;
                    2
                }
                b"queueId" => {
                    header.queue_id = small(value)?;
                    4
                }
                b"maxMsgNums" => {
                    header.count = small(value)?;
                    8
                }
                b"invisibleTime" => {
                    header.invisible_ms = whole(value)?;
                    0x10
                }
                b"pollTime" => {
                    whole(value)?;
                    0x20
                }
                b"initMode" => {
                    header.init_mode = small(value)?;
                    0x40
                }
                b"bornTime" => {
                    whole(value)?;
                    0x80
                }
                b"exp" => {
                    header.expression = Some(value);
                    0x100
                }
                b"expType" => {
                    header.expression_type = Some(value);
                    0x200
                }
                b"order" => {
                    if value != b"false" {
                        return None;
                    }
                    0x400
                }
                b"attemptId" => return None,
                _ => 0, // texts that a pop does not need
            })
        })?;
        Some(())
    })?;
    header.opaque = command.opaque;
    let is_plain = command.has(CODE | EXT_FIELDS | OPAQUE) && !command.has(REMARK) && command.flag == 0;
    (is_plain && fields & REQUIRED == REQUIRED).then_some(header)
}

/// What makes two pops of one kind, as a key. Lengths stand before texts: no two kinds have the same one.
fn kind_of(header: &Header<'_>, into: &mut Vec<u8>) {
    into.clear();
    into.extend_from_slice(&header.queue_id.to_ne_bytes());
    into.extend_from_slice(&header.count.to_ne_bytes());
    into.extend_from_slice(&header.init_mode.to_ne_bytes());
    into.extend_from_slice(&header.invisible_ms.to_ne_bytes());
    for text in [Some(header.group), Some(header.topic), header.expression, header.expression_type] {
        let length = text.map_or(u64::MAX, |text| text.len() as u64);
        into.extend_from_slice(&length.to_ne_bytes());
        into.extend_from_slice(text.unwrap_or_default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = concat!(
        r#"{"code":200050,"extFields":{"consumerGroup":"g","topic":"orders","queueId":"-1","maxMsgNums":"32","#,
        r#""invisibleTime":"60000","pollTime":"15000","bornTime":"1700000000000","initMode":"0","expType":"TAG","exp":"*","#,
        r#""order":"false","bname":"b"},"#,
        r#""flag":0,"language":"JAVA","opaque":-7,"serializeTypeCurrentRPC":"JSON","version":401}"#
    );

    #[test]
    fn a_header_is_read_and_every_cut_is_not() {
        let header = read(HEADER.as_bytes()).unwrap();
        assert_eq!((header.opaque, header.group, header.topic), (-7, &b"g"[..], &b"orders"[..]));
        assert_eq!((header.queue_id, header.count, header.invisible_ms, header.init_mode), (-1, 32, 60_000, 0));
        assert_eq!((header.expression, header.expression_type), (Some(&b"*"[..]), Some(&b"TAG"[..])));
        for end in 0..HEADER.len() {
            assert!(read(&HEADER.as_bytes()[..end]).is_none());
        }
    }

    #[test]
    fn oddities_are_pythons() {
        for (old, new) in [
            ("\"queueId\":\"-1\"", "\"queueId\":-1"),
            ("\"queueId\":\"-1\",", ""),
            ("\"pollTime\":\"15000\"", "\"pollTime\":\"1e3\""),
            ("\"bornTime\":\"1700000000000\"", "\"bornTime\":\"\""),
            ("\"order\":\"false\"", "\"order\":\"true\""),
            ("\"order\":\"false\"", "\"order\":\"FALSE\""),
            ("\"bname\":\"b\"", "\"attemptId\":\"a\""),
            ("\"exp\":\"*\"", "\"exp\":\"\\u002a\""),
            ("\"exp\":\"*\"", "\"exp\":\"*\",\"exp\":\"*\""),
            ("\"flag\":0", "\"flag\":2"),
            ("\"flag\":0", "\"flag\":0,\"remark\":\"r\""),
            (",\"opaque\":-7", ""),
            ("200050", "200051"),
        ] {
            let odd = HEADER.replace(old, new);
            assert_ne!(odd, HEADER);
            assert!(read(odd.as_bytes()).is_none(), "{odd}");
        }
    }

    #[test]
    fn kinds_differ_in_everything_that_a_pop_asks_for() {
        let plain = || Header { group: b"g", topic: b"orders", expression: Some(b"*"), ..Default::default() };
        let key = |header: Header<'_>| {
            let mut into = vec![1, 2, 3];
            kind_of(&header, &mut into);
            into
        };
        assert_eq!(key(plain()), key(Header { opaque: 5, ..plain() }));
        for other in [
            Header { group: b"go", topic: b"rders", ..plain() },
            Header { expression: None, ..plain() },
            Header { expression: Some(b""), ..plain() },
            Header { expression_type: Some(b""), ..plain() },
            Header { queue_id: 1, ..plain() },
            Header { count: 1, ..plain() },
            Header { invisible_ms: 1, ..plain() },
            Header { init_mode: 1, ..plain() },
        ] {
            assert_ne!(key(plain()), key(other));
        }
    }

    #[test]
    fn places_are_lists() {
        let portions = [(0, 3, vec![7, 8]), (1, 1, vec![2])];
        let text = |which: fn(&[i64]) -> &[i64]| {
            let mut into = Vec::new();
            put_places(&mut into, &portions, which);
            String::from_utf8(into).unwrap()
        };
        assert_eq!(text(|offsets| offsets), "0 3 7,8;1 1 2");
        assert_eq!(text(|offsets| &offsets[..1]), "0 3 7;1 1 2");
    }
}
