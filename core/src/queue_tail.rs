//! The tail of a queue: its entries that are not in its files yet. The line: the queues that have such entries.
//!
//! The send lane puts entries into tails without an object for each. All else about them is asked and done by Python,
//! which writes the files; `store/derived/queue_tail.py` has the same in Python, and explains the words.

use crate::records::ENTRY_BYTES;
use pyo3::exceptions::{PyIndexError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString, PyTuple};
use std::collections::VecDeque;
use std::sync::atomic::Ordering::Relaxed; // the GIL orders everything
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Base class of Python's `ConsumeQueue`.
///
/// Frozen, with numbers that are changed in place: to borrow it would be a locked instruction on memory that is cold,
/// several times for each message where thousands of queues are busy.
#[pyclass(subclass, frozen)]
pub struct QueueTail {
    next_offset: AtomicI64,
    owed_bytes: AtomicUsize,  // of the entries, the first ones
    entry_bytes: AtomicUsize, // of all entries
    told_as: AtomicU64,       // number of its line's news that it is among
    is_staged: AtomicBool,    // its line knows
    is_in_line: AtomicBool,
    entries: Mutex<Vec<u8>>,
    #[pyo3(get)]
    topic: Py<PyString>,
    #[pyo3(get)]
    queue_id: Py<PyAny>, // a record may say anything: Python decides what belongs to a queue
}

#[pymethods]
impl QueueTail {
    /// `_more`: what the constructors of subclasses want beside.
    #[new]
    #[pyo3(signature = (topic, queue_id, *_more))]
    fn new(topic: Py<PyString>, queue_id: Py<PyAny>, _more: &Bound<'_, PyTuple>) -> Self {
        QueueTail {
            next_offset: AtomicI64::new(0),
            owed_bytes: AtomicUsize::new(0),
            entry_bytes: AtomicUsize::new(0),
            told_as: AtomicU64::new(0),
            is_staged: AtomicBool::new(false),
            is_in_line: AtomicBool::new(false),
            entries: Mutex::new(Vec::new()),
            topic,
            queue_id,
        }
    }

    #[pyo3(signature = (*_args, **_named))]
    fn __init__(&self, _args: &Bound<'_, PyTuple>, _named: Option<&Bound<'_, PyDict>>) {}

    #[getter]
    pub(crate) fn next_offset(&self) -> i64 {
        self.next_offset.load(Relaxed)
    }

    #[getter]
    fn owed_bytes(&self) -> usize {
        self.owed_bytes.load(Relaxed)
    }

    #[getter]
    fn owed_entries(&self) -> usize {
        self.owed_bytes() / ENTRY_BYTES
    }

    fn stage(&self, position: i64, size: i32, tag_hash: i64) {
        let mut entry = [0; ENTRY_BYTES];
        entry[..8].copy_from_slice(&position.to_be_bytes());
        entry[8..12].copy_from_slice(&size.to_be_bytes());
        entry[12..].copy_from_slice(&tag_hash.to_be_bytes());
        self.put(&entry);
    }

    fn stage_encoded(&self, entries: &[u8]) -> PyResult<()> {
        if entries.len() % ENTRY_BYTES != 0 {
            return Err(PyValueError::new_err("entries have 20 bytes each"));
        }
        self.put(entries);
        Ok(())
    }

    fn drop_staged(&self) {
        let mut entries = self.entries();
        let owed_bytes = self.owed_bytes();
        let count = (entries.len() - owed_bytes) / ENTRY_BYTES;
        entries.truncate(owed_bytes);
        self.entry_bytes.store(owed_bytes, Relaxed);
        self.next_offset.store(self.next_offset() - count as i64, Relaxed);
    }

    fn commit_staged(&self) -> usize {
        let size = self.entry_bytes.load(Relaxed);
        let count = (size - self.owed_bytes()) / ENTRY_BYTES;
        self.owed_bytes.store(size, Relaxed);
        count
    }

