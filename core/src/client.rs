//! What a client does for each message: the frame of a send, its response, and pulled records as messages.
//!
//! `wire/fast/send_request.py`, `wire/received.py`, `wire/fast/record_parts.py` and `ReceivedMessage` have the same in
//! Python. None, or nothing taken, is for whatever is out of the ordinary: Python looks at it, and explains.

use crate::command::{self, CODE, EXT_FIELDS, FLAG, OPAQUE, REMARK};
use crate::frame::{frame_at, prefix, FRAME_BYTES_MAX, HEADER_BYTES_MAX, PREFIX_BYTES};
use crate::guard::guarded;
use crate::json::{put_decimal, put_string, small, whole, Cursor};
use crate::layout;
use crate::properties::{ITEM_END, NAME_END};
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString};

// --- the frame of a send ---

/// The text of a send's header around what differs between the sends to one queue.
#[pyclass(frozen, module = "pyromq_core")]
pub struct SendFrame {
    before_time: Vec<u8>,
    before_flag: Vec<u8>,
    before_properties: Vec<u8>,
    before_id: Vec<u8>,
    end: Vec<u8>,
}

#[pymethods]
impl SendFrame {
    #[new]
    fn new(pieces: [Vec<u8>; 5]) -> Self {
        let [before_time, before_flag, before_properties, before_id, end] = pieces;
        SendFrame { before_time, before_flag, before_properties, before_id, end }
    }

    /// The whole frame; None for one that is too large, and for properties that are no UTF-8.
    fn encode<'py>(
        &self,
        py: Python<'py>,
        correlation_id: i32,
        born_ms: i64,
        flag: i32,
        properties: &Bound<'py, PyString>,
        body: &Bound<'py, PyBytes>,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let Ok(properties) = properties.to_str() else { return Ok(None) };
        let body = body.as_bytes();
        guarded(|| {
            let header = self.header(correlation_id, born_ms, flag, properties.as_bytes());
            let size = PREFIX_BYTES + header.len() + body.len();
            if size > FRAME_BYTES_MAX || header.len() > HEADER_BYTES_MAX {
                return Ok(None);
            }
            let frame = PyBytes::new_with(py, size, |into| {
                let (head, rest) = into.split_at_mut(PREFIX_BYTES + header.len());
                head[..PREFIX_BYTES].copy_from_slice(&prefix(header.len(), body.len()));
                head[PREFIX_BYTES..].copy_from_slice(&header);
                rest.copy_from_slice(body);
                Ok(())
            })?;
            Ok(Some(frame))
        })
    }
}

impl SendFrame {
    pub fn of(pieces: [&[u8]; 5]) -> Self {
        Self::new(pieces.map(<[u8]>::to_vec))
    }

    /// The header alone.
    pub fn header(&self, correlation_id: i32, born_ms: i64, flag: i32, properties: &[u8]) -> Vec<u8> {
        let fixed = [&self.before_time, &self.before_flag, &self.before_properties, &self.before_id, &self.end];
        let mut header =
            Vec::with_capacity(64 + properties.len() * 2 + fixed.iter().map(|each| each.len()).sum::<usize>());
        header.extend_from_slice(&self.before_time);
        put_decimal(&mut header, born_ms);
        header.extend_from_slice(&self.before_flag);
        put_decimal(&mut header, i64::from(flag));
        header.extend_from_slice(&self.before_properties);
        put_string(&mut header, properties);
        header.extend_from_slice(&self.before_id);
        put_decimal(&mut header, i64::from(correlation_id));
        header.extend_from_slice(&self.end);
        header
    }
}

// --- responses to sends ---

/// What a broker says of a message that it stored; texts are empty where it says nothing.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Sent<'a> {
    pub correlation_id: i32,
    pub message_id: &'a [u8],
    pub queue_id: i32,
    pub offset: i64,
    pub transaction_id: &'a [u8],
    pub region: &'a [u8],
    pub on_disk: Option<bool>,
    pub recall_handle: &'a [u8],
}

