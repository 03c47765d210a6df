//! Stored records to the buffers of Arrow columns, in one pass, without the GIL and without an object for a record.
//!
//! `pipeline/arrow/decode.py` makes arrays of the buffers, and has the same in numpy. A column that takes more than this
//! (compressed bodies, IPv6 hosts, properties that are irregular, repeated or no UTF-8) is left out, and Python makes it;
//! records that do not add up are left to Python altogether.

use crate::guard::guarded;
use crate::layout::{self, i32_at, i64_at, Places, COMPRESSED};
use crate::properties::{CHECKSUM, CHECKSUM_BYTES, CHECKSUM_START, ITEM_END, KEYS, NAME_END, TAGS, UNIQUE_KEY};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyTuple};
use std::io::Write;

const ITEMS_MAX: usize = 64; // of a message that goes into a map here: looking for repeated names is quadratic

/// What is asked for. Numbers and times are always made: they cost next to nothing.
#[derive(Clone, Copy, Default)]
pub struct Asked {
    pub bodies: bool,
    pub message_ids: bool,
    pub offset_ids: bool,
    pub tags: bool,
    pub keys: bool,
    pub born_hosts: bool,
    pub store_hosts: bool,
    pub maps: bool,
    pub texts: bool,
}

impl Asked {
    fn of(names: &[String]) -> Self {
        let mut asked = Asked::default();
        for name in names {
            match name.as_str() {
                "body" => asked.bodies = true,
                "message_id" => asked.message_ids = true,
                "offset_message_id" => asked.offset_ids = true,
                "tags" => asked.tags = true,
                "keys" => asked.keys = true,
                "born_host" => asked.born_hosts = true,
                "store_host" => asked.store_hosts = true,
                "properties" => asked.maps = true,
                "properties as text" => asked.texts = true,
                _ => {}
            }
        }
        asked
    }

    fn needs_properties(&self) -> bool {
        self.message_ids || self.tags || self.keys || self.maps || self.texts
    }
}

/// Values of different lengths, one behind the other; those that are null are empty.
pub struct Values {
    pub ends: Vec<i32>,
    pub data: Vec<u8>,
    pub valid: Vec<u8>,
    pub nulls: usize,
}

impl Values {
    fn new() -> Self {
        Values { ends: vec![0], data: Vec::new(), valid: Vec::new(), nulls: 0 }
    }

    pub fn count(&self) -> usize {
        self.ends.len() - 1
    }

    #[inline]
    fn push(&mut self, value: Option<&[u8]>) {
        if let Some(value) = value {
            self.data.extend_from_slice(value);
        }
        self.ended(value.is_some());
    }

    /// Its bytes are there.
    #[inline]
    fn ended(&mut self, is_valid: bool) {
        let count = self.count();
        if count % 8 == 0 {
            self.valid.push(0);
        }
        if is_valid {
            *self.valid.last_mut().expect("it was just pushed") |= 1 << (count % 8);
        } else {
            self.nulls += 1;
        }
        self.ends.push(self.data.len() as i32);
    }

    /// Validity (None where nothing is null), offsets, data.
    fn buffers<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let valid = (self.nulls > 0).then(|| PyBytes::new(py, &self.valid));
        (valid, words(py, &self.ends)?, PyBytes::new(py, &self.data)).into_pyobject(py)
    }
}

/// The columns of the rows that were asked for.
pub struct Columns {
    pub queue_ids: Vec<i32>,
    pub flags: Vec<i32>,
    pub sys_flags: Vec<i32>,
    pub attempts: Vec<i32>,
    pub body_crcs: Vec<i32>,
    pub queue_offsets: Vec<i64>,
    pub positions: Vec<i64>,
    pub born_us: Vec<i64>,
    pub stored_us: Vec<i64>,
    /// Where bodies lie in the data; None where one is compressed, or none are asked for.
    pub bodies: Option<Vec<(usize, usize)>>,
    pub message_ids: Option<Values>,
    pub offset_ids: Option<Values>,
    pub tags: Option<Values>,
    pub keys: Option<Values>,
    pub born_hosts: Option<Values>,
    pub store_hosts: Option<Values>,
    pub map_ends: Vec<i32>,
    pub map_names: Option<Values>,
    pub map_values: Values,
    pub texts: Option<Values>,
}

/// Offsets [first, end), and of those the messages with one of these tags; all if there are none.
pub struct Wanted<'a> {
    pub first: i64,
    pub end: i64,
    pub tags: &'a [Vec<u8>],
}

