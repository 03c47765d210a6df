//! Pulls: which stored bytes a response has, from the entries of a queue.

use crate::guard::guarded;
use crate::records::ENTRY_BYTES;
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

pub(crate) const FILLER_SIZE: i32 = 0x7FFF_FFFF;

/// Runs that are smaller on average are copied together.
pub(crate) const SCATTERED_BYTES: i64 = 8_192;

/// Where the log begins, from where on its records were verified, from where on they count as in memory.
pub(crate) type Bounds = (i64, i64, i64);
/// How many messages and bytes a read may have, and how many when the next has to come from disk.
pub(crate) type Limits = (usize, i64, usize, i64);
/// Runs [start, end), or their bytes in one piece; how many messages and bytes these are, where the last ends, the next
/// offset, how many entries have no record any more.
type Pulled<'py> = (Vec<(i64, i64)>, Option<Bound<'py, PyBytes>>, usize, i64, i64, i64, usize);

pub(crate) struct Scanned {
    pub(crate) runs: Vec<(i64, i64)>,
    pub(crate) count: usize,
    pub(crate) size_bytes: i64,
    pub(crate) next_offset: i64,
    pub(crate) removed: usize,
}

/// What a pull from `offset` on finds, given the entries from there on and the segment of the first one's record, which
/// begins at `base` of the log and is written up to `log_end`. Many short runs of that segment come in one piece.
///
/// None when a record has to be verified first: that is Python's. Raises RuntimeError for a defect.
#[pyfunction]
#[allow(clippy::too_many_arguments)]
pub fn pull_entries<'py>(
    py: Python<'py>,
    entries: &[u8],
    offset: i64,
    bounds: Bounds,
    limits: Limits,
    tags: Option<Vec<i64>>,
    segment: PyBuffer<u8>,
    base: i64,
    log_end: i64,
) -> PyResult<Option<Pulled<'py>>> {
    guarded(|| {
        let Some(found) = scan(entries, offset, bounds, limits, tags.as_deref()) else { return Ok(None) };
        let Scanned { mut runs, count, size_bytes, next_offset, removed } = found;
        let end = runs.last().map_or(0, |run| run.1);
        let mut joined = None;
        if runs.len() > 1 && size_bytes < SCATTERED_BYTES * runs.len() as i64 {
            joined = Segment::new(base, segment)?.joined(py, b"", &runs, log_end)?;
            if joined.is_some() {
                runs.clear();
            }
        }
        Ok(Some((runs, joined, count, size_bytes, end, next_offset, removed)))
    })
}

/// None when a record has to be verified first, or entries do not go forward in the log.
pub(crate) fn scan(
    entries: &[u8],
    offset: i64,
    bounds: Bounds,
    limits: Limits,
    tags: Option<&[i64]>,
) -> Option<Scanned> {
    let (log_first, trusted_from, hot_from) = bounds;
    let (count_max, bytes_max, cold_count_max, cold_bytes_max) = limits;
    let mut found = Scanned { runs: Vec::new(), count: 0, size_bytes: 0, next_offset: offset, removed: 0 };
    for entry in entries.chunks_exact(ENTRY_BYTES) {
        let position = i64::from_be_bytes(entry[..8].try_into().expect("8 bytes"));
        let size = i32::from_be_bytes(entry[8..12].try_into().expect("4 bytes"));
        if let Some(tags) = tags {
            if !tags.contains(&i64::from_be_bytes(entry[12..].try_into().expect("8 bytes"))) {
                found.next_offset += 1;
                continue;
            }
        }
        if size == FILLER_SIZE || position < log_first {
            found.next_offset += 1;
            found.removed += 1;
            continue;
        }
        if found.count > 0 {
            let is_cold = position < hot_from;
            let (most, bytes) = if is_cold { (cold_count_max, cold_bytes_max) } else { (count_max, bytes_max) };
            if found.count >= most || found.size_bytes.saturating_add(i64::from(size)) > bytes {
                break;
            }
        }
        if position < trusted_from {
            return None;
        }
        found.next_offset += 1;
        let end = position.saturating_add(i64::from(size));
        match found.runs.last_mut() {
            Some(run) if run.1 == position => run.1 = end,
            Some(run) if run.1 > position => return None, // one of both points elsewhere: Python finds out which
            _ => found.runs.push((position, end)),
        }
        found.count += 1;
        found.size_bytes += i64::from(size);
    }
    Some(found)
}

/// A segment of the log, as it is mapped.
pub(crate) struct Segment {
    base: i64,
    mapped: PyBuffer<u8>,
}

impl Segment {
    /// `base`: where it begins in the log.
    pub(crate) fn new(base: i64, mapped: PyBuffer<u8>) -> PyResult<Self> {
        if !mapped.is_c_contiguous() {
            return Err(PyValueError::new_err("a segment is one piece"));
        }
        Ok(Segment { base, mapped })
    }

    pub(crate) fn holds(&self, position: i64) -> bool {
        self.base <= position && position - self.base < self.mapped.item_count() as i64
    }

    /// The head and the runs behind it in one piece; None if a run does not lie in the written part of the segment.
    pub(crate) fn joined<'py>(
        &self,
        py: Python<'py>,
        head: &[u8],
        runs: &[(i64, i64)],
        log_end: i64,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let end = log_end.min(self.base.saturating_add(self.mapped.item_count() as i64));
        if runs.iter().any(|&(start, stop)| start < self.base || stop > end || start > stop) {
            return Ok(None);
        }
        // SAFETY: the buffer is contiguous and alive as long as this object; what is in a segment before the end of the
        // log, where runs lie, is never written again.
        let stored =
            unsafe { std::slice::from_raw_parts(self.mapped.buf_ptr() as *const u8, self.mapped.item_count()) };
        let run = |&(start, stop): &(i64, i64)| &stored[(start - self.base) as usize..(stop - self.base) as usize];
        let size = head.len() + runs.iter().map(|run| (run.1 - run.0) as usize).sum::<usize>();
        concatenated(py, size, std::iter::once(head).chain(runs.iter().map(run))).map(Some)
    }
}

/// The pieces, `size` bytes in all, one behind the other.
fn concatenated<'a, 'py>(
    py: Python<'py>,
    size: usize,
    pieces: impl Iterator<Item = &'a [u8]>,
) -> PyResult<Bound<'py, PyBytes>> {
    PyBytes::new_with(py, size, |mut into| {
        for piece in pieces {
            let (here, behind) = into.split_at_mut(piece.len());
            here.copy_from_slice(piece);
            into = behind;
        }
        Ok(())
    })
}
