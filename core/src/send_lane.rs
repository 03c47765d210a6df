//! The send lane: the plain sends at the beginning of a read, from socket bytes to records, queue entries, hashed keys
//! and responses, in one call and without an object for each message.
//!
//! The first frame that is not plain ends it; that frame and all behind it are Python's. Plain is what Python has shown to
//! be plain: a message for a queue that the lane was told of, whose properties ask for nothing special. The lane stages
//! nothing: it says what is to be staged from where on, and forgets it.

use crate::batch::{item_at, Item, PROPERTIES_BYTES_MAX};
use crate::frame::{self, frame_at, PREFIX_BYTES};
use crate::guard::guarded;
use crate::header::{self, SendHeader};
use crate::index::put_key;
use crate::java_hash;
use crate::json::{put_decimal, unescape};
use crate::layout::{ANY_V6, TRANSACTION_MASK};
use crate::properties::{self, Facts};
use crate::records::{put_entry, put_record, Own, Shared, TopicField, BLANK_BYTES, ENTRY_BYTES};
use crate::signature::{Claim, SigningKey};
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyTuple};
use std::collections::{HashMap, HashSet};

const RESPONSE: i32 = 1;
const ONEWAY: i32 = 2;
const BATCH_CODE: i32 = 320;

/// A queue that a plain send has reached before.
struct Queue {
    object: Py<PyAny>, // its ConsumeQueue
    key: Py<PyTuple>,  // topic and queue id
    is_touched: bool,  // in this call; only then the rest means something
    next_offset: i64,
    entries: Vec<u8>,
    sends: u64,
    record_bytes: u64,
}

struct Topic {
    field: TopicField,
    key_hash: u32, // of the name and "#", from which the hashes of its keys go on
    write_queues: i32,
    queues: Vec<Option<Queue>>,
}

/// Of records and bodies; Python refuses, or takes, what is larger.
struct Limits {
    frame_bytes: usize,
    body_bytes: usize,
    copied_bytes: usize, // larger bodies are written from where they lie
    batch_bytes: usize,
    record_bytes: usize,
    keys: usize,
}

/// The text of a response around what differs between responses.
struct ResponseText {
    before_ids: Vec<u8>,
    host_hex: Vec<u8>,
    before_queue: Vec<u8>,
    before_offset: Vec<u8>,
    before_key: Vec<u8>,
    behind_key: Vec<u8>,
    without_key: Vec<u8>, // in place of both
    end: Vec<u8>,
}

/// Who may send what, as Python has decided it before: names are numbered.
#[derive(Default)]
struct Admitted {
    users: HashMap<Vec<u8>, usize>,
    keys: Vec<SigningKey>, // of the users, by their numbers
    addresses: HashMap<String, usize>,
    topics: HashMap<(usize, usize, i32), HashSet<Vec<u8>>>, // by user, address and code
    last: Option<LastAdmitted>,
}

/// The decision that was found last: one sender after the other sends to the same topic.
struct LastAdmitted {
    name: Vec<u8>,
    topic: Vec<u8>,
    address: usize,
    code: i32,
    user: usize,
}

impl Admitted {
    /// The number of the user, if it may send; that it is the one is not known yet.
    #[inline]
    fn find(&mut self, name: &[u8], topic: &[u8], address: usize, code: i32) -> Option<usize> {
        if let Some(last) = &self.last {
            if last.code == code && last.address == address && last.name == name && last.topic == topic {
                return Some(last.user);
            }
        }
        let user = *self.users.get(name)?;
        if !self.topics.get(&(user, address, code))?.contains(topic) {
            return None;
        }
        self.last = Some(LastAdmitted { name: name.to_vec(), topic: topic.to_vec(), address, code, user });
        Some(user)
    }
}

/// Where the next record goes.
struct Place {
    position: i64,
    room: i64,
    stored_ms: i64,
    born_host: [u8; 8],
}

/// What a call has found so far; empty between calls.
#[derive(Default)]
struct Found {
    records: Vec<u8>,
    keys: Vec<u8>,
    responses: Vec<u8>,
    response_at: usize, // where the last one begins
    response_count: usize,
    sends: usize,
    messages: usize,
    body_bytes: usize,
    touched: Vec<(usize, usize)>,
}

