//! Keys on their way into an index file: `store/derived/index_file.py` has its layout.
//!
//! A *hashed key* has 20 bytes: hash (u32), position of the record (i64), its store time (i64), big-endian.

use crate::guard::guarded;
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

pub const KEY_BYTES: usize = 20;
const SECONDS_MAX: i64 = 0x7FFF_FFFF;

#[inline]
pub fn put_key(into: &mut Vec<u8>, hash: u32, position: i64, stored_ms: i64) {
    into.extend_from_slice(&hash.to_be_bytes());
    into.extend_from_slice(&position.to_be_bytes());
    into.extend_from_slice(&stored_ms.to_be_bytes());
}

struct Key {
    hash: u32,
    stored_ms: i64,
}

impl Key {
    #[inline]
    fn of(bytes: &[u8]) -> Self {
        Key {
            hash: u32::from_be_bytes(bytes[..4].try_into().expect("4 bytes")),
            stored_ms: i64::from_be_bytes(bytes[12..20].try_into().expect("8 bytes")),
        }
    }
}

/// Slots are numbers that a hash has spread already.
#[derive(Default)]
struct SlotHasher(u64);

impl Hasher for SlotHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("slots are u32")
    }

    #[inline]
    fn write_u32(&mut self, slot: u32) {
        self.0 = u64::from(slot).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }
}

type Entries<'py> = (Bound<'py, PyBytes>, Bound<'py, PyBytes>, i64, i64, u32);

/// Entries `first`, `first` + 1, … of an index file for hashed keys, given its slot table as it is.
///
/// Returns the entries, the slot of each (u32, native), the begin of the file, the latest store time, and how many
/// slots were empty before. Raises RuntimeError for a defect.
#[pyfunction]
pub fn index_entries<'py>(
    py: Python<'py>,
    keys: &[u8],
    table: PyBuffer<u8>,
    slots: u32,
    first: u32,
    begin_ms: i64,
) -> PyResult<Entries<'py>> {
    if keys.is_empty() || keys.len() % KEY_BYTES != 0 || slots == 0 || first == 0 {
        return Err(PyValueError::new_err("hashed keys have 20 bytes each, and there is a slot and an entry for them"));
    }
    if table.item_count() < slots as usize * 4 || !table.is_c_contiguous() {
        return Err(PyValueError::new_err("the slot table is shorter than it should be"));
    }
    // SAFETY: the buffer is contiguous and alive until this function returns. It is the mapping of a file of which Python
    // is the only writer, and nothing can run between here and the return: the GIL is held all along.
    let heads = unsafe { std::slice::from_raw_parts(table.buf_ptr() as *const u8, table.item_count()) };
    guarded(|| {
        let found = entries_of(keys, heads, slots, first, begin_ms);
        let (entries, places) = (PyBytes::new(py, &found.entries), PyBytes::new(py, &found.places));
        Ok((entries, places, found.begin_ms, found.end_ms, found.fresh))
    })
}

struct Found {
    entries: Vec<u8>,
    places: Vec<u8>,
    begin_ms: i64,
    end_ms: i64,
    fresh: u32,
}

fn entries_of(keys: &[u8], heads: &[u8], slots: u32, first: u32, begin_ms: i64) -> Found {
    let count = keys.len() / KEY_BYTES;
    let begin_ms = if first == 1 { Key::of(keys).stored_ms } else { begin_ms };
    // All words of the table first: the processor then waits for several of them at a time.
    let before: Vec<u32> = keys
        .chunks_exact(KEY_BYTES)
        .map(|key| {
            let at = (Key::of(key).hash % slots) as usize * 4;
            u32::from_be_bytes(heads[at..at + 4].try_into().expect("4 bytes"))
        })
        .collect();
    let mut entries = Vec::with_capacity(count * 20);
    let mut places = Vec::with_capacity(count * 4);
    let mut newest: HashMap<u32, u32, BuildHasherDefault<SlotHasher>> =
        HashMap::with_capacity_and_hasher(count, Default::default());
    let (mut end_ms, mut fresh) = (i64::MIN, 0);
    for (number, bytes) in keys.chunks_exact(KEY_BYTES).enumerate() {
        let key = Key::of(bytes);
        let (slot, own) = (key.hash % slots, first + number as u32);
        let in_file = if before[number] < first { before[number] } else { 0 }; // else it is nonsense
        let previous = newest.insert(slot, own).unwrap_or(in_file);
        fresh += u32::from(previous == 0);
        let seconds = (key.stored_ms - begin_ms).div_euclid(1000);
        let seconds = if (0..=SECONDS_MAX).contains(&seconds) { seconds as u32 } else { 0 };
        entries.extend_from_slice(&bytes[..12]);
        entries.extend_from_slice(&seconds.to_be_bytes());
        entries.extend_from_slice(&previous.to_be_bytes());
        places.extend_from_slice(&slot.to_ne_bytes());
        end_ms = end_ms.max(key.stored_ms);
    }
    Found { entries, places, begin_ms, end_ms, fresh }
}

/// Let words of a table become `first`, `first` + 1, …, by their numbers (u32, native); of a number twice the last counts.
#[pyfunction]
pub fn scatter_words(py: Python<'_>, table: PyBuffer<u8>, numbers: &[u8], first: u32) -> PyResult<()> {
    let Some(words) = table.as_mut_slice(py) else {
        return Err(PyValueError::new_err("the table cannot be written"));
    };
    guarded(|| {
        for (own, number) in (first..).zip(numbers.chunks_exact(4)) {
            let at = u32::from_ne_bytes(number.try_into().expect("4 bytes")) as usize * 4;
            let Some(word) = words.get(at..at + 4) else {
                return Err(PyValueError::new_err("a word lies outside of the table"));
            };
            for (cell, byte) in word.iter().zip(own.to_be_bytes()) {
                cell.set(byte);
            }
        }
        Ok(())
    })
}