    fn owed<'py>(&self, py: Python<'py>, bytes_max: usize) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.entries()[..self.owed_bytes().min(bytes_max)])
    }

    fn settle(&self, size: usize) -> PyResult<()> {
        let owed_bytes = self.owed_bytes();
        if size > owed_bytes || size % ENTRY_BYTES != 0 {
            return Err(PyValueError::new_err("no more can be written than is owed"));
        }
        let mut entries = self.entries();
        if size == entries.len() {
            *entries = Vec::new(); // queues that are owed nothing take no memory for it
        } else {
            entries.drain(..size);
        }
        self.entry_bytes.store(entries.len(), Relaxed);
        self.owed_bytes.store(owed_bytes - size, Relaxed);
        Ok(())
    }

    fn restart_tail(&self, offset: i64) {
        *self.entries() = Vec::new();
        self.entry_bytes.store(0, Relaxed);
        self.owed_bytes.store(0, Relaxed);
        self.next_offset.store(offset, Relaxed);
    }
}

impl QueueTail {
    #[inline]
    fn entries(&self) -> MutexGuard<'_, Vec<u8>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[inline]
    pub(crate) fn put(&self, entries: &[u8]) {
        self.entries().extend_from_slice(entries);
        self.entry_bytes.store(self.entry_bytes.load(Relaxed) + entries.len(), Relaxed);
        self.next_offset.store(self.next_offset() + (entries.len() / ENTRY_BYTES) as i64, Relaxed);
    }
}

#[pyclass]
pub struct QueueLine {
    staged: Vec<Py<QueueTail>>,
    line: VecDeque<Py<QueueTail>>, // the one that has waited longest comes first
    news: Vec<Py<PyString>>,       // topics; each queue is asked once
    news_number: u64,
}

#[pymethods]
impl QueueLine {
    #[new]
    fn new() -> Self {
        QueueLine { staged: Vec::new(), line: VecDeque::new(), news: Vec::new(), news_number: 1 }
    }

    fn __len__(&self) -> usize {
        self.line.len()
    }

    #[getter]
    fn has_staged(&self) -> bool {
        !self.staged.is_empty()
    }

    fn add(&mut self, py: Python<'_>, queue: &Bound<'_, QueueTail>) {
        self.note(py, queue.as_unbound());
    }

    fn commit(&mut self, py: Python<'_>) -> usize {
        let mut count = 0;
        for queue in self.staged.drain(..) {
            let tail = queue.get();
            tail.is_staged.store(false, Relaxed);
            count += tail.commit_staged();
            if tail.told_as.load(Relaxed) != self.news_number {
                tail.told_as.store(self.news_number, Relaxed);
                self.news.push(tail.topic.clone_ref(py));
            }
            if !tail.is_in_line.load(Relaxed) {
                tail.is_in_line.store(true, Relaxed);
                self.line.push_back(queue);
            }
        }
        count
    }

    fn drop_staged(&mut self) {
        for queue in self.staged.drain(..) {
            queue.get().is_staged.store(false, Relaxed);
            queue.get().drop_staged();
        }
    }

    fn count_owed(&self) -> usize {
        self.line.iter().map(|queue| queue.get().owed_entries()).sum()
    }

    fn first(&self, py: Python<'_>) -> PyResult<Py<QueueTail>> {
        let first = self.line.front().ok_or_else(|| PyIndexError::new_err("no queue is in line"))?;
        Ok(first.clone_ref(py))
    }

    fn leave(&mut self) {
        if let Some(first) = self.line.pop_front() {
            first.get().is_in_line.store(false, Relaxed);
        }
    }

    fn take_news<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let topics = PyList::new(py, &self.news)?;
        self.news.clear();
        self.news_number += 1;
        Ok(topics)
    }
}

impl QueueLine {
    #[inline]
    pub(crate) fn note(&mut self, py: Python<'_>, queue: &Py<QueueTail>) {
        if !queue.get().is_staged.load(Relaxed) {
            queue.get().is_staged.store(true, Relaxed);
            self.staged.push(queue.clone_ref(py));
        }
    }
}
