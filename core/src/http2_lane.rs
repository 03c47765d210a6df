//! Calls of one HTTP/2 connection: its header tables, and the calls that a lane has taken and nobody has answered.
//!
//! `net/http2/connection.py` has the rules of HTTP/2, and is the reference. Taken are calls that are whole in what was
//! read: HEADERS, then DATA, of a stream that begins with them. A block that was decoded and turned out to be Python's is
//! kept until Python asks for it, since it can be decoded once only.

use crate::client::sent_at;
use crate::frame::FRAME_BYTES_MAX;
use crate::grpc_send;
use crate::guard::guarded;
use crate::hpack::{Damage, Fields, Tables};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};
use std::collections::HashMap;

const HEAD_BYTES: usize = 9;
pub const FRAME_MAX: usize = 16_384;
pub const PREFIX_BYTES: usize = 5; // of a gRPC message
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const CLAIMS_MAX: usize = 4;
const TOPICS_MAX: usize = 1_000;
const PAIRS_MAX: usize = 64;
const CONNECTION_SPECIFIC: [&[u8]; 5] =
    [b"connection", b"proxy-connection", b"keep-alive", b"transfer-encoding", b"upgrade"];

/// What a call says of its sender: the value of `authorization`, and the time that it signs.
type Claim = (Vec<u8>, Vec<u8>);
/// Namespace and name.
type Resource = (Vec<u8>, Vec<u8>);
/// A topic as the broker knows it, and how many queues it has.
type Topic = (Vec<u8>, u64);

/// Which method a call is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    Send,
    Ack,
    Receive,
}

const METHODS: [Method; 3] = [Method::Send, Method::Ack, Method::Receive];

/// What is known of a call without answer.
pub enum Open {
    /// The id of the message.
    Send(Box<[u8]>),
    /// The request, and the response that says that all is well.
    Acks(Box<[u8]>, Box<[u8]>),
}

/// A client whose calls Python has served before.
pub struct Client {
    id: Vec<u8>,
    pub pairs: Vec<(Vec<u8>, Vec<u8>)>, // groups and topics, encoded, of which it has acknowledged messages
    namespace: Vec<u8>,
    claims: Option<Vec<Claim>>, // that were verified; None: nobody asks for them
    topics: HashMap<Resource, Topic>,
    pub born_host: [u8; 8],
}

impl Client {
    /// Topic and number of queues.
    pub fn topic(&self, message: &grpc_send::Message<'_>) -> Option<&(Vec<u8>, u64)> {
        let namespace = if message.namespace.is_empty() { &self.namespace[..] } else { message.namespace };
        // one look without a copy would need a map of its own for each namespace
        self.topics.get(&(namespace.to_vec(), message.name.to_vec()))
    }
}

/// A call that is whole: where its parts lie in the data.
pub struct Call<'a> {
    pub stream_id: u32,
    pub block: &'a [u8],
    pub message: &'a [u8],
    pub data_bytes: usize, // as flow control counts them
    pub end: usize,
}

#[pyclass]
pub struct Http2Lane {
    paths: [Vec<u8>; 3], // as in METHODS
    head: Vec<u8>,       // of every response
    trailers: Vec<u8>,   // likewise
    pub status: Vec<u8>, // of success
    pub broker: Vec<u8>,
    tables: Tables,
    pub fields: Fields,
    ahead: Option<Result<(), Damage>>, // `fields` is what Python will ask for, or the lane that looks next
    open: HashMap<u32, Open>,          // by streams
    pub clients: Vec<Client>,
}

#[pymethods]
impl Http2Lane {
    /// `paths`: of SendMessage, AckMessage and ReceiveMessage. `texts`: header list and trailers of a response and the status
    /// of success, encoded, and the name of the broker.
    #[new]
    fn new(list_bytes_max: usize, paths: [Vec<u8>; 3], texts: [Vec<u8>; 4]) -> Self {
        let [head, trailers, status, broker] = texts;
        Http2Lane {
            paths,
            head,
            trailers,
            status,
            broker,
            tables: Tables::new(list_bytes_max),
            fields: Fields::default(),
            ahead: None,
            open: HashMap::new(),
            clients: Vec::new(),
        }
    }