#[pyclass]
pub struct SendLane {
    by_name: HashMap<Vec<u8>, usize>,
    topics: Vec<Topic>,
    limits: Limits,
    store_host: [u8; 8],
    added: Vec<u8>,
    response: ResponseText,
    waits_for_disk: bool,
    found: Found,
    admitted: Admitted,
    claim: Claim,     // of the request under way
    text: Vec<u8>,    // properties of the message under way
    items: Vec<Item>, // of the batch under way
}

/// Bytes consumed; sends, messages, bytes of bodies; records; hashed keys; responses and how many; queues touched.
type Taken<'py> = (
    usize,
    usize,
    usize,
    usize,
    Bound<'py, PyBytes>,
    Bound<'py, PyBytes>,
    Bound<'py, PyBytes>,
    usize,
    Bound<'py, PyList>,
);

#[pymethods]
impl SendLane {
    /// `limits`: of a frame, a body, a body that is copied, a batch, a record (bytes), and of keys of a message.
    /// `response`: before the ids, the host in them, before the queue, the offset and the key, behind it, in place of
    /// the key, and the end. `waits_for_disk`: senders who do not want to wait are Python's.
    #[new]
    fn new(
        limits: (usize, usize, usize, usize, usize, usize),
        store_host: [u8; 8],
        added: &[u8],
        response: [Vec<u8>; 8],
        waits_for_disk: bool,
    ) -> Self {
        let (frame_bytes, body_bytes, copied_bytes, batch_bytes, record_bytes, keys) = limits;
        let [before_ids, host_hex, before_queue, before_offset, before_key, behind_key, without_key, end] = response;
        SendLane {
            by_name: HashMap::new(),
            topics: Vec::new(),
            limits: Limits { frame_bytes, body_bytes, copied_bytes, batch_bytes, record_bytes, keys },
            store_host,
            added: added.to_vec(),
            response: ResponseText {
                before_ids,
                host_hex,
                before_queue,
                before_offset,
                before_key,
                behind_key,
                without_key,
                end,
            },
            waits_for_disk,
            found: Found::default(),
            admitted: Admitted::default(),
            claim: Claim::default(),
            text: Vec::new(),
            items: Vec::new(),
        }
    }

    /// Python has just staged a plain message for this queue of a topic that is as plain as can be.
    fn learn(
        &mut self,
        py: Python<'_>,
        topic: &str,
        write_queues: i32,
        queue_id: u16,
        queue: Py<PyAny>,
    ) -> PyResult<()> {
        let index = *self.by_name.entry(topic.as_bytes().to_vec()).or_insert_with(|| {
            let key_hash = java_hash::extend(java_hash::extend(0, topic.as_bytes()), b"#");
            let field = TopicField::new(topic.as_bytes());
            self.topics.push(Topic { field, key_hash, write_queues, queues: Vec::new() });
            self.topics.len() - 1
        });
        let known = &mut self.topics[index];
        known.write_queues = write_queues;
        let number = usize::from(queue_id);
        if known.queues.len() <= number {
            known.queues.resize_with(number + 1, || None);
        }
        let key = (topic, queue_id).into_pyobject(py)?.unbind();
        known.queues[number] = Some(Queue {
            object: queue,
            key,
            is_touched: false,
            next_offset: 0,
            entries: Vec::new(),
            sends: 0,
            record_bytes: 0,
        });
        Ok(())
    }

    /// Something has changed: nothing counts as plain any more.
    fn forget(&mut self) {
        self.by_name.clear();
        self.topics.clear();
    }

    /// Python has verified that a request with this code was sent by this user from this address, and decided that it
    /// may send to this topic.
    fn admit(&mut self, user: &str, secret: &[u8], ip: &str, code: i32, topic: &str) {
        let addresses = self.admitted.addresses.len();
        let keys = &mut self.admitted.keys;
        let user = *self.admitted.users.entry(user.as_bytes().to_vec()).or_insert_with(|| {
            keys.push(SigningKey::new(secret));
            keys.len() - 1
        });
        let address = *self.admitted.addresses.entry(ip.to_owned()).or_insert(addresses);
        self.admitted.topics.entry((user, address, code)).or_default().insert(topic.as_bytes().to_vec());
    }

