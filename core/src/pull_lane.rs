//! The pull lane: the plain pulls at the beginning of a read that find messages, from socket bytes to responses.
//!
//! The first frame that is not plain ends it; that frame and all behind it are Python's. Plain is what Python has shown
//! to be plain: a pull that differs from one which Python has answered in its offsets and limits alone. The lane reads what
//! it is shown and changes nothing: counters, offsets and the sending of responses are Python's.
//!
//! With access control the sender is a part of the kind: Python has decided that this user may, from this address. Who a
//! pull comes from is what its signature shows, verified for each.

use crate::frame::{self, frame_at, PREFIX_BYTES};
use crate::guard::guarded;
use crate::json::put_decimal;
use crate::pull_header::{self, PullHeader};
use crate::pulls::{Segment, SCATTERED_BYTES};
use crate::queue_reads::{Log, QueueReads, ReadNumbers};
use crate::signature::{Claim, SigningKey};
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyTuple};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

const COMMIT: i32 = 1;
/// Of one call; other connections wait meanwhile.
const PULLS_MAX: usize = 256;
const BYTES_MAX: i64 = 8 << 20;
/// What comes behind is Python's, which lets other connections go first; records that are not in memory take long.
const TURN: Duration = Duration::from_millis(20);

/// A pull that Python has answered.
struct Known {
    queue: Py<PyAny>,  // its ConsumeQueue
    key: Py<PyTuple>,  // topic, group and queue id
    pair: Py<PyTuple>, // topic and group
    tags: Vec<i64>,    // that pass; empty: all do
    signed_with: Option<Arc<SigningKey>>,
}

/// Name and address of who sent a pull; the name is not believed before its signature was verified.
type Sender<'a> = (&'a [u8], &'a [u8]);

#[pyclass]
pub struct PullLane {
    known: HashMap<Vec<u8>, Known>,
    keys: HashMap<Vec<u8>, Arc<SigningKey>>, // of users
    reads: QueueReads,
    frame_bytes: usize,
    response: [Vec<u8>; 5], // the text around next offset, first offset, end and opaque
    wanted: Vec<u8>,        // what is looked up
    claim: Claim,           // of the pull under way
}

/// What a pull found, and where it lies.
struct Found<'py> {
    response: Bound<'py, PyBytes>,
    parts: Option<Bound<'py, PyAny>>, // of its body, when they are not in the response
    count: usize,
    size_bytes: i64,
    next_offset: i64,
    commits: Option<i64>,
}

#[pymethods]
impl PullLane {
    /// `segments` and reader of the log; `limits`: messages and bytes of a read, of one from disk, entries that a filter looks at, and
    /// the bytes that every record has; `response`: the text around next offset, first offset, end and opaque.
    #[new]
    fn new(
        segments: Py<PyAny>,
        records: Py<PyAny>,
        limits: ReadNumbers,
        frame_bytes: usize,
        response: [Vec<u8>; 5],
    ) -> PyResult<Self> {
        Ok(PullLane {
            known: HashMap::new(),
            keys: HashMap::new(),
            reads: QueueReads::new(segments, records, limits)?,
            frame_bytes,
            response,
            wanted: Vec::new(),
            claim: Claim::default(),
        })
    }

    /// Python has just answered a pull of this kind, plainly: by its topic, group and queue (`key`), its flags (whether it
    /// commits makes no difference), and what it says of its subscription. `tags` are those that pass, empty for all.
    /// `signer`: name, secret and address of the user who signed it, and may.
    #[allow(clippy::too_many_arguments)]
    fn learn(
        &mut self,
        py: Python<'_>,
        key: (String, String, i32),
        sys_flag: i32,
        subscription: (Option<&str>, i64, Option<&str>),
        queue: Py<PyAny>,
        tags: Vec<i64>,
        signer: Option<(&str, &[u8], &str)>,
    ) -> PyResult<()> {
        let (topic, group, queue_id) = (key.0.as_str(), key.1.as_str(), key.2);
        let (text, sub_version, expression_type) = subscription;
        let header = PullHeader {
            group: group.as_bytes(),
            topic: topic.as_bytes(),
            queue_id,
            sys_flag,
            subscription: text.map(str::as_bytes),
            sub_version,
            expression_type: expression_type.map(str::as_bytes),
            ..Default::default()
        };
        let pair = (topic, group).into_pyobject(py)?.unbind();
        kind_of(&header, signer.map(|(user, _, ip)| (user.as_bytes(), ip.as_bytes())), &mut self.wanted);
        let signed_with = signer.map(|(user, secret, _)| {
            let key = self.keys.entry(user.as_bytes().to_vec()).or_insert_with(|| Arc::new(SigningKey::new(secret)));
            Arc::clone(key)
        });
        let key = key.into_pyobject(py)?.unbind();
        self.known.insert(self.wanted.clone(), Known { queue, key, pair, tags, signed_with });
        Ok(())
    }