    /// Names and values of a block; or why it cannot be decoded, and whether that is its size.
    fn decode<'py>(&mut self, py: Python<'py>, block: &[u8]) -> PyResult<(Option<Bound<'py, PyList>>, String, bool)> {
        guarded(|| {
            let decoded = self.decode_block(block);
            if let Err(damage) = decoded {
                return Ok((None, damage.text(), matches!(damage, Damage::ListBytes(_))));
            }
            let pairs = self.fields.iter().map(|(name, value)| (PyBytes::new(py, name), PyBytes::new(py, value)));
            Ok((Some(PyList::new(py, pairs.collect::<Vec<_>>())?), String::new(), false))
        })
    }

    /// Bytes of the last header list.
    #[getter]
    fn list_bytes(&self) -> usize {
        self.tables.list_bytes
    }

    /// How many calls have no answer yet.
    fn __len__(&self) -> usize {
        self.open.len()
    }

    /// Streams of calls without answer.
    fn streams(&self) -> Vec<u32> {
        self.open.keys().copied().collect()
    }

    /// The stream is Python's from here on: the id of its message, or the request to acknowledge; None if it is none of the
    /// lane's.
    fn close<'py>(&mut self, py: Python<'py>, stream_id: u32) -> Option<Bound<'py, PyBytes>> {
        self.open.remove(&stream_id).map(|open| match open {
            Open::Send(known) | Open::Acks(known, _) => PyBytes::new(py, &known),
        })
    }

    /// Python has stored a plain send of this client to this topic, or acknowledged for it what is of a group and a topic
    /// (`pair`, both encoded). `claim` is what was verified; None: nothing is. Returns the numbers of client and pair.
    fn admit(
        &mut self,
        client_id: &[u8],
        namespace: &[u8],
        born_host: [u8; 8],
        claim: Option<(Vec<u8>, Vec<u8>)>,
        topic: Option<(Resource, Topic)>,
        pair: Option<(Vec<u8>, Vec<u8>)>,
    ) -> (usize, usize) {
        let number = self.clients.iter().position(|client| client.id == client_id).unwrap_or_else(|| {
            self.clients.push(Client {
                id: client_id.to_vec(),
                namespace: namespace.to_vec(),
                claims: claim.as_ref().map(|_| Vec::new()),
                topics: HashMap::new(),
                pairs: Vec::new(),
                born_host,
            });
            self.clients.len() - 1
        });
        let client = &mut self.clients[number];
        if let (Some(claims), Some(claim)) = (&mut client.claims, claim) {
            if !claims.contains(&claim) {
                claims.truncate(CLAIMS_MAX - 1);
                claims.insert(0, claim);
            }
        }
        if let Some((resource, topic)) = topic {
            if client.topics.len() >= TOPICS_MAX {
                client.topics.clear();
            }
            client.topics.insert(resource, topic);
        }
        let pairs = &mut client.pairs;
        let known = pairs.iter().position(|each| pair.as_ref().is_none_or(|pair| each == pair)).unwrap_or(pairs.len());
        if let Some(pair) = pair.filter(|_| known == pairs.len() && known < PAIRS_MAX) {
            pairs.push(pair);
        }
        (number, known)
    }

    /// Something has changed: nobody counts as known.
    fn forget(&mut self) {
        self.clients.clear();
    }

    /// Responses to these sends, if all of them were stored and windows have room: the bytes, how many of them are DATA, and
    /// how many responses there are. None: nothing has changed.
    fn responses<'py>(
        &mut self,
        py: Python<'py>,
        data: &[u8],
        window: i64,
        stream_window: i64,
    ) -> PyResult<Option<(Bound<'py, PyBytes>, i64, usize)>> {
        guarded(|| {
            let (mut out, mut body) = (Vec::with_capacity(data.len()), Vec::new());
            let (mut at, mut data_bytes, mut answered) = (0, 0, Vec::new());
            while at < data.len() {
                let Some((sent, size)) = sent_at(&data[at..], FRAME_BYTES_MAX) else { return Ok(None) };
                at += size;
                let stream_id = sent.correlation_id as u32;
                let Some(Open::Send(id)) = self.open.get(&stream_id) else { continue };
                body.clear();
                grpc_send::put_response(&mut body, &self.status, id, sent.offset as u64);
                let size = (body.len() + PREFIX_BYTES) as i64;
                data_bytes += size;
                if size > stream_window || data_bytes > window || size > FRAME_MAX as i64 {
                    return Ok(None);
                }
                self.put_response(&mut out, stream_id, &body);
                answered.push(stream_id);
            }
            for stream_id in &answered {
                self.open.remove(stream_id);
            }
            Ok(Some((PyBytes::new(py, &out), data_bytes, answered.len())))
        })
    }

    /// Responses to these acknowledgements, all of which are safe, if windows have room; as `responses` returns them.
    fn ack_responses<'py>(
        &mut self,
        py: Python<'py>,
        streams: Vec<u32>,
        window: i64,
        stream_window: i64,
    ) -> PyResult<Option<(Bound<'py, PyBytes>, i64, usize)>> {
        guarded(|| {
            let (mut out, mut data_bytes, mut answered) = (Vec::new(), 0, Vec::new());
            for stream_id in streams {
                let Some(Open::Acks(_, response)) = self.open.get(&stream_id) else { continue };
                let size = (response.len() + PREFIX_BYTES) as i64;
                data_bytes += size;
                if size > stream_window || data_bytes > window || size > FRAME_MAX as i64 {
                    return Ok(None);
                }
                self.put_response(&mut out, stream_id, response);
                answered.push(stream_id);
            }
            for stream_id in &answered {
                self.open.remove(stream_id);
            }
            Ok(Some((PyBytes::new(py, &out), data_bytes, answered.len())))
        })
    }
}

