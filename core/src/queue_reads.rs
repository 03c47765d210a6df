//! Reads of queues as Python's `QueueReader.read` does them, as long as they find messages that need not be verified; for the
//! lanes of pulls and pops.

use crate::pulls::{scan, Bounds, Limits, Scanned, Segment, FILLER_SIZE};
use crate::records::ENTRY_BYTES;
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// What is not on disk yet is among so many newest entries; else Python looks for it.
const NEWEST_ENTRIES: i64 = 64;

/// Where the log begins, from where on its records were verified, from where on they count as in memory; where what
/// consumers see ends, and where the log does.
pub(crate) type Log = (i64, i64, i64, i64, i64);

/// Messages and bytes of a read, of one from disk, entries that a filter looks at, and the bytes that every record has.
pub(crate) type ReadNumbers = (i64, i64, i64, i64, i64, i64);

/// How much a read may have.
pub(crate) struct ReadLimits {
    count: i64,
    bytes: i64,
    cold_count: i64,
    cold_bytes: i64,
    scanned_entries: i64,
    record_bytes_min: i64,
}

impl ReadLimits {
    /// Of one read, as Python's `ReadLimits` has them; None for a limit of bytes that means nothing.
    pub(crate) fn of(&self, count_max: i32, bytes_max: Option<i32>) -> Option<Limits> {
        let bytes = match bytes_max {
            None => self.bytes,
            Some(bytes) if bytes > 0 => self.bytes.min(i64::from(bytes)),
            _ => return None,
        };
        let (mut count, mut cold_count) = (self.count, self.cold_count);
        if bytes_max.is_some() {
            count = count.max(bytes / self.record_bytes_min);
            cold_count = count;
        }
        let count = i64::from(count_max).min(count).max(1);
        Some((count as usize, bytes, count.min(cold_count) as usize, bytes.min(self.cold_bytes)))
    }
}

/// What a read found, and where the queue begins and ends for consumers.
pub(crate) struct Found {
    pub(crate) scanned: Scanned,
    pub(crate) first: i64,
    pub(crate) end: i64,
}

pub(crate) struct QueueReads {
    segments: Py<PyAny>, // of the log
    records: Py<PyAny>,  // the reader of the log
    pub(crate) limits: ReadLimits,
}

impl QueueReads {
    /// `segments` and reader of the log.
    pub(crate) fn new(segments: Py<PyAny>, records: Py<PyAny>, limits: ReadNumbers) -> PyResult<Self> {
        let (count, bytes, cold_count, cold_bytes, scanned_entries, record_bytes_min) = limits;
        if record_bytes_min < 1 {
            return Err(PyValueError::new_err("a record has at least one byte"));
        }
        let limits = ReadLimits { count, bytes, cold_count, cold_bytes, scanned_entries, record_bytes_min };
        Ok(QueueReads { segments, records, limits })
    }

    /// What a read of a ConsumeQueue from `offset` on finds; None when it finds nothing, or is not plain.
    pub(crate) fn find(
        &self,
        queue: &Bound<'_, PyAny>,
        offset: i64,
        limits: Limits,
        tags: Option<&[i64]>,
        log: Log,
    ) -> PyResult<Option<Found>> {
        let (log_first, trusted_from, hot_from, visible_end, log_end) = log;
        let py = queue.py();
        let number = |name| -> PyResult<i64> { queue.getattr(name)?.extract() };
        if number(intern!(py, "owed_bytes"))? != 0 {
            return Ok(None);
        }
        let (first, written_end) = (number(intern!(py, "first"))?, number(intern!(py, "end"))?);
        let end = if visible_end >= log_end {
            written_end
        } else {
            match visible_entries(queue, first, written_end, visible_end)? {
                None => return Ok(None),
                Some(end) => end,
            }
        };
        if end == 0 || offset < first || offset >= end {
            return Ok(None);
        }
        let entries = if tags.is_some() { self.limits.scanned_entries } else { limits.0 as i64 };
        let entries = entries_of(queue, offset, entries.min(end - offset))?;
        let bounds: Bounds = (log_first, trusted_from, hot_from);
        // what ends behind the log points elsewhere: Python finds out where it should
        let is_plain = |found: &Scanned| found.runs.last().is_some_and(|run| run.1 <= log_end);
        let scanned = scan(entries.as_bytes(), offset, bounds, limits, tags).filter(is_plain);
        Ok(scanned.map(|scanned| Found { scanned, first, end }))
    }

