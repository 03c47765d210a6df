//! AckMessage of the gRPC API: group, topic and receipts as clients write them, read in place, and the response to them if
//! all are good; `broker/grpc/settling.py` does the same in Python. Whatever is not plain is Python's.

use crate::guard::guarded;
use crate::protobuf::{put_bytes, put_number, Reader, Value};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString};

const ENTRIES_MAX: usize = 1_024;
const HANDLE_BYTES_MAX: usize = 512;
const DIGITS_MAX: usize = 18;

/// What says which row a receipt is good for.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Receipt {
    pub queue_id: u64,
    pub offset: u64,
    pub number: u64,
    pub popped_ms: u64,
}

/// A request: group and topic as they are encoded; receipts and their texts.
pub struct Acks<'a> {
    pub group: &'a [u8],
    pub topic: &'a [u8],
    pub receipts: Vec<(&'a str, Receipt)>,
}

/// The receipt in eight words or more, of this broker and no retry topic.
fn receipt_of(text: &str, broker: &[u8]) -> Option<Receipt> {
    receipt_words(text.as_bytes()).filter(|(_, kind, of)| *kind == 0 && *of == broker).map(|found| found.0)
}

/// A receipt in eight words or more, with its kind of topic and its broker.
pub fn receipt_words(text: &[u8]) -> Option<(Receipt, u64, &[u8])> {
    let mut words = text.split(|&byte| byte == b' ');
    let mut next = || number_of(words.next()?);
    let (_start, popped_ms, _invisible_ms, number, kind) = (next()?, next()?, next()?, next()?, next()?);
    let broker = words.next()?;
    let receipt = Receipt { queue_id: number_of(words.next()?)?, offset: number_of(words.next()?)?, number, popped_ms };
    Some((receipt, kind, broker))
}

fn number_of(word: &[u8]) -> Option<u64> {
    if word.is_empty() || word.len() > DIGITS_MAX || !word.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Some(word.iter().fold(0, |value, digit| value * 10 + u64::from(digit - b'0')))
}

/// Reads a request, and puts the response into `response` that says that all is well.
pub fn read<'a>(request: &'a [u8], broker: &[u8], status: &[u8], response: &mut Vec<u8>) -> Option<Acks<'a>> {
    let (mut group, mut topic, mut receipts) = (None, None, Vec::new());
    response.clear();
    put_bytes(response, 0x0A, status);
    let mut reader = Reader::new(request);
    while !reader.is_at_end() {
        let (number, Value::Bytes(value)) = reader.field()? else { return None };
        let place = match number {
            1 => &mut group,
            2 => &mut topic,
            3 => {
                let (id, handle) = entry_of(value)?;
                if receipts.len() >= ENTRIES_MAX {
                    return None;
                }
                receipts.push((handle, receipt_of(handle, broker)?));
                put_entry(response, id, handle, status);
                continue;
            }
            _ => return None,
        };
        if place.replace(value).is_some() {
            return None;
        }
    }
    (!receipts.is_empty()).then_some(())?;
    Some(Acks { group: group?, topic: topic?, receipts })
}

/// Message id and receipt handle.
fn entry_of(data: &[u8]) -> Option<(&str, &str)> {
    let mut reader = Reader::new(data);
    let (1, Value::Bytes(id)) = reader.field()? else { return None };
    let (2, Value::Bytes(handle)) = reader.field()? else { return None };
    if !reader.is_at_end() || id.is_empty() || handle.len() > HANDLE_BYTES_MAX {
        return None;
    }
    Some((std::str::from_utf8(id).ok()?, std::str::from_utf8(handle).ok()?))
}

fn put_entry(into: &mut Vec<u8>, id: &str, handle: &str, status: &[u8]) {
    let mut entry = Vec::with_capacity(id.len() + handle.len() + status.len() + 16);
    put_bytes(&mut entry, 0x0A, id.as_bytes());
    put_bytes(&mut entry, 0x12, handle.as_bytes());
    put_bytes(&mut entry, 0x1A, status);
    put_number(into, 0x12);
    put_number(into, entry.len() as u64);
    into.extend_from_slice(&entry);
}

/// Receipts in a row that are of one queue and hand-out: queue id, number and time of the pop, offsets.
pub type Run = (u64, u64, u64, Vec<u64>);