/// The response at the beginning of these bytes and where it ends; None unless it is a plain one to a send, and whole.
#[inline]
pub fn sent_at(data: &[u8], bytes_max: usize) -> Option<(Sent<'_>, usize)> {
    let frame = frame_at(data, 0, bytes_max).filter(|frame| frame.body.is_empty())?;
    Some((sent(&data[frame.header])?, frame.body.end))
}

fn sent(text: &[u8]) -> Option<Sent<'_>> {
    if !text.starts_with(b"{\"code\":0,\"") || !text.is_ascii() {
        return None;
    }
    let (mut found, mut fields) = (Sent::default(), 0);
    let command = command::read(text, |cursor| {
        fields = sent_fields(cursor, &mut found)?;
        Some(())
    })?;
    found.correlation_id = command.opaque;
    let is_plain = command.has(CODE | EXT_FIELDS | FLAG | OPAQUE) && !command.has(REMARK);
    (is_plain && command.flag == RESPONSE && fields & REQUIRED == REQUIRED).then_some(found)
}

const RESPONSE: i32 = 1;
const REQUIRED: u32 = 7; // the three fields that every response has

#[inline]
fn sent_fields<'a>(cursor: &mut Cursor<'a>, found: &mut Sent<'a>) -> Option<u32> {
    cursor.object(|cursor, name| {
        let value = cursor.plain()?;
        Some(match name {
            b"msgId" => {
                found.message_id = value;
                1
            }
            b"queueId" => {
                found.queue_id = small(value)?;
                2
            }
            b"queueOffset" => {
                found.offset = whole(value)?;
                4
            }
            b"transactionId" => {
                found.transaction_id = value;
                8
            }
            b"MSG_REGION" => {
                found.region = value;
                16
            }
            b"ON_DISK" => {
                found.on_disk = Some(value == b"true");
                32
            }
            b"recallHandle" => {
                found.recall_handle = value;
                64
            }
            b"TRACE_ON" => 128,
            b"batchUniqId" => 256,
            _ => return None,
        })
    })
}

/// Message id, queue id, offset, on_disk, transaction id, region and recall handle.
type SentFacts<'py> =
    (Bound<'py, PyString>, i32, i64, Option<bool>, Bound<'py, PyString>, Bound<'py, PyString>, Bound<'py, PyString>);

/// The plain responses to sends at the beginning of a read: bytes that they take, and of each its correlation id, where
/// it ends, and its facts. Raises RuntimeError for a defect.
#[pyfunction]
pub fn sent_responses<'py>(
    py: Python<'py>,
    data: PyBuffer<u8>,
    bytes_max: usize,
) -> PyResult<(usize, Bound<'py, PyList>)> {
    if !data.is_c_contiguous() {
        return Err(PyValueError::new_err("what was read is one piece"));
    }
    // SAFETY: the buffer is contiguous and alive until this function returns, and nothing writes to it meanwhile: the GIL
    // is held all along, and no Python code runs.
    let data = unsafe { std::slice::from_raw_parts(data.buf_ptr() as *const u8, data.item_count()) };
    guarded(|| {
        let found = PyList::empty(py);
        let mut at = 0;
        let mut region: (&[u8], Option<Bound<'py, PyString>>) = (b"", None); // the same in all responses of a broker
        while let Some((sent, size)) = sent_at(&data[at..], bytes_max) {
            at += size;
            if region.1.is_none() || region.0 != sent.region {
                region = (sent.region, Some(text(py, sent.region)));
            }
            let facts: SentFacts<'py> = (
                text(py, sent.message_id),
                sent.queue_id,
                sent.offset,
                sent.on_disk,
                text(py, sent.transaction_id),
                region.1.clone().expect("it was just set"),
                text(py, sent.recall_handle),
            );
            found.append((sent.correlation_id, at, facts))?;
        }
        Ok((at, found))
    })
}