    /// Something has changed: nothing counts as plain any more, and nobody is known.
    fn forget(&mut self) {
        self.known.clear();
        self.keys.clear();
    }

    /// How many kinds of pulls it knows.
    fn __len__(&self) -> usize {
        self.known.len()
    }

    /// The plain pulls at the beginning of `data`: how many bytes these are and, of each, its key (topic, group, queue
    /// id), topic and group, the next offset, what it commits or None, messages, bytes, and its response: whole, or up to
    /// its body, with the parts that this has. None without one.
    ///
    /// With `ip`, the address of the sender, only pulls are taken that are signed by a user whose pulls of this kind were
    /// learned from there.
    ///
    /// Raises RuntimeError for a defect, and ValueError.
    fn take<'py>(
        &mut self,
        py: Python<'py>,
        data: PyBuffer<u8>,
        log: Log,
        ip: Option<&str>,
    ) -> PyResult<Option<(usize, Bound<'py, PyList>)>> {
        if !data.is_c_contiguous() {
            return Err(PyValueError::new_err("what was read is one piece"));
        }
        // SAFETY: the buffer is contiguous and alive until this function returns, and nothing writes to it meanwhile: it is
        // the connection's own, of the thread that calls this. The Python code that runs reads entries of a queue, which
        // lets other threads run, and finds a segment; no other thread may call the lane.
        let data = unsafe { std::slice::from_raw_parts(data.buf_ptr() as *const u8, data.item_count()) };
        let taken = guarded(|| match ip {
            None => self.take_plain::<false>(py, data, log, b""),
            Some(ip) => self.take_plain::<true>(py, data, log, ip.as_bytes()),
        })?;
        Ok((taken.0 > 0).then_some(taken))
    }
}

impl PullLane {
    fn take_plain<'py, const SIGNED: bool>(
        &mut self,
        py: Python<'py>,
        data: &[u8],
        log: Log,
        ip: &[u8],
    ) -> PyResult<(usize, Bound<'py, PyList>)> {
        let (mut at, mut bytes, mut segment, pulls, began) = (0, 0, None, PyList::empty(py), Instant::now());
        while pulls.len() < PULLS_MAX && bytes < BYTES_MAX {
            let Some(frame) = frame_at(data, at, self.frame_bytes).filter(|frame| frame.body.is_empty()) else { break };
            let Some(header) = pull_header::read::<SIGNED>(&data[frame.header]) else { break };
            if SIGNED && self.claim.read(&header.fields).is_none() {
                break;
            }
            let claim = &self.claim;
            kind_of(&header, SIGNED.then_some((&claim.access_key, ip)), &mut self.wanted);
            let Some(known) = self.known.get(&self.wanted) else { break };
            let is_signed = |key: &Arc<SigningKey>| key.matches(&claim.signature, &claim.content, b"");
            if SIGNED && !known.signed_with.as_ref().is_some_and(is_signed) {
                break; // the name was not worth anything
            }
            // what fails is left to Python, which meets the same failure and explains it
            let Ok(Some(found)) = self.pull(py, &header, known, log, &mut segment) else { break };
            bytes += found.size_bytes;
            pulls.append((
                &known.key,
                &known.pair,
                found.next_offset,
                found.commits,
                found.count,
                found.size_bytes,
                found.response,
                found.parts,
            ))?;
            at = frame.body.end;
            if began.elapsed() > TURN {
                break;
            }
        }
        Ok((at, pulls))
    }

    /// None when it is not plain, or finds nothing. `segment` is the one that the last pull of this call found records in.
    fn pull<'py>(
        &self,
        py: Python<'py>,
        header: &PullHeader<'_>,
        known: &Known,
        log: Log,
        segment: &mut Option<Segment>,
    ) -> PyResult<Option<Found<'py>>> {
        if header.flag != 0 {
            return Ok(None);
        }
        let Some(limits) = self.reads.limits.of(header.count_max, header.bytes_max) else { return Ok(None) };
        let tags = (!known.tags.is_empty()).then_some(&known.tags[..]);
        let Some(found) = self.reads.find(known.queue.bind(py), header.offset, limits, tags, log)? else {
            return Ok(None);
        };
        let (scanned, first, end) = (found.scanned, found.first, found.end);
        if scanned.size_bytes >= BYTES_MAX {
            return Ok(None);
        }
        let mut head = vec![0; PREFIX_BYTES];
        let numbers = [scanned.next_offset, first, end, i64::from(header.opaque)];
        for (text, number) in self.response.iter().zip(numbers) {
            head.extend_from_slice(text);
            put_decimal(&mut head, number);
        }
        head.extend_from_slice(&self.response[4]);
        let prefix = frame::prefix(head.len() - PREFIX_BYTES, scanned.size_bytes as usize);
        head[..PREFIX_BYTES].copy_from_slice(&prefix);
        let (mut whole, mut parts) = (None, None);
        if scanned.size_bytes < SCATTERED_BYTES * scanned.runs.len() as i64 {
            whole = self.reads.joined(py, &head, &scanned.runs, log.4, segment)?;
        }
        if whole.is_none() {
            parts = Some(self.reads.slices(py, &scanned.runs)?);
        }
        let response = whole.unwrap_or_else(|| PyBytes::new(py, &head));
        let commits = (header.sys_flag & COMMIT != 0 && header.commit_offset <= end).then_some(header.commit_offset);
        let (count, size_bytes, next_offset) = (scanned.count, scanned.size_bytes, scanned.next_offset);
        Ok(Some(Found { response, parts, count, size_bytes, next_offset, commits }))
    }
}

