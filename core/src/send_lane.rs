//! The send lane: the plain sends at the beginning of a read, from socket bytes to records, queue entries, hashed keys
//! and responses, in one call and without an object for each message.
//!
//! The first frame that is not plain ends it; that frame and all behind it are Python's. Plain is what Python has shown to
//! be plain: a message for a queue that the lane was told of, whose properties ask for nothing special. `take` stages
//! nothing: it says what is to be staged from where on. After Python has staged the records, `stage_entries` puts the
//! entries into the tails of their queues; what was not staged is forgotten with the next call.

use crate::batch::{item_at, Item, PROPERTIES_BYTES_MAX};
use crate::frame::{self, frame_at, PREFIX_BYTES};
use crate::grpc_send;
use crate::guard::guarded;
use crate::header::{self, SendHeader};
use crate::http2_lane::{call_at, Call, Http2Lane, Method, Open};
use crate::index::put_key;
use crate::java_hash;
use crate::json::{put_decimal, unescape};
use crate::layout::{ANY_V6, INNER_BATCH, TRANSACTION_MASK};
use crate::properties::{self, Facts};
use crate::queue_tail::{QueueLine, QueueTail};
use crate::records::{put_entry, put_record, Own, Shared, TopicField, BLANK_BYTES, ENTRY_BYTES};
use crate::signature::{Claim, SigningKey};
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString};
use std::collections::{HashMap, HashSet};

const RESPONSE: i32 = 1;
const ONEWAY: i32 = 2;
const SEND_CODE: i32 = 310;
const BATCH_CODE: i32 = 320;
const NONE: usize = usize::MAX;

/// A queue that a plain send has reached before.
struct Queue {
    tail: Py<QueueTail>,
    touched_as: usize, // in this call, its place among all that are; else `NONE`
}

/// What a call has found for one queue.
struct Touched {
    topic: usize,
    queue: usize,
    next_offset: i64,
    tally: Tally,
}

/// What came in for a topic and was not taken by Python yet.
#[derive(Clone, Copy, Default)]
struct Tally {
    sends: u64,
    messages: u64,
    record_bytes: u64,
}

struct Topic {
    name: Py<PyString>,
    key_hash: u32, // of the name and "#", from which the hashes of its keys go on
    write_queues: i32,
    queues: Vec<Option<Queue>>, // by queue id
    tally: Tally,
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
    entries: Vec<u8>,
    entry_queues: Vec<usize>, // of each, its place in `touched`
    touched: Vec<Touched>,
}

#[pyclass]
pub struct SendLane {
    by_name: HashMap<Vec<u8>, usize>,
    topics: Vec<Topic>,
    counted: Vec<usize>, // topics whose tallies are not 0
    limits: Limits,
    store_host: [u8; 8],
    added: Vec<u8>,
    response: ResponseText,
    waits_for_disk: bool,
    found: Found,
    admitted: Admitted,
    claim: Claim,               // of the request under way
    field: TopicField,          // likewise
    text: Vec<u8>,              // properties of the message under way
    reserved: HashSet<Vec<u8>>, // names of properties that no client of gRPC may set
    items: Vec<Item>,           // of the batch under way
}

/// Bytes consumed; sends, messages, bytes of bodies; records; hashed keys; responses and how many.
type Taken<'py> = (usize, usize, usize, usize, Bound<'py, PyBytes>, Bound<'py, PyBytes>, Bound<'py, PyBytes>, usize);

/// Number of the client, bytes consumed, the last stream, bytes of DATA; and as above, without the bytes.
type TakenCalls<'py> = (usize, usize, u32, usize, Taken<'py>);

