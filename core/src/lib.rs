//! The compiled core of PyroMQ: what its Python functions do, byte for byte, for many messages in one call.
//!
//! Python is the reference. What is taken here is what Python would do the same way; whatever is out of the ordinary
//! is left to it (`None`), and no function here explains or refuses anything. A call gets what it needs to know, and returns
//! what is to be staged. The one thing of a store that is held here are queue entries on their way into files
//! (`queue_tail`), which Python sees and moves through methods. Python writes all files.

pub mod arrow;
pub mod batch;
pub mod client;
pub mod command;
pub mod consuming_lane;
pub mod copied;
pub mod deliveries;
pub mod frame;
pub mod grpc_ack;
pub mod grpc_send;
pub mod guard;
pub mod header;
pub mod hpack;
pub mod http2_lane;
pub mod index;
pub mod java_hash;
pub mod json;
pub mod layout;
pub mod md5;
pub mod pop_ack;
pub mod pop_batch_ack;
pub mod pop_lane;
pub mod properties;
pub mod protobuf;
pub mod pull_header;
pub mod pull_lane;
pub mod pulls;
pub mod queue_reads;
pub mod queue_tail;
pub mod records;
pub mod send_lane;
pub mod signature;

use pyo3::prelude::*;

/// Which functions there are and what they mean: moves whenever one of them changes. Python wants the one it knows.
pub const INTERFACE: u32 = 10;

#[pymodule]
fn pyromq_core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("INTERFACE", INTERFACE)?;
    module.add("VERSION", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<deliveries::Deliveries>()?;
    module.add_class::<http2_lane::Http2Lane>()?;
    module.add_class::<pop_lane::PopLane>()?;
    module.add_class::<pull_lane::PullLane>()?;
    module.add_class::<client::RecordValues>()?;
    module.add_class::<client::SendFrame>()?;
    module.add_class::<queue_tail::QueueLine>()?;
    module.add_class::<queue_tail::QueueTail>()?;
    module.add_class::<send_lane::SendLane>()?;
    module.add_class::<signature::SigningKeys>()?;
    module.add_function(wrap_pyfunction!(consuming_lane::take_consuming, module)?)?;
    module.add_function(wrap_pyfunction!(copied::copied_records, module)?)?;
    module.add_function(wrap_pyfunction!(arrow::arrow_columns, module)?)?;
    module.add_function(wrap_pyfunction!(client::sent_responses, module)?)?;
    module.add_function(wrap_pyfunction!(client::split_records, module)?)?;
    module.add_function(wrap_pyfunction!(grpc_ack::read_acks, module)?)?;
    module.add_function(wrap_pyfunction!(index::index_entries, module)?)?;
    module.add_function(wrap_pyfunction!(index::scatter_words, module)?)?;
    module.add_function(wrap_pyfunction!(pop_ack::take_pop_acks, module)?)?;
    module.add_function(wrap_pyfunction!(pop_batch_ack::take_batch_ack, module)?)?;
    module.add_function(wrap_pyfunction!(pulls::pull_entries, module)?)?;
    Ok(())
}