/// None when records do not add up, or when their tags cannot be told here.
pub fn columns(data: &[u8], asked: Asked, wanted: &Wanted<'_>) -> Option<Columns> {
    if data.len() > i32::MAX as usize {
        return None;
    }
    let when = |is_asked: bool| is_asked.then(Values::new);
    let mut found = Columns {
        queue_ids: Vec::new(),
        flags: Vec::new(),
        sys_flags: Vec::new(),
        attempts: Vec::new(),
        body_crcs: Vec::new(),
        queue_offsets: Vec::new(),
        positions: Vec::new(),
        born_us: Vec::new(),
        stored_us: Vec::new(),
        bodies: asked.bodies.then(Vec::new),
        message_ids: when(asked.message_ids),
        offset_ids: when(asked.offset_ids),
        tags: when(asked.tags),
        keys: when(asked.keys),
        born_hosts: when(asked.born_hosts),
        store_hosts: when(asked.store_hosts),
        map_ends: vec![0],
        map_names: when(asked.maps),
        map_values: Values::new(),
        texts: when(asked.texts),
    };
    let mut scratch = Scratch::default();
    let mut at = 0;
    while at < data.len() {
        let places = layout::record_at(data, at)?;
        at = places.end;
        found.add(data, &places, asked, wanted, &mut scratch)?;
    }
    Some(found)
}

/// What is used again from record to record.
#[derive(Default)]
struct Scratch {
    born_host: (Vec<u8>, Vec<u8>),
    store_host: (Vec<u8>, Vec<u8>),
}

impl Columns {
    fn add(
        &mut self,
        data: &[u8],
        places: &Places,
        asked: Asked,
        wanted: &Wanted<'_>,
        scratch: &mut Scratch,
    ) -> Option<()> {
        let record = &data[places.start..places.end];
        let offset = i64_at(record, layout::OFFSET_AT);
        if offset < wanted.first || offset >= wanted.end {
            return Some(());
        }
        let raw = &data[places.properties.clone()];
        let needs_items = !wanted.tags.is_empty() || (asked.needs_properties() && self.has_properties());
        let items = if needs_items { items(raw) } else { None };
        if !wanted.tags.is_empty() {
            let tag = items.as_ref()?.last(TAGS);
            if !tag.is_some_and(|tag| wanted.tags.iter().any(|each| each == tag)) {
                return Some(());
            }
        }
        let (born_more, host_more) = places.more();
        self.queue_ids.push(i32_at(record, layout::QUEUE_ID_AT));
        self.flags.push(i32_at(record, layout::FLAG_AT));
        self.sys_flags.push(places.sys_flag);
        self.attempts.push(i32_at(record, layout::ATTEMPT_AT + host_more));
        self.body_crcs.push(i32_at(record, layout::BODY_CRC_AT));
        self.queue_offsets.push(offset);
        self.positions.push(i64_at(record, layout::POSITION_AT));
        self.born_us.push(i64_at(record, layout::BORN_MS_AT).wrapping_mul(1000));
        self.stored_us.push(i64_at(record, layout::STORED_MS_AT + born_more).wrapping_mul(1000));
        if places.sys_flag & COMPRESSED != 0 {
            self.bodies = None;
        }
        if let Some(bodies) = &mut self.bodies {
            bodies.push((places.body.start, places.body.end));
        }
        self.add_hosts(record, places, scratch);
        if asked.needs_properties() && self.has_properties() {
            match items {
                None => self.leave_properties(),
                Some(items) => self.add_properties(record, places, &items, raw),
            }
        }
        Some(())
    }

    fn has_properties(&self) -> bool {
        [&self.message_ids, &self.tags, &self.keys, &self.map_names, &self.texts].iter().any(|each| each.is_some())
    }

    fn leave_properties(&mut self) {
        (self.message_ids, self.tags, self.keys, self.map_names, self.texts) = (None, None, None, None, None);
    }

    fn add_hosts(&mut self, record: &[u8], places: &Places, scratch: &mut Scratch) {
        if places.sys_flag & layout::BORN_V6 != 0 {
            self.born_hosts = None;
        }
        if places.sys_flag & layout::STORE_V6 != 0 {
            (self.store_hosts, self.offset_ids, self.message_ids) = (None, None, None);
        }
        if let Some(hosts) = &mut self.born_hosts {
            let at = layout::BORN_HOST_AT;
            put_host(hosts, &record[at..at + 8], &mut scratch.born_host);
        }
        let at = layout::STORE_HOST_AT + places.more().0;
        if let Some(hosts) = &mut self.store_hosts {
            put_host(hosts, &record[at..at + 8], &mut scratch.store_host);
        }
        if let Some(ids) = &mut self.offset_ids {
            put_offset_id(ids, &record[at..at + 8], &record[layout::POSITION_AT..layout::POSITION_AT + 8]);
        }
    }

