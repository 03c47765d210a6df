//! AckMessage and ReceiveMessage of clients that are known, from the bytes of a read; `broker/grpc/call_lane.py` asks.
//!
//! Nothing is decided here: acknowledgements of one group and topic become one request of Python's, and a receive is passed
//! on as it is. What is left out is what HTTP/2 and protobuf cost in Python.

use crate::grpc_ack::{self, runs_of, Receipt, Run};
use crate::guard::guarded;
use crate::http2_lane::{call_at, Call, Http2Lane, Method, Open, FRAME_MAX, PREFIX_BYTES};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

const RECEIPTS_MAX: usize = 1_024; // of one request

/// Number of the group and topic, receipts in runs and perhaps as texts, and for each call its stream and how many of them are
/// its own.
type TakenAcks<'a> = (usize, Vec<Run>, Vec<&'a str>, Vec<(u32, usize)>);
/// Stream, timeout and request.
type TakenReceive<'py> = (u32, Bound<'py, PyBytes>, Bound<'py, PyBytes>);
/// Number of the client, where the rest begins, the last stream, bytes of DATA; and one of the two.
type Taken<'a, 'py> = (usize, usize, u32, usize, Option<TakenAcks<'a>>, Option<TakenReceive<'py>>);

/// Acknowledgements that were taken together.
#[derive(Default)]
struct Acks<'a> {
    owner: Option<(usize, usize)>, // numbers of client, and of group and topic
    receipts: Vec<(&'a str, Receipt)>,
    calls: Vec<(u32, usize)>,
}

enum Found {
    Acks,
    Receive(usize),
    Nothing,
}

/// Calls from there on: acknowledgements of one client, group and topic, or one receive. `bounds`: the last stream, bytes of
/// DATA that may come, calls that may begin. `with_texts`: receipts are wanted as texts, too. None: there are none, or they are
/// Python's.
#[pyfunction]
pub fn take_consuming<'a, 'py>(
    py: Python<'py>,
    mut lane: PyRefMut<'py, Http2Lane>,
    data: &'a [u8],
    at: usize,
    bounds: (u32, i64, usize),
    with_texts: bool,
) -> PyResult<Option<Taken<'a, 'py>>> {
    let (mut last_id, window, most) = bounds;
    guarded(|| {
        let (mut end, mut data_bytes, mut acks) = (at, 0, Acks::default());
        while acks.calls.len() < most {
            let Some(call) = call_at(data, end) else { break };
            let is_next = call.stream_id & 1 == 1 && call.stream_id > last_id;
            if !is_next || (data_bytes + call.data_bytes) as i64 > window {
                break;
            }
            match look(&mut lane, &call, &mut acks) {
                Found::Acks => {
                    (end, last_id) = (call.end, call.stream_id);
                    data_bytes += call.data_bytes;
                }
                Found::Receive(client) => {
                    let timeout = PyBytes::new(py, lane.field(b"grpc-timeout").unwrap_or(b""));
                    let receive = (call.stream_id, timeout, PyBytes::new(py, call.message));
                    return Ok(Some((client, call.end, call.stream_id, call.data_bytes, None, Some(receive))));
                }
                Found::Nothing => break,
            }
        }
        let Some((client, pair)) = acks.owner else { return Ok(None) };
        let texts = if with_texts { acks.receipts.iter().map(|(text, _)| *text).collect() } else { Vec::new() };
        let found = (pair, runs_of(acks.receipts.iter().map(|(_, receipt)| receipt)), texts, acks.calls);
        Ok(Some((client, end, last_id, data_bytes, Some(found), None)))
    })
}

/// Takes a call if it goes with those before it. The block of one that does not is left to whoever looks next.
fn look<'a>(lane: &mut Http2Lane, call: &Call<'a>, acks: &mut Acks<'a>) -> Found {
    let decoded = lane.decode_block(call.block);
    match decoded.as_ref().ok().and_then(|()| lane.client()) {
        Some((Method::Receive, client)) if acks.calls.is_empty() && lane.field(b"grpc-timeout").is_some() => {
            return Found::Receive(client);
        }
        Some((Method::Ack, client)) if take_acks(lane, client, call, acks).is_some() => return Found::Acks,
        _ => {}
    }
    lane.leave(decoded);
    Found::Nothing
}

fn take_acks<'a>(lane: &mut Http2Lane, client: usize, call: &Call<'a>, acks: &mut Acks<'a>) -> Option<()> {
    let mut response = Vec::with_capacity(call.message.len() + 64);
    let found = grpc_ack::read(call.message, &lane.broker, &lane.status, &mut response)?;
    let pairs = &lane.clients[client].pairs;
    let pair = pairs.iter().position(|(group, topic)| group == found.group && topic == found.topic)?;
    if acks.owner.is_some_and(|owner| owner != (client, pair))
        || acks.receipts.len() + found.receipts.len() > RECEIPTS_MAX
        || response.len() + PREFIX_BYTES > FRAME_MAX
    {
        return None;
    }
    acks.owner = Some((client, pair));
    acks.calls.push((call.stream_id, found.receipts.len()));
    acks.receipts.extend(found.receipts);
    lane.taken(call.stream_id, Open::Acks(call.message.into(), response.into()));
    Some(())
}