    /// The head and the runs behind it in one piece; None if a run does not lie in the written part of a segment. `segment` is
    /// the one that the last read of this call found records in.
    pub(crate) fn joined<'py>(
        &self,
        py: Python<'py>,
        head: &[u8],
        runs: &[(i64, i64)],
        log_end: i64,
        segment: &mut Option<Segment>,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let Some(&(first, _)) = runs.first() else { return Ok(None) };
        if !segment.as_ref().is_some_and(|segment| segment.holds(first)) {
            *segment = self.segment(py, first)?;
        }
        match segment {
            Some(segment) => segment.joined(py, head, runs, log_end),
            None => Ok(None),
        }
    }

    /// The runs as they lie in the log.
    pub(crate) fn slices<'py>(&self, py: Python<'py>, runs: &[(i64, i64)]) -> PyResult<Bound<'py, PyAny>> {
        self.records.bind(py).call_method1(intern!(py, "slices"), (runs,))
    }

    /// The segment of the log with that position, as it is mapped; None if there is none.
    fn segment(&self, py: Python<'_>, position: i64) -> PyResult<Option<Segment>> {
        let segment = self.segments.bind(py).call_method1(intern!(py, "holding"), (position,))?;
        if segment.is_none() {
            return Ok(None);
        }
        let base: i64 = segment.getattr(intern!(py, "base"))?.extract()?;
        let mapped = segment.call_method0(intern!(py, "open_once"))?.call_method0(intern!(py, "map_once"))?;
        Segment::new(base, PyBuffer::get(&mapped)?).map(Some)
    }
}

fn entries_of<'py>(queue: &Bound<'py, PyAny>, offset: i64, count: i64) -> PyResult<Bound<'py, PyBytes>> {
    let found = queue.call_method1(intern!(queue.py(), "entry_bytes"), (offset, count))?;
    Ok(found.cast_into::<PyBytes>()?)
}

/// Behind the last offset whose record consumers see; None when that is for Python to look for.
fn visible_entries(queue: &Bound<'_, PyAny>, first: i64, end: i64, visible_end: i64) -> PyResult<Option<i64>> {
    let newest = first.max(end - NEWEST_ENTRIES);
    let entries = entries_of(queue, newest, end - newest)?;
    let entries = entries.as_bytes();
    if entries.len() as i64 != (end - newest) * ENTRY_BYTES as i64 {
        return Ok(None); // they lie in two files
    }
    let is_visible = |entry: &[u8]| {
        let position = i64::from_be_bytes(entry[..8].try_into().expect("8 bytes"));
        let size = i32::from_be_bytes(entry[8..12].try_into().expect("4 bytes"));
        position.saturating_add(if size == FILLER_SIZE { 0 } else { i64::from(size) }) <= visible_end
    };
    let hidden = entries.chunks_exact(ENTRY_BYTES).rev().take_while(|entry| !is_visible(entry)).count() as i64;
    Ok((newest + hidden < end).then_some(end - hidden))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_those_of_python() {
        let limits = ReadLimits {
            count: 32,
            bytes: 1000,
            cold_count: 8,
            cold_bytes: 100,
            scanned_entries: 9,
            record_bytes_min: 90,
        };
        assert_eq!(limits.of(64, None), Some((32, 1000, 8, 100)));
        assert_eq!(limits.of(0, None), Some((1, 1000, 1, 100)));
        assert_eq!(limits.of(64, Some(50)), Some((32, 50, 32, 50)));
        assert_eq!(limits.of(64, Some(5000)), Some((32, 1000, 32, 100)));
        assert_eq!(limits.of(64, Some(0)), None);
        assert_eq!(limits.of(64, Some(-1)), None);
    }
}