    fn add_properties(&mut self, record: &[u8], places: &Places, items: &Items<'_>, raw: &[u8]) {
        if let Some(ids) = &mut self.message_ids {
            match items.last(UNIQUE_KEY) {
                Some(id) => ids.push(Some(id)),
                None => {
                    let at = layout::STORE_HOST_AT + places.more().0;
                    put_offset_id(ids, &record[at..at + 8], &record[layout::POSITION_AT..layout::POSITION_AT + 8]);
                }
            }
        }
        if let Some(tags) = &mut self.tags {
            tags.push(items.last(TAGS));
        }
        if let Some(keys) = &mut self.keys {
            keys.push(items.last(KEYS));
        }
        if let Some(texts) = &mut self.texts {
            texts.push(Some(without_checksum(raw)));
        }
        if self.map_names.is_some() && items.repeat_a_name() {
            self.map_names = None;
        }
        if let Some(names) = &mut self.map_names {
            for &(name, value) in items.pairs.iter().filter(|pair| pair.0 != CHECKSUM) {
                names.push(Some(name));
                self.map_values.push(Some(value));
            }
            self.map_ends.push(names.count() as i32);
        }
    }
}

/// Names and values of properties, in order; those without either are left out.
struct Items<'a> {
    pairs: Vec<(&'a [u8], &'a [u8])>,
}

impl<'a> Items<'a> {
    #[inline]
    fn last(&self, name: &[u8]) -> Option<&'a [u8]> {
        self.pairs.iter().rev().find(|pair| pair.0 == name).map(|pair| pair.1)
    }

    fn repeat_a_name(&self) -> bool {
        self.pairs.len() > ITEMS_MAX
            || self.pairs.iter().enumerate().any(|(at, pair)| self.pairs[..at].iter().any(|other| other.0 == pair.0))
    }
}

/// None for what is irregular: no UTF-8, an item without the end of its name, or with two.
#[inline]
fn items(raw: &[u8]) -> Option<Items<'_>> {
    std::str::from_utf8(raw).ok()?;
    let mut pairs = Vec::with_capacity(8);
    let (mut start, mut name_end) = (0, None);
    for (at, &byte) in raw.iter().enumerate() {
        if byte > ITEM_END {
            continue;
        }
        if byte == NAME_END {
            if name_end.is_some() {
                return None;
            }
            name_end = Some(at);
        } else if byte == ITEM_END {
            put_item(&mut pairs, raw, start, name_end.take()?, at);
            start = at + 1;
        }
    }
    if start < raw.len() {
        put_item(&mut pairs, raw, start, name_end?, raw.len());
    }
    Some(Items { pairs })
}

#[inline]
fn put_item<'a>(pairs: &mut Vec<(&'a [u8], &'a [u8])>, raw: &'a [u8], start: usize, name_end: usize, end: usize) {
    if start < name_end && name_end + 1 < end {
        pairs.push((&raw[start..name_end], &raw[name_end + 1..end]));
    }
}

/// The checksum of the record is the last property, and always as long.
fn without_checksum(raw: &[u8]) -> &[u8] {
    let Some(start) = raw.len().checked_sub(CHECKSUM_BYTES) else { return raw };
    if raw[start..].starts_with(CHECKSUM_START) && (start == 0 || raw[start - 1] == ITEM_END) {
        &raw[..start]
    } else {
        raw
    }
}

/// There are few different ones: the text of the last one is kept.
fn put_host(into: &mut Values, host: &[u8], last: &mut (Vec<u8>, Vec<u8>)) {
    if last.0 != host {
        last.0 = host.to_vec();
        last.1.clear();
        let port = i32_at(host, 4);
        write!(last.1, "{}.{}.{}.{}:{}", host[0], host[1], host[2], host[3], port).expect("memory is written to");
    }
    into.push(Some(&last.1));
}

fn put_offset_id(into: &mut Values, host: &[u8], position: &[u8]) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    let mut text = [0u8; 32];
    for (at, byte) in host.iter().chain(position).enumerate() {
        (text[2 * at], text[2 * at + 1]) = (HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]);
    }
    into.push(Some(&text));
}

trait Word: Copy {
    const BYTES: usize;
    fn put(self, into: &mut [u8]);
}

impl Word for i32 {
    const BYTES: usize = 4;
    #[inline]
    fn put(self, into: &mut [u8]) {
        into.copy_from_slice(&self.to_ne_bytes());
    }
}

impl Word for i64 {
    const BYTES: usize = 8;
    #[inline]
    fn put(self, into: &mut [u8]) {
        into.copy_from_slice(&self.to_ne_bytes());
    }
}

/// As Arrow has them: in the order of this machine.
fn words<'py, W: Word>(py: Python<'py>, values: &[W]) -> PyResult<Bound<'py, PyBytes>> {
    PyBytes::new_with(py, values.len() * W::BYTES, |into| {
        for (place, value) in into.chunks_exact_mut(W::BYTES).zip(values) {
            value.put(place);
        }
        Ok(())
    })
}