    /// Users or rules have changed: nothing that was decided before counts.
    fn forget_users(&mut self) {
        self.admitted = Admitted::default();
    }

    /// How many topics it knows.
    fn __len__(&self) -> usize {
        self.topics.len()
    }

    /// What the plain sends at the beginning of `data` come to when they are staged at `position`; None without one.
    ///
    /// `room` is what the segment has left from there on. With `ip`, the address of the sender, only requests are taken
    /// that are signed by a user who was admitted. Raises RuntimeError for a defect, and ValueError.
    #[allow(clippy::too_many_arguments)]
    fn take<'py>(
        &mut self,
        py: Python<'py>,
        data: PyBuffer<u8>,
        born_host: [u8; 8],
        position: i64,
        room: i64,
        stored_ms: i64,
        ip: Option<&str>,
    ) -> PyResult<Option<Taken<'py>>> {
        if !data.is_c_contiguous() {
            return Err(PyValueError::new_err("what was read is one piece"));
        }
        // SAFETY: the buffer is contiguous and alive until this function returns, and nothing writes to it meanwhile: the
        // GIL is held all along, and the only Python code that runs is the reading of an attribute of a queue.
        let data = unsafe { std::slice::from_raw_parts(data.buf_ptr() as *const u8, data.item_count()) };
        let place = Place { position, room, stored_ms, born_host };
        guarded(|| {
            self.clear();
            let consumed = match ip {
                None => self.take_plain::<false>(py, data, place, 0)?,
                Some(ip) => match self.admitted.addresses.get(ip) {
                    None => 0,
                    Some(&address) => self.take_plain::<true>(py, data, place, address)?,
                },
            };
            (self.found.sends > 0).then(|| self.hand_over(py, consumed)).transpose()
        })
    }
}

impl SendLane {
    /// A call that failed may have left something.
    fn clear(&mut self) {
        for (topic, queue) in self.found.touched.drain(..) {
            if let Some(queue) = self.topics.get_mut(topic).and_then(|topic| topic.queues.get_mut(queue)?.as_mut()) {
                queue.is_touched = false;
            }
        }
        self.found.records.clear();
        self.found.keys.clear();
        self.found.responses.clear();
        (self.found.response_count, self.found.sends, self.found.messages, self.found.body_bytes) = (0, 0, 0, 0);
    }