/// What makes two pulls of one kind, as a key. Lengths stand before texts: no two kinds have the same one.
fn kind_of(header: &PullHeader<'_>, sender: Option<Sender<'_>>, into: &mut Vec<u8>) {
    into.clear();
    into.extend_from_slice(&header.queue_id.to_ne_bytes());
    into.extend_from_slice(&(header.sys_flag & !COMMIT).to_ne_bytes());
    into.extend_from_slice(&header.sub_version.to_ne_bytes());
    let (user, ip) = sender.unzip();
    for text in [Some(header.group), Some(header.topic), header.subscription, header.expression_type, user, ip] {
        let length = text.map_or(u64::MAX, |text| text.len() as u64);
        into.extend_from_slice(&length.to_ne_bytes());
        into.extend_from_slice(text.unwrap_or_default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_differ_in_everything_but_offsets() {
        let plain = || PullHeader { group: b"g", topic: b"orders", subscription: Some(b"*"), ..Default::default() };
        let key_of = |header: PullHeader<'_>, sender| {
            let mut into = vec![1, 2, 3];
            kind_of(&header, sender, &mut into);
            into
        };
        let key = |header| key_of(header, None);
        let same = PullHeader { offset: 9, count_max: 3, commit_offset: 4, opaque: 5, sys_flag: COMMIT, ..plain() };
        assert_eq!(key(plain()), key(same));
        for other in [
            PullHeader { group: b"go", topic: b"rders", ..plain() },
            PullHeader { subscription: None, ..plain() },
            PullHeader { subscription: Some(b""), ..plain() },
            PullHeader { expression_type: Some(b""), ..plain() },
            PullHeader { queue_id: 1, ..plain() },
            PullHeader { sys_flag: 2, ..plain() },
            PullHeader { sub_version: 1, ..plain() },
        ] {
            assert_ne!(key(plain()), key(other));
        }
        let senders: [Option<Sender<'_>>; 6] = [
            None,
            Some((b"u", b"10.0.0.1")),
            Some((b"v", b"10.0.0.1")),
            Some((b"u", b"10.0.0.2")),
            Some((b"u1", b"0.0.0.1")),
            Some((b"", b"")),
        ];
        for (number, one) in senders.iter().enumerate() {
            for other in &senders[..number] {
                assert_ne!(key_of(plain(), *one), key_of(plain(), *other));
            }
        }
    }
}
