//! Pulls: which stored bytes a response has, from the entries of a queue.

use crate::records::ENTRY_BYTES;
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

const FILLER_SIZE: i32 = 0x7FFF_FFFF;

/// Where the log begins, from where on its records were verified, from where on they count as in memory.
type Bounds = (i64, i64, i64);
/// How many messages and bytes a read may have, and how many when the next has to come from disk.
type Limits = (usize, i64, usize, i64);
/// Runs [start, end), how many messages and bytes these are, the next offset, how many entries have no record any more.
type Scanned = (Vec<(i64, i64)>, usize, i64, i64, usize);

/// None when a record has to be verified first: that is Python's.
#[pyfunction]
pub fn scan_entries(
    entries: &[u8],
    offset: i64,
    bounds: Bounds,
    limits: Limits,
    tags: Option<Vec<i64>>,
) -> Option<Scanned> {
    let (log_first, trusted_from, hot_from) = bounds;
    let (count_max, bytes_max, cold_count_max, cold_bytes_max) = limits;
    let mut runs: Vec<(i64, i64)> = Vec::new();
    let (mut count, mut size_bytes, mut removed, mut next) = (0, 0i64, 0, offset);
    for entry in entries.chunks_exact(ENTRY_BYTES) {
        let position = i64::from_be_bytes(entry[..8].try_into().expect("8 bytes"));
        let size = i32::from_be_bytes(entry[8..12].try_into().expect("4 bytes"));
        if let Some(tags) = &tags {
            if !tags.contains(&i64::from_be_bytes(entry[12..].try_into().expect("8 bytes"))) {
                next += 1;
                continue;
            }
        }
        if size == FILLER_SIZE || position < log_first {
            next += 1;
            removed += 1;
            continue;
        }
        if count > 0 {
            let is_cold = position < hot_from;
            let (most, bytes) = if is_cold { (cold_count_max, cold_bytes_max) } else { (count_max, bytes_max) };
            if count >= most || size_bytes.saturating_add(i64::from(size)) > bytes {
                break;
            }
        }
        if position < trusted_from {
            return None;
        }
        next += 1;
        let end = position.saturating_add(i64::from(size));
        match runs.last_mut() {
            Some(run) if run.1 == position => run.1 = end,
            _ => runs.push((position, end)),
        }
        count += 1;
        size_bytes += i64::from(size);
    }
    Some((runs, count, size_bytes, next, removed))
}

/// The runs of one segment that begins at `base` of the log, in one piece; None if one lies outside of `segment`.
#[pyfunction]
pub fn join_runs<'py>(
    py: Python<'py>,
    segment: PyBuffer<u8>,
    base: i64,
    runs: Vec<(i64, i64)>,
) -> PyResult<Option<Bound<'py, PyBytes>>> {
    if !segment.is_c_contiguous() {
        return Err(PyValueError::new_err("a segment is one piece"));
    }
    let end = base + segment.item_count() as i64;
    if runs.iter().any(|&(start, stop)| start < base || stop > end || start > stop) {
        return Ok(None);
    }
    // SAFETY: the buffer is contiguous and alive until this function returns; what is in a segment before the end of the
    // log, and runs lie there, is never written again.
    let stored = unsafe { std::slice::from_raw_parts(segment.buf_ptr() as *const u8, segment.item_count()) };
    let size = runs.iter().map(|run| (run.1 - run.0) as usize).sum();
    let joined = PyBytes::new_with(py, size, |into| {
        let mut at = 0;
        for &(start, stop) in &runs {
            let run = &stored[(start - base) as usize..(stop - base) as usize];
            into[at..at + run.len()].copy_from_slice(run);
            at += run.len();
        }
        Ok(())
    })?;
    Ok(Some(joined))
}