/// The runs of receipts, in their order.
pub fn runs_of<'a>(receipts: impl Iterator<Item = &'a Receipt>) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for Receipt { queue_id, offset, number, popped_ms } in receipts {
        match runs.last_mut() {
            Some(run) if (run.0, run.1, run.2) == (*queue_id, *number, *popped_ms) => run.3.push(*offset),
            _ => runs.push((*queue_id, *number, *popped_ms, vec![*offset])),
        }
    }
    runs
}

/// Handle, queue id, offset, number and time of the pop, for each.
fn receipts_list<'py>(py: Python<'py>, receipts: &[(&str, Receipt)]) -> PyResult<Bound<'py, PyList>> {
    let found = receipts.iter().map(|(handle, receipt)| {
        (PyString::new(py, handle), receipt.queue_id, receipt.offset, receipt.number, receipt.popped_ms)
    });
    PyList::new(py, found.collect::<Vec<_>>())
}

type ReadAcks<'py> = (Bound<'py, PyBytes>, Bound<'py, PyBytes>, Bound<'py, PyList>, Bound<'py, PyBytes>);

/// Group and topic, encoded; receipts; and the response if all are good. None: the request is Python's.
#[pyfunction]
pub fn read_acks<'py>(
    py: Python<'py>,
    request: &[u8],
    broker: &[u8],
    status: &[u8],
) -> PyResult<Option<ReadAcks<'py>>> {
    guarded(|| {
        let mut response = Vec::with_capacity(request.len() * 2);
        let Some(acks) = read(request, broker, status, &mut response) else { return Ok(None) };
        let (group, topic) = (PyBytes::new(py, acks.group), PyBytes::new(py, acks.topic));
        Ok(Some((group, topic, receipts_list(py, &acks.receipts)?, PyBytes::new(py, &response))))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HANDLE: &str = "7 1700000000000 60000 734215009 0 broker-a 3 1210";

    fn field(tag: u64, value: &[u8]) -> Vec<u8> {
        let mut found = Vec::new();
        put_bytes(&mut found, tag, value);
        found
    }

    fn request(handle: &str) -> Vec<u8> {
        let entry = [field(0x0A, b"01AB"), field(0x12, handle.as_bytes())].concat();
        [field(0x0A, b"g"), field(0x12, b"t"), field(0x1A, &entry)].concat()
    }

    #[test]
    fn runs_are_of_one_hand_out() {
        let receipt = |queue_id, offset, number, popped_ms| Receipt { queue_id, offset, number, popped_ms };
        let some = [receipt(1, 5, 2, 3), receipt(1, 7, 2, 3), receipt(2, 8, 2, 3), receipt(2, 8, 4, 3), receipt(2, 8, 4, 5)];
        let runs = runs_of(some.iter());
        assert_eq!(runs, [(1, 2, 3, vec![5, 7]), (2, 2, 3, vec![8]), (2, 4, 3, vec![8]), (2, 4, 5, vec![8])]);
        assert!(runs_of([].iter()).is_empty());
    }

    #[test]
    fn a_request_is_read_and_every_cut_is_not() {
        let (data, mut response) = (request(HANDLE), Vec::new());
        let found = read(&data, b"broker-a", b"ok", &mut response).unwrap();
        let receipt = Receipt { queue_id: 3, offset: 1210, number: 734_215_009, popped_ms: 1_700_000_000_000 };
        assert_eq!((found.group, found.topic, found.receipts), (&b"g"[..], &b"t"[..], vec![(HANDLE, receipt)]));
        assert!(response.starts_with(b"\x0A\x02ok\x12"));
        for end in 0..data.len() {
            assert!(read(&data[..end], b"broker-a", b"ok", &mut response).is_none());
        }
    }

    #[test]
    fn receipts_that_are_out_of_the_ordinary_are_pythons() {
        for handle in [
            "",
            "7 1700000000000 60000 734215009 0 broker-a 3",
            "7 1700000000000 60000 734215009 1 broker-a 3 1210", // of a retry topic
            "7 1700000000000 60000 734215009 0 broker-b 3 1210",
            "7 1700000000000 60000 734215009 0 broker-a +3 1210",
            "7 1700000000000 60000 734215009 0 broker-a 3 12_10",
            "7 1700000000000 60000 734215009 0 broker-a 3 1234567890123456789",
            "7  1700000000000 60000 734215009 0 broker-a 3 1210",
        ] {
            assert!(receipt_of(handle, b"broker-a").is_none(), "{handle}");
        }
        assert!(receipt_of(&format!("{HANDLE} more"), b"broker-a").is_some());
    }
}