/// Of ASCII.
fn text<'py>(py: Python<'py>, raw: &[u8]) -> Bound<'py, PyString> {
    PyString::new(py, std::str::from_utf8(raw).expect("it was checked"))
}

// --- pulled records ---

/// All records of a response, each as what `make(record, broker, queue_id, offset, position, sys_flag, namespace, pull)`
/// returns; None when their lengths do not add up. Raises what `make` raises, and RuntimeError for a defect.
#[pyfunction]
pub fn split_records<'py>(
    py: Python<'py>,
    data: &Bound<'py, PyBytes>,
    make: &Bound<'py, PyAny>,
    broker: &Bound<'py, PyAny>,
    namespace: &Bound<'py, PyAny>,
    pull: &Bound<'py, PyAny>,
) -> PyResult<Option<Bound<'py, PyList>>> {
    let bytes = data.as_bytes();
    guarded(|| {
        let found = PyList::empty(py);
        let mut at = 0;
        while bytes.len() - at >= layout::OVERHEAD_BYTES {
            let Some(places) = layout::record_at(bytes, at) else { return Ok(None) };
            let record = &bytes[at..places.end];
            found.append(make.call1((
                PyBytes::new(py, record),
                broker,
                layout::i32_at(record, layout::QUEUE_ID_AT),
                layout::i64_at(record, layout::OFFSET_AT),
                layout::i64_at(record, layout::POSITION_AT),
                places.sys_flag,
                namespace,
                pull,
            ))?)?;
            at = places.end;
        }
        Ok((at == bytes.len()).then_some(found))
    })
}

/// Body and single properties of records, as messages read them on access. What is not sound, or asked for by a name that
/// no property can have, is left to the functions in Python that it was made with.
#[pyclass(frozen, module = "pyromq_core")]
pub struct RecordValues {
    body_in_python: Py<PyAny>,
    property_in_python: Py<PyAny>,
}

#[pymethods]
impl RecordValues {
    #[new]
    fn new(body_in_python: Py<PyAny>, property_in_python: Py<PyAny>) -> Self {
        RecordValues { body_in_python, property_in_python }
    }

    /// The body of a record as it is stored.
    fn body<'py>(
        &self,
        py: Python<'py>,
        record: &Bound<'py, PyBytes>,
        sys_flag: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let raw = record.as_bytes();
        guarded(|| match sys_flag.extract().ok().and_then(|flag| layout::body_range(raw, flag)) {
            Some((start, end)) => Ok(PyBytes::new(py, &raw[start..end]).into_any()),
            None => self.body_in_python.bind(py).call1((record, sys_flag)),
        })
    }

    /// The last value of that name, bytes that are no UTF-8 replaced; None if it has none.
    fn property<'py>(
        &self,
        py: Python<'py>,
        record: &Bound<'py, PyBytes>,
        sys_flag: &Bound<'py, PyAny>,
        name: &Bound<'py, PyBytes>,
    ) -> PyResult<Bound<'py, PyAny>> {
        guarded(|| self.read_property(py, record, sys_flag, name))
    }
}

impl RecordValues {
    fn read_property<'py>(
        &self,
        py: Python<'py>,
        record: &Bound<'py, PyBytes>,
        sys_flag: &Bound<'py, PyAny>,
        name: &Bound<'py, PyBytes>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let raw = record.as_bytes();
        let start = sys_flag.extract().ok().and_then(|flag| layout::properties_start(raw, flag));
        let Some(start) = start.filter(|_| !name.as_bytes().contains(&ITEM_END)) else {
            return self.property_in_python.bind(py).call1((record, sys_flag, name));
        };
        let Some(value) = last_value(&raw[start..], name.as_bytes()) else { return Ok(py.None().into_bound(py)) };
        match std::str::from_utf8(value) {
            Ok(value) => Ok(PyString::new(py, value).into_any()),
            Err(_) => {
                let raw = PyBytes::new(py, value);
                Ok(PyString::from_encoded_object(&raw, Some(c"utf-8"), Some(c"replace"))?.into_any())
            }
        }
    }
}