impl Http2Lane {
    fn put_response(&self, out: &mut Vec<u8>, stream_id: u32, message: &[u8]) {
        put_head(out, HEADERS, END_HEADERS, stream_id, self.head.len());
        out.extend_from_slice(&self.head);
        put_head(out, DATA, 0, stream_id, message.len() + PREFIX_BYTES);
        out.push(0);
        out.extend_from_slice(&(message.len() as u32).to_be_bytes());
        out.extend_from_slice(message);
        put_head(out, HEADERS, END_HEADERS | END_STREAM, stream_id, self.trailers.len());
        out.extend_from_slice(&self.trailers);
    }

    /// Leave the block that was decoded last to whoever looks at its call next: another lane, or Python.
    pub fn leave(&mut self, decoded: Result<(), Damage>) {
        self.ahead = Some(decoded);
    }

    /// Fields of a block. One that was left is the first of what has not been taken, so it is this one.
    pub fn decode_block(&mut self, block: &[u8]) -> Result<(), Damage> {
        match self.ahead.take() {
            Some(decoded) => decoded,
            None => self.tables.decode(block, &mut self.fields),
        }
    }

    /// The call has been taken.
    pub fn taken(&mut self, stream_id: u32, open: Open) {
        self.open.insert(stream_id, open);
    }

    /// Which method the fields are of, and whose call, if the client is known.
    pub fn client(&self) -> Option<(Method, usize)> {
        let mut wanted = None;
        let (mut method, mut scheme, mut path) = (false, false, false);
        let (mut authority, mut has_fields, mut is_grpc) = (false, false, false);
        let (mut id, mut signed, mut date) = (None, None, None);
        for (name, value) in self.fields.iter() {
            if name.first() == Some(&b':') {
                let (seen, fits) = match name {
                    b":method" => (&mut method, !value.is_empty()),
                    b":scheme" => (&mut scheme, !value.is_empty()),
                    b":path" => {
                        wanted = self.paths.iter().position(|path| path == value);
                        (&mut path, wanted.is_some())
                    }
                    b":authority" => (&mut authority, true),
                    _ => return None,
                };
                if has_fields || !fits || std::mem::replace(seen, true) {
                    return None;
                }
                continue;
            }
            has_fields = true;
            match name {
                b"" | b"content-length" => return None,
                b"te" if value != b"trailers" => return None,
                b"content-type" => {
                    if !value.starts_with(b"application/grpc") || std::mem::replace(&mut is_grpc, true) {
                        return None;
                    }
                }
                b"x-mq-client-id" => id = first(id, value)?,
                b"authorization" => signed = first(signed, value)?,
                b"x-mq-date-time" => date = first(date, value)?,
                _ => {
                    if name.iter().any(u8::is_ascii_uppercase) || CONNECTION_SPECIFIC.contains(&name) {
                        return None;
                    }
                }
            }
        }
        if !(method && scheme && path && is_grpc) {
            return None;
        }
        let number = self.clients.iter().position(|client| Some(&client.id[..]) == id)?;
        if let Some(claims) = &self.clients[number].claims {
            let (signed, date) = (signed.unwrap_or(b""), date.unwrap_or(b""));
            claims.iter().find(|claim| claim.0 == signed && claim.1 == date)?;
        }
        Some((METHODS[wanted?], number))
    }

