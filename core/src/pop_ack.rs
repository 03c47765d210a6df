//! ACK_MESSAGE of the remoting protocol (200051): acknowledgements of one group and topic at the beginning of a read, and the
//! responses that say that all is well; `broker/popping/ack_lane.py` asks. Nothing is decided here.

use crate::command::{self, CODE, EXT_FIELDS, OPAQUE, REMARK};
use crate::frame::{frame_at, prefix};
use crate::grpc_ack::{receipt_words, runs_of, Receipt, Run};
use crate::guard::guarded;
use crate::json::{put_decimal, small, whole};
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

const CODE_TEXT: &[u8] = b"{\"code\":200051,";
const FRAMES_MAX: usize = 256; // of one request
const RECEIPT_BYTES_MAX: usize = 512;
const REQUIRED: u32 = 0x1F;

#[derive(Default)]
struct Header<'a> {
    opaque: i32,
    group: &'a [u8],
    topic: &'a [u8],
    receipt: Receipt,
}

/// Where the rest begins, group and topic, receipts in runs, correlation ids, and the responses if all of them are good.
type TakenAcks<'py> = (usize, Bound<'py, PyString>, Bound<'py, PyString>, Vec<Run>, Vec<i32>, Bound<'py, PyBytes>);

/// Acknowledgements of one group and topic that the data begins with; `response` is the header of a response around its
/// correlation id. None: what comes first is Python's.
#[pyfunction]
pub fn take_pop_acks<'py>(
    py: Python<'py>,
    data: PyBuffer<u8>,
    frame_bytes_max: usize,
    response: (Vec<u8>, Vec<u8>),
) -> PyResult<Option<TakenAcks<'py>>> {
    if !data.is_c_contiguous() {
        return Err(PyValueError::new_err("a read is one piece"));
    }
    guarded(|| {
        // SAFETY: the buffer is contiguous and alive until this function returns, and nothing writes to it meanwhile: the
        // GIL is held.
        let data = unsafe { std::slice::from_raw_parts(data.buf_ptr().cast::<u8>(), data.len_bytes()) };
        let (mut end, mut found, mut out) = (0, Vec::<Header<'_>>::new(), Vec::new());
        while found.len() < FRAMES_MAX {
            let Some((header, next)) = ack_at(data, end, frame_bytes_max) else { break };
            if found.first().is_some_and(|first| first.group != header.group || first.topic != header.topic) {
                break;
            }
            put_response(&mut out, header.opaque, &response);
            found.push(header);
            end = next;
        }
        let Some(first) = found.first() else { return Ok(None) };
        let (Ok(group), Ok(topic)) = (std::str::from_utf8(first.group), std::str::from_utf8(first.topic)) else {
            return Ok(None);
        };
        let receipts = runs_of(found.iter().map(|each| &each.receipt));
        let ids = found.iter().map(|each| each.opaque).collect();
        let (group, topic) = (PyString::new(py, group), PyString::new(py, topic));
        Ok(Some((end, group, topic, receipts, ids, PyBytes::new(py, &out))))
    })
}

pub(crate) fn put_response(out: &mut Vec<u8>, opaque: i32, (before, behind): &(Vec<u8>, Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&[0; 8]);
    out.extend_from_slice(before);
    put_decimal(out, i64::from(opaque));
    out.extend_from_slice(behind);
    let size = out.len() - start - 8;
    out[start..start + 8].copy_from_slice(&prefix(size, 0));
}

/// The acknowledgement that begins there, and where it ends.
fn ack_at(data: &[u8], at: usize, frame_bytes_max: usize) -> Option<(Header<'_>, usize)> {
    let frame = frame_at(data, at, frame_bytes_max)?;
    if !frame.body.is_empty() {
        return None;
    }
    Some((read(&data[frame.header])?, frame.body.end))
}

/// As strict as that of a pull: what clients write is read, and everything else is Python's, valid or not.
fn read(text: &[u8]) -> Option<Header<'_>> {
    if !text.starts_with(CODE_TEXT) || std::str::from_utf8(text).is_err() {
        return None;
    }
    let (mut header, mut fields, mut place) = (Header::default(), 0, (0, 0));
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
                    place.0 = small(value)?;
                    4
                }
                b"offset" => {
                    place.1 = whole(value)?;
                    8
                }
                b"extraInfo" => {
                    header.receipt = receipt_words(value).filter(|_| value.len() <= RECEIPT_BYTES_MAX)?.0;
                    0x10
                }
                _ => 0, // texts that an acknowledgement does not need
            })
        })?;
        Some(())
    })?;
    header.opaque = command.opaque;
    let is_plain = command.has(CODE | EXT_FIELDS | OPAQUE) && !command.has(REMARK) && command.flag == 0;
    let is_same = i64::from(place.0) == header.receipt.queue_id as i64 && place.1 == header.receipt.offset as i64;
    (is_plain && is_same && fields & REQUIRED == REQUIRED).then_some(header)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = concat!(
        r#"{"code":200051,"extFields":{"consumerGroup":"g","topic":"orders","queueId":"3","#,
        r#""offset":"1210","extraInfo":"7 1700000000000 60000 734215009 0 broker-a 3 1210","bname":"b"},"#,
        r#""flag":0,"language":"JAVA","opaque":-7,"serializeTypeCurrentRPC":"JSON","version":401}"#
    );

    #[test]
    fn a_header_is_read_and_every_cut_is_not() {
        let header = read(HEADER.as_bytes()).unwrap();
        let receipt = Receipt { queue_id: 3, offset: 1210, number: 734_215_009, popped_ms: 1_700_000_000_000 };
        assert_eq!((header.opaque, header.group, header.topic), (-7, &b"g"[..], &b"orders"[..]));
        assert_eq!(header.receipt, receipt);
        for end in 0..HEADER.len() {
            assert!(read(&HEADER.as_bytes()[..end]).is_none());
        }
    }

    #[test]
    fn oddities_are_pythons() {
        for (old, new) in [
            ("\"queueId\":\"3\"", "\"queueId\":3"),
            ("\"queueId\":\"3\"", "\"queueId\":\"4\""),
            ("\"offset\":\"1210\"", "\"offset\":\"1211\""),
            ("\"offset\":\"1210\",", ""),
            ("broker-a 3 1210", "broker-a 3"),
            ("7 1700000000000", "+7 1700000000000"),
            ("\"flag\":0", "\"flag\":2"),
            ("\"flag\":0", "\"flag\":0,\"remark\":\"r\""),
            ("\"topic\":\"orders\"", "\"topic\":\"\\u006frders\""),
            ("200051", "200052"),
            (",\"opaque\":-7", ""),
        ] {
            let odd = HEADER.replace(old, new);
            assert_ne!(odd, HEADER);
            assert!(read(odd.as_bytes()).is_none(), "{odd}");
        }
    }

    #[test]
    fn responses_are_frames() {
        let mut out = Vec::new();
        put_response(&mut out, -7, &(b"{\"opaque\":".to_vec(), b"}".to_vec()));
        let frame = frame_at(&out, 0, 100).unwrap();
        assert_eq!((&out[frame.header], frame.body.len()), (&b"{\"opaque\":-7}"[..], 0));
    }
}