/// A topic; sends, messages, bytes of records.
type TopicTally = (Py<PyString>, u64, u64, u64);

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
            counted: Vec::new(),
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
            field: TopicField::new(b""),
            text: Vec::new(),
            reserved: HashSet::new(),
            items: Vec::new(),
        }
    }

    /// Python has just staged a plain message for this queue of a topic that is as plain as can be.
    fn learn(&mut self, py: Python<'_>, topic: &str, write_queues: i32, queue_id: u16, queue: Py<QueueTail>) {
        let index = *self.by_name.entry(topic.as_bytes().to_vec()).or_insert_with(|| {
            let key_hash = java_hash::extend(java_hash::extend(0, topic.as_bytes()), b"#");
            let name = PyString::new(py, topic).unbind();
            self.topics.push(Topic { name, key_hash, write_queues, queues: Vec::new(), tally: Tally::default() });
            self.topics.len() - 1
        });
        let known = &mut self.topics[index];
        known.write_queues = write_queues;
        let number = usize::from(queue_id);
        if known.queues.len() <= number {
            known.queues.resize_with(number + 1, || None);
        }
        known.queues[number] = Some(Queue { tail: queue, touched_as: NONE });
    }

    /// Something has changed: nothing counts as plain any more. Tallies that were not taken are lost.
    fn forget(&mut self) {
        self.clear();
        self.by_name.clear();
        self.topics.clear();
        self.counted.clear();
    }

    /// What came in for topics since the last call.
    fn take_tallies(&mut self, py: Python<'_>) -> Vec<TopicTally> {
        let topics = &mut self.topics;
        let take = |index: usize| {
            let topic = &mut topics[index];
            let tally = std::mem::take(&mut topic.tally);
            (topic.name.clone_ref(py), tally.sends, tally.messages, tally.record_bytes)
        };
        self.counted.drain(..).map(take).collect()
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
        // GIL is held all along, and no Python code runs.
        let data = unsafe { std::slice::from_raw_parts(data.buf_ptr() as *const u8, data.item_count()) };
        let place = Place { position, room, stored_ms, born_host };
        guarded(|| {
            self.clear();
            let consumed = match ip {
                None => self.take_plain::<false>(data, place, 0),
                Some(ip) => match self.admitted.addresses.get(ip) {
                    None => 0,
                    Some(&address) => self.take_plain::<true>(data, place, address),
                },
            };
            Ok((self.found.sends > 0).then(|| self.hand_over(py, consumed)))
        })
    }

    /// Names of properties that clients of gRPC may not set.
    fn reserve(&mut self, names: Vec<String>) {
        self.reserved = names.into_iter().map(String::into_bytes).collect();
    }

    /// `take` for sends by gRPC of one client, from `at` on. Streams begin above `last_id`, DATA fits into `window`, at most
    /// so many calls are taken; `turn` is the number of the queue that is next. Their responses have the numbers of streams.
    #[allow(clippy::too_many_arguments)]
    fn take_calls<'py>(
        &mut self,
        py: Python<'py>,
        mut lane: PyRefMut<'py, Http2Lane>,
        data: &[u8],
        at: usize,
        bounds: (u32, i64, usize),
        turn: u64,
        now_ms: i64,
        place: (i64, i64, i64),
    ) -> PyResult<Option<TakenCalls<'py>>> {
        let (position, room, stored_ms) = place;
        let mut place = Place { position, room, stored_ms, born_host: [0; 8] };
        let (mut last_id, window, most) = bounds;
        guarded(|| {
            self.clear();
            let (mut end, mut data_bytes, mut client) = (at, 0, NONE);
            while self.found.sends < most {
                let Some(call) = call_at(data, end) else { break };
                if call.stream_id & 1 == 0
                    || call.stream_id <= last_id
                    || (data_bytes + call.data_bytes) as i64 > window
                {
                    break;
                }
                let queue = turn + self.found.sends as u64;
                if !self.take_call(&mut lane, &call, &mut client, queue, now_ms, &mut place) {
                    break;
                }
                (end, last_id) = (call.end, call.stream_id);
                data_bytes += call.data_bytes;
            }
            let taken = (self.found.sends > 0).then(|| self.hand_over(py, end));
            Ok(taken.map(|taken| (client, end, last_id, data_bytes, taken)))
        })
    }

    /// The records that the last `take` found are staged: stage their entries. Says which queues these are.
    fn stage_entries<'py>(
        &mut self,
        py: Python<'py>,
        mut line: PyRefMut<'py, QueueLine>,
    ) -> PyResult<Bound<'py, PyList>> {
        let topics = &self.topics;
        let tails = self.found.touched.iter().map(|touched| tail_of(topics, touched));
        let tails = PyList::new(py, tails)?; // nothing behind it can fail
        guarded(|| {
            let found = &mut self.found;
            for (entry, &number) in found.entries.chunks_exact(ENTRY_BYTES).zip(&found.entry_queues) {
                let tail = tail_of(&self.topics, &found.touched[number]);
                tail.get().put(entry);
                line.note(py, tail);
            }
            for touched in &found.touched {
                let tally = &mut self.topics[touched.topic].tally;
                if tally.sends == 0 {
                    self.counted.push(touched.topic);
                }
                tally.sends += touched.tally.sends;
                tally.messages += touched.tally.messages;
                tally.record_bytes += touched.tally.record_bytes;
            }
            self.clear();
            Ok(tails)
        })
    }
}