/// The number of rows, and buffers of the columns that are asked for by their names and of all numbers and times; what is
/// not among them is Python's. None when all is. Raises RuntimeError for a defect.
///
/// Values are (validity or None, offsets, data); the map is (offsets, names, values); numbers and times are one buffer.
#[pyfunction]
pub fn arrow_columns<'py>(
    py: Python<'py>,
    data: &Bound<'py, PyBytes>,
    names: Vec<String>,
    first: i64,
    end: i64,
    tags: Vec<Vec<u8>>,
) -> PyResult<Option<(usize, Bound<'py, PyDict>)>> {
    let bytes = data.as_bytes(); // immutable, and alive until this function returns
    let asked = Asked::of(&names);
    guarded(|| {
        let Some(found) = py.detach(|| columns(bytes, asked, &Wanted { first, end, tags: &tags })) else {
            return Ok(None);
        };
        Ok(Some((found.queue_ids.len(), hand_over(py, bytes, &found)?)))
    })
}

fn hand_over<'py>(py: Python<'py>, data: &[u8], found: &Columns) -> PyResult<Bound<'py, PyDict>> {
    let given = PyDict::new(py);
    for (name, numbers) in [
        ("queue_id", &found.queue_ids),
        ("flag", &found.flags),
        ("sys_flag", &found.sys_flags),
        ("delivery_attempt", &found.attempts),
        ("body_crc", &found.body_crcs),
    ] {
        given.set_item(name, words(py, numbers)?)?;
    }
    for (name, numbers) in [
        ("queue_offset", &found.queue_offsets),
        ("commit_log_offset", &found.positions),
        ("born_time", &found.born_us),
        ("store_time", &found.stored_us),
    ] {
        given.set_item(name, words(py, numbers)?)?;
    }
    for (name, values) in [
        ("message_id", &found.message_ids),
        ("offset_message_id", &found.offset_ids),
        ("tags", &found.tags),
        ("keys", &found.keys),
        ("born_host", &found.born_hosts),
        ("store_host", &found.store_hosts),
        ("properties as text", &found.texts),
    ] {
        if let Some(values) = values {
            given.set_item(name, values.buffers(py)?)?;
        }
    }
    if let Some(names) = &found.map_names {
        let maps = (words(py, &found.map_ends)?, names.buffers(py)?, found.map_values.buffers(py)?);
        given.set_item("properties", maps)?;
    }
    if let Some(bodies) = &found.bodies {
        given.set_item("body", body_buffers(py, data, bodies)?)?;
    }
    Ok(given)
}

/// Bodies are copied once, into the object that Arrow will hold, and that without the GIL too.
fn body_buffers<'py>(py: Python<'py>, data: &[u8], bodies: &[(usize, usize)]) -> PyResult<Bound<'py, PyTuple>> {
    let mut ends = vec![0i32];
    let mut size = 0;
    for &(start, end) in bodies {
        size += end - start;
        ends.push(size as i32);
    }
    let copied = PyBytes::new_with(py, size, |into| {
        py.detach(|| {
            let mut at = 0;
            for &(start, end) in bodies {
                into[at..at + end - start].copy_from_slice(&data[start..end]);
                at += end - start;
            }
        });
        Ok(())
    })?;
    (None::<Bound<'py, PyBytes>>, words(py, &ends)?, copied).into_pyobject(py)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_found_and_what_is_irregular_is_not() {
        let found = items("a\x01b\x02\x01x\x02y\x01\x02ä\x01ö\x02a\x01c".as_bytes()).unwrap();
        assert_eq!(found.pairs.len(), 3);
        assert_eq!((found.last(b"a"), found.last(b"y")), (Some(&b"c"[..]), None));
        assert!(found.repeat_a_name());
        for raw in [&b"a"[..], b"a\x02", b"a\x01b\x02\x02", b"a\x01b\x01c\x02", b"\xff\x01a\x02", b"a\x01b\x02c"] {
            assert!(items(raw).is_none(), "{raw:?}");
        }
        assert!(items(b"").unwrap().pairs.is_empty());
    }

    #[test]
    fn only_a_whole_checksum_at_the_end_is_cut_off() {
        let sum = b"__CRC32#\x010123456789\x02";
        assert_eq!(without_checksum(sum), b"");
        assert_eq!(without_checksum(&[&b"a\x01b\x02"[..], sum].concat()), b"a\x01b\x02");
        for raw in [[&b"x"[..], sum].concat(), [&sum[..], b"a\x01b\x02"].concat(), sum[1..].to_vec()] {
            assert_eq!(without_checksum(&raw), &raw[..]);
        }
    }
}