    fn hand_over<'py>(&mut self, py: Python<'py>, consumed: usize) -> PyResult<Taken<'py>> {
        let queues = PyList::empty(py);
        let found = &mut self.found;
        for &(topic, queue) in &found.touched {
            let queue = self.topics[topic].queues[queue].as_mut().expect("it was touched");
            queue.is_touched = false; // of all of them, before anything can fail
        }
        for (topic, queue) in found.touched.drain(..) {
            let queue = self.topics[topic].queues[queue].as_ref().expect("it was touched");
            queues.append((
                &queue.object,
                &queue.key,
                PyBytes::new(py, &queue.entries),
                queue.sends,
                queue.record_bytes,
            ))?;
        }
        Ok((
            consumed,
            found.sends,
            found.messages,
            found.body_bytes,
            PyBytes::new(py, &found.records),
            PyBytes::new(py, &found.keys),
            PyBytes::new(py, &found.responses),
            found.response_count,
            queues,
        ))
    }

    /// How many bytes of the data are plain sends.
    fn take_plain<const SIGNED: bool>(
        &mut self,
        py: Python<'_>,
        data: &[u8],
        mut place: Place,
        address: usize,
    ) -> PyResult<usize> {
        let mut at = 0;
        while let Some(frame) = frame_at(data, at, self.limits.frame_bytes) {
            let Some(header) = header::read::<SIGNED>(&data[frame.header]) else { break };
            let body = &data[frame.body.clone()];
            if SIGNED && !self.is_admitted(&header, body, address) {
                break;
            }
            if !self.take_send::<SIGNED>(py, &header, body, &mut place)? {
                break;
            }
            at = frame.body.end;
        }
        Ok(at)
    }

    /// Whether the signature shows that a user sent it who may. Nothing of the request is believed before that.
    fn is_admitted(&mut self, header: &SendHeader<'_>, body: &[u8], address: usize) -> bool {
        if self.claim.read(&header.fields).is_none() {
            return false;
        }
        let claim = &self.claim;
        let found = self.admitted.find(&claim.access_key, header.topic, address, header.code);
        self.text.clear();
        self.text.extend_from_slice(&claim.content[claim.properties.clone()]);
        found.is_some_and(|user| self.admitted.keys[user].matches(&claim.signature, &claim.content, body))
    }

    /// False when it is not plain: then nothing has changed. `SIGNED`: its properties were read with its signature.
    fn take_send<const SIGNED: bool>(
        &mut self,
        py: Python<'_>,
        header: &SendHeader<'_>,
        body: &[u8],
        place: &mut Place,
    ) -> PyResult<bool> {
        if header.flag & RESPONSE != 0 || header.sys_flag & (TRANSACTION_MASK | ANY_V6) != 0 {
            return Ok(false);
        }
        let Some(&topic_index) = self.by_name.get(header.topic) else { return Ok(false) };
        let topic = &mut self.topics[topic_index];
        if header.queue_id < 0 || header.queue_id >= topic.write_queues {
            return Ok(false);
        }
        let queue_index = header.queue_id as usize;
        let Some(Some(queue)) = topic.queues.get_mut(queue_index) else { return Ok(false) };
        if !SIGNED {
            self.text.clear();
            if unescape(header.properties, &mut self.text).is_none() {
                return Ok(false);
            }
        }
        let Some(facts) = properties::look(&self.text) else { return Ok(false) };
        if (self.waits_for_disk && !facts.waits) || !facts.unique_key.iter().all(u8::is_ascii_alphanumeric) {
            return Ok(false);
        }
        if !queue.is_touched {
            queue.next_offset = queue.object.getattr(py, pyo3::intern!(py, "next_offset"))?.extract(py)?;
            if queue.next_offset == 0 {
                return Ok(false); // its first message, or the queue of a topic that is gone
            }
        }
        let shared = Shared {
            topic: &topic.field,
            queue_id: header.queue_id,
            sys_flag: header.sys_flag,
            born_ms: header.born_ms,
            born_host: place.born_host,
            stored_ms: place.stored_ms,
            store_host: self.store_host,
            attempts: header.attempts,
        };
        let is_batch = header.is_batch || header.code == BATCH_CODE;
        self.items.clear();
        let total = if is_batch {
            batch_bytes(body, &shared, &self.limits, &mut self.items)
        } else {
            let own = Own { flag: header.message_flag, body, properties: &self.text, added: &self.added };
            if facts.unique_key.is_empty() {
                None
            } else {
                record_bytes(&own, &facts, &shared, &self.limits)
            }
        };
        let Some(total) = total else { return Ok(false) };
        if total as i64 + BLANK_BYTES > place.room {
            return Ok(false); // the next segment is Python's
        }
        if !queue.is_touched {
            queue.is_touched = true;
            queue.entries.clear();
            (queue.sends, queue.record_bytes) = (0, 0);
            self.found.touched.push((topic_index, queue_index));
        }
        let first_offset = queue.next_offset;
        let mut putting = Putting { found: &mut self.found, queue, shared: &shared, key_hash: topic.key_hash };
        let is_answered = header.flag & ONEWAY == 0;
        if is_answered {
            begin_response(putting.found, &self.response);
        }
        if is_batch {
            for (number, item) in self.items.iter().enumerate() {
                let properties = &body[item.properties.clone()];
                let facts = properties::look(properties).expect("it was looked at");
                let own = Own { flag: item.flag, body: &body[item.body.clone()], properties, added: b"" };
                if is_answered {
                    put_id(&mut putting.found.responses, &self.response, number, place.position);
                }
                putting.put(&own, &facts, place);
            }
        } else {
            let own = Own { flag: header.message_flag, body, properties: &self.text, added: &self.added };
            if is_answered {
                put_id(&mut putting.found.responses, &self.response, 0, place.position);
            }
            putting.put(&own, &facts, place);
        }
        putting.queue.sends += 1;
        self.found.sends += 1;
        self.found.body_bytes += body.len();
        if is_answered {
            end_response(&mut self.found, &self.response, header, first_offset, facts.unique_key);
        }
        Ok(true)
    }
}