impl SendLane {
    /// Forget what the last call found.
    fn clear(&mut self) {
        let found = &mut self.found;
        for touched in found.touched.drain(..) {
            let topic = self.topics.get_mut(touched.topic);
            if let Some(queue) = topic.and_then(|topic| topic.queues.get_mut(touched.queue)?.as_mut()) {
                queue.touched_as = NONE;
            }
        }
        found.records.clear();
        found.keys.clear();
        found.responses.clear();
        found.entries.clear();
        found.entry_queues.clear();
        (found.response_count, found.sends, found.messages, found.body_bytes) = (0, 0, 0, 0);
    }

    fn hand_over<'py>(&self, py: Python<'py>, consumed: usize) -> Taken<'py> {
        let found = &self.found;
        (
            consumed,
            found.sends,
            found.messages,
            found.body_bytes,
            PyBytes::new(py, &found.records),
            PyBytes::new(py, &found.keys),
            PyBytes::new(py, &found.responses),
            found.response_count,
        )
    }

    /// How many bytes of the data are plain sends.
    fn take_plain<const SIGNED: bool>(&mut self, data: &[u8], mut place: Place, address: usize) -> usize {
        let mut at = 0;
        while let Some(frame) = frame_at(data, at, self.limits.frame_bytes) {
            let Some(header) = header::read::<SIGNED>(&data[frame.header]) else { break };
            let body = &data[frame.body.clone()];
            if SIGNED && !self.is_admitted(&header, body, address) {
                break;
            }
            if !self.take_send::<SIGNED>(&header, body, &mut place) {
                break;
            }
            at = frame.body.end;
        }
        at
    }

    /// False when it is not plain; then its block is left to Python, if it was decoded.
    fn take_call(
        &mut self,
        lane: &mut Http2Lane,
        call: &Call<'_>,
        client: &mut usize,
        queue: u64,
        now_ms: i64,
        place: &mut Place,
    ) -> bool {
        let mut text = std::mem::take(&mut self.text);
        let message = grpc_send::read(call.message, &self.reserved, &mut text);
        self.text = text;
        let Some(message) = message else { return false };
        let decoded = lane.decode_block(call.block);
        let found = decoded.as_ref().ok().and_then(|()| lane.client());
        let found = found.filter(|&(method, number)| method == Method::Send && (*client == NONE || *client == number));
        if let Some((_, number)) = found {
            let known = &lane.clients[number];
            place.born_host = known.born_host;
            if let Some((topic, queues)) = known.topic(&message) {
                let header = SendHeader {
                    code: SEND_CODE,
                    opaque: call.stream_id as i32,
                    topic,
                    queue_id: (queue % queues) as i32,
                    born_ms: message.born_ms.unwrap_or(now_ms),
                    ..SendHeader::default()
                };
                if self.take_send::<true>(&header, message.body, place) {
                    lane.taken(call.stream_id, Open::Send(message.id.into()));
                    *client = number;
                    return true;
                }
            }
        }
        lane.leave(decoded);
        false
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
    fn take_send<const SIGNED: bool>(&mut self, header: &SendHeader<'_>, body: &[u8], place: &mut Place) -> bool {
        if header.flag & RESPONSE != 0 || header.sys_flag & (TRANSACTION_MASK | ANY_V6 | INNER_BATCH) != 0 {
            return false;
        }
        let Some(&topic_index) = self.by_name.get(header.topic) else { return false };
        let topic = &mut self.topics[topic_index];
        if header.queue_id < 0 || header.queue_id >= topic.write_queues {
            return false;
        }
        let queue_index = header.queue_id as usize;
        let Some(Some(queue)) = topic.queues.get_mut(queue_index) else { return false };
        if !SIGNED {
            self.text.clear();
            if unescape(header.properties, &mut self.text).is_none() {
                return false;
            }
        }
        let Some(facts) = properties::look(&self.text) else { return false };
        if (self.waits_for_disk && !facts.waits) || !facts.unique_key.iter().all(u8::is_ascii_alphanumeric) {
            return false;
        }
        let mut next_offset = 0; // of a queue that is not touched yet
        if queue.touched_as == NONE {
            next_offset = queue.tail.get().next_offset();
            if next_offset == 0 {
                return false; // its first message, or the queue of a topic that is gone
            }
        }
        self.field.set(header.topic);
        let shared = Shared {
            topic: &self.field,
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
        let Some(total) = total else { return false };
        if total as i64 + BLANK_BYTES > place.room {
            return false; // the next segment is Python's
        }
        if queue.touched_as == NONE {
            queue.touched_as = self.found.touched.len();
            let (topic, queue) = (topic_index, queue_index);
            self.found.touched.push(Touched { topic, queue, next_offset, tally: Tally::default() });
        }
        let touched_as = queue.touched_as;
        let first_offset = self.found.touched[touched_as].next_offset;
        let mut putting = Putting { found: &mut self.found, touched_as, shared: &shared, key_hash: topic.key_hash };
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
        self.found.touched[touched_as].tally.sends += 1;
        self.found.sends += 1;
        self.found.body_bytes += body.len();
        if is_answered {
            end_response(&mut self.found, &self.response, header, first_offset, facts.unique_key);
        }
        true
    }
}

fn tail_of<'a>(topics: &'a [Topic], touched: &Touched) -> &'a Py<QueueTail> {
    &topics[touched.topic].queues[touched.queue].as_ref().expect("it was touched").tail
}

/// Messages of one request on their way into what the call has found.
struct Putting<'a> {
    found: &'a mut Found,
    touched_as: usize,
    shared: &'a Shared<'a>,
    key_hash: u32,
}

impl Putting<'_> {
    #[inline]
    fn put(&mut self, own: &Own<'_>, facts: &Facts<'_>, place: &mut Place) {
        let size = own.record_bytes(self.shared.topic);
        let found = &mut *self.found;
        let touched = &mut found.touched[self.touched_as];
        put_record(&mut found.records, self.shared, own, touched.next_offset, place.position, size);
        put_entry(&mut found.entries, place.position, size, java_hash::of_tag(facts.tag));
        found.entry_queues.push(self.touched_as);
        for key in properties::keys(facts) {
            let hash = java_hash::for_index(java_hash::extend(self.key_hash, key));
            put_key(&mut found.keys, hash, place.position, place.stored_ms);
        }
        touched.next_offset += 1;
        touched.tally.messages += 1;
        touched.tally.record_bytes += size as u64;
        found.messages += 1;
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