    /// The value of a field, empty if there is none; None if it is there twice.
    pub fn field(&self, name: &[u8]) -> Option<&[u8]> {
        let mut found = self.fields.iter().filter(|(each, _)| *each == name).map(|(_, value)| value);
        let value = found.next().unwrap_or(b"");
        found.next().is_none().then_some(value)
    }
}

/// A field that may be there once.
#[inline]
fn first<'a>(known: Option<&'a [u8]>, value: &'a [u8]) -> Option<Option<&'a [u8]>> {
    known.is_none().then_some(Some(value))
}

fn put_head(into: &mut Vec<u8>, kind: u8, flags: u8, stream_id: u32, size: usize) {
    into.extend_from_slice(&(size as u32).to_be_bytes()[1..]);
    into.extend_from_slice(&[kind, flags]);
    into.extend_from_slice(&stream_id.to_be_bytes());
}

/// The frame that begins there: type, flags, stream, payload; None unless it is whole.
#[inline]
fn frame_of(data: &[u8], at: usize) -> Option<(u8, u8, u32, &[u8])> {
    let head: &[u8; HEAD_BYTES] = data.get(at..)?.first_chunk()?;
    let size = usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2]);
    let stream_id = u32::from_be_bytes([head[5] & 0x7F, head[6], head[7], head[8]]);
    let start = at + HEAD_BYTES;
    (size <= FRAME_MAX).then_some((head[3], head[4], stream_id, data.get(start..start + size)?))
}

/// The call that begins there, if it is whole: HEADERS, and one message in DATA that ends the stream, perhaps by an empty
/// frame behind it.
#[inline]
pub fn call_at(data: &[u8], at: usize) -> Option<Call<'_>> {
    let (HEADERS, END_HEADERS, stream_id, block) = frame_of(data, at)? else { return None };
    let at = at + HEAD_BYTES + block.len();
    let (DATA, flags, same_id, payload) = frame_of(data, at)? else { return None };
    let mut end = at + HEAD_BYTES + payload.len();
    if same_id != stream_id || flags & !END_STREAM != 0 {
        return None;
    }
    if flags != END_STREAM {
        let (DATA, END_STREAM, last_id, &[]) = frame_of(data, end)? else { return None };
        if last_id != stream_id {
            return None;
        }
        end += HEAD_BYTES;
    }
    let (&[0, a, b, c, d], message) = payload.split_first_chunk::<PREFIX_BYTES>()? else { return None };
    if u32::from_be_bytes([a, b, c, d]) as usize != message.len() {
        return None;
    }
    Some(Call { stream_id, block, message, data_bytes: payload.len(), end })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_found_and_every_cut_is_not() {
        let mut data = Vec::new();
        put_head(&mut data, HEADERS, END_HEADERS, 5, 2);
        data.extend_from_slice(b"hh");
        put_head(&mut data, DATA, 0, 5, 8);
        data.extend_from_slice(b"\0\0\0\0\x03abc");
        put_head(&mut data, DATA, END_STREAM, 5, 0);
        let call = call_at(&data, 0).unwrap();
        assert_eq!((call.stream_id, call.block, call.message), (5, &b"hh"[..], &b"abc"[..]));
        assert_eq!((call.data_bytes, call.end), (8, data.len()));
        for end in 0..data.len() {
            assert!(call_at(&data[..end], 0).is_none());
        }
    }
}