/// The value of the last item of this name that has one.
pub fn last_value<'a>(raw: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let (mut found, mut start) = (None, 0);
    while start < raw.len() {
        let item = &raw[start..];
        let end = item.iter().position(|&byte| byte == ITEM_END).unwrap_or(item.len());
        let item = &item[..end];
        if item.len() > name.len() + 1 && item[name.len()] == NAME_END && item.starts_with(name) {
            found = Some(&item[name.len() + 1..]);
        }
        start += end + 1;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const SENT: &str = concat!(
        r#"{"code":0,"extFields":{"MSG_REGION":"DefaultRegion","ON_DISK":"true","TRACE_ON":"true","msgId":"7F01","#,
        r#""queueId":"3","queueOffset":"70000000000","transactionId":"AB12"},"flag":1,"language":"PYTHON","opaque":7,"#,
        r#""serializeTypeCurrentRPC":"JSON","version":401}"#
    );

    fn framed(header: &str) -> Vec<u8> {
        [&prefix(header.len(), 0)[..], header.as_bytes()].concat()
    }

    #[test]
    fn a_response_is_read_and_every_cut_is_not() {
        let data = framed(SENT);
        let (found, size) = sent_at(&data, FRAME_BYTES_MAX).unwrap();
        assert_eq!((found.correlation_id, found.queue_id, found.offset, size), (7, 3, 70_000_000_000, data.len()));
        assert_eq!((found.message_id, found.transaction_id, found.on_disk), (&b"7F01"[..], &b"AB12"[..], Some(true)));
        for end in 0..data.len() {
            assert!(sent_at(&data[..end], FRAME_BYTES_MAX).is_none());
        }
        assert!(sent_at(&data, data.len() - 1).is_none());
    }

    #[test]
    fn other_responses_are_pythons() {
        for (old, new) in [
            ("\"code\":0", "\"code\":1"),
            ("\"flag\":1", "\"flag\":0"),
            ("\"flag\":1", "\"flag\":3"),
            ("\"opaque\":7,", ""),
            ("\"queueId\":\"3\"", "\"queueId\":3"),
            ("\"queueId\":\"3\"", "\"queueId\":\"3.0\""),
            ("\"msgId\":\"7F01\",", ""),
            ("7F01", "7F\\u0030"),
            ("7F01", "é"),
            ("\"version\"", "\"remark\":\"no\",\"version\""),
            ("ON_DISK", "NEW"),
        ] {
            let odd = SENT.replace(old, new);
            assert_ne!(odd, SENT);
            assert!(sent_at(&framed(&odd), FRAME_BYTES_MAX).is_none(), "{odd}");
        }
    }

    #[test]
    fn headers_are_written_as_msgspec_does() {
        let frame = SendFrame::of([b"<", b"|", b"|", b"|", b">"]);
        let header = frame.header(7, -12, -1, "a\u{1}\"\\\n\u{1f}\u{7f}\u{e4}\u{2}".as_bytes());
        let expected = "<-12|-1|\"a\\u0001\\\"\\\\\\n\\u001f\u{7f}\u{e4}\\u0002\"|7>";
        assert_eq!(String::from_utf8(header).unwrap(), expected);
        assert!(frame.header(1, i64::MIN, 0, b"").starts_with(b"<-9223372036854775808|"));
    }

    #[test]
    fn the_last_value_counts() {
        let raw = b"TAGS\x01a\x02XTAGS\x01no\x02TAGS\x01b\x02TAGS\x01\x02k\x01TAGS\x01c\x02TAGS";
        assert_eq!(last_value(raw, b"TAGS"), Some(&b"b"[..]));
        assert_eq!(last_value(b"TAGS\x01open", b"TAGS"), Some(&b"open"[..]));
        assert_eq!(last_value(b"", b"TAGS"), None);
    }
}