/// Messages of one request on their way into what the call has found.
struct Putting<'a> {
    found: &'a mut Found,
    queue: &'a mut Queue,
    shared: &'a Shared<'a>,
    key_hash: u32,
}

impl Putting<'_> {
    #[inline]
    fn put(&mut self, own: &Own<'_>, facts: &Facts<'_>, place: &mut Place) {
        let size = own.record_bytes(self.shared.topic);
        put_record(&mut self.found.records, self.shared, own, self.queue.next_offset, place.position, size);
        put_entry(&mut self.queue.entries, place.position, size, java_hash::of_tag(facts.tag));
        for key in properties::keys(facts) {
            let hash = java_hash::for_index(java_hash::extend(self.key_hash, key));
            put_key(&mut self.found.keys, hash, place.position, place.stored_ms);
        }
        debug_assert_eq!(self.queue.entries.len() % ENTRY_BYTES, 0);
        self.queue.next_offset += 1;
        self.queue.record_bytes += size as u64;
        self.found.messages += 1;
        place.position += size as i64;
        place.room -= size as i64;
    }
}

/// Bytes of the record, if no limit speaks against it.
#[inline]
fn record_bytes(own: &Own<'_>, facts: &Facts<'_>, shared: &Shared<'_>, limits: &Limits) -> Option<usize> {
    let size = own.record_bytes(shared.topic);
    let fits = own.body.len() <= limits.body_bytes
        && own.body.len() < limits.copied_bytes
        && own.properties_bytes() <= PROPERTIES_BYTES_MAX
        && size <= limits.record_bytes
        && properties::keys(facts).take(limits.keys + 1).count() <= limits.keys;
    fits.then_some(size)
}

/// Bytes of all records of a batch, whose items come out; None if one of them is not plain.
fn batch_bytes(body: &[u8], shared: &Shared<'_>, limits: &Limits, items: &mut Vec<Item>) -> Option<usize> {
    if body.is_empty() || body.len() > limits.batch_bytes {
        return None;
    }
    let (mut at, mut total) = (0, 0);
    while at < body.len() {
        let item = item_at(body, at)?;
        at = item.properties.end;
        let properties = &body[item.properties.clone()];
        std::str::from_utf8(properties).ok()?;
        let facts = properties::look(properties)?;
        let own = Own { flag: item.flag, body: &body[item.body.clone()], properties, added: b"" };
        total += record_bytes(&own, &facts, shared, limits)?;
        items.push(item);
    }
    Some(total)
}

// --- responses ---

#[inline]
fn begin_response(found: &mut Found, text: &ResponseText) {
    found.response_at = found.responses.len();
    found.responses.extend_from_slice(&[0; PREFIX_BYTES]); // its size is known at the end
    found.responses.extend_from_slice(&text.before_ids);
}

#[inline]
fn put_id(into: &mut Vec<u8>, text: &ResponseText, number: usize, position: i64) {
    if number > 0 {
        into.push(b',');
    }
    into.extend_from_slice(&text.host_hex);
    for shift in (0..16).rev() {
        into.push(b"0123456789ABCDEF"[(position as u64 >> (shift * 4)) as usize & 15]);
    }
}

#[inline]
fn end_response(found: &mut Found, text: &ResponseText, header: &SendHeader<'_>, offset: i64, unique_key: &[u8]) {
    let into = &mut found.responses;
    into.extend_from_slice(&text.before_queue);
    put_decimal(into, i64::from(header.queue_id));
    into.extend_from_slice(&text.before_offset);
    put_decimal(into, offset);
    if unique_key.is_empty() {
        into.extend_from_slice(&text.without_key);
    } else {
        into.extend_from_slice(&text.before_key);
        into.extend_from_slice(unique_key);
        into.extend_from_slice(&text.behind_key);
    }
    put_decimal(into, i64::from(header.opaque));
    into.extend_from_slice(&text.end);
    let header_at = found.response_at + PREFIX_BYTES;
    let prefix = frame::prefix(into.len() - header_at, 0);
    into[found.response_at..header_at].copy_from_slice(&prefix);
    found.response_count += 1;
}
