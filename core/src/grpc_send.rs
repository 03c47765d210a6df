//! SendMessage of the gRPC API: one normal message as clients write it, read in place; `wire/grpc/hot.py` does the same in
//! Python, and `broker/grpc/messages.py` says what may be stored. Whatever is not plain is Python's.

use crate::protobuf::{put_bytes, put_number, Reader, Value};
use std::collections::HashSet;

const PROPERTIES_MAX: usize = 128;
const PROPERTY_BYTES_MAX: usize = 16 << 10; // names, values, tag and keys together
const GZIP: u64 = 2;
const TRANSACTION: u64 = 4;
const SECONDS_MAX: u64 = 1 << 40;
const NANOS_MAX: u64 = 1 << 30;

/// What there is to know of a message; texts are UTF-8 without control characters.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Message<'a> {
    pub namespace: &'a [u8],
    pub name: &'a [u8], // of the topic
    pub id: &'a [u8],
    pub body: &'a [u8],
    pub born_ms: Option<i64>,
    tag: &'a [u8],
    trace: &'a [u8],
}

/// Whether it is UTF-8 without control characters, in which nothing separates properties.
#[inline]
fn is_clean(text: &[u8]) -> bool {
    if text.iter().all(|byte| (0x20..0x7F).contains(byte)) {
        return true;
    }
    std::str::from_utf8(text).is_ok_and(|text| !text.chars().any(char::is_control))
}

#[inline]
fn is_visible(text: &[u8]) -> bool {
    !text.is_empty() && text.iter().all(u8::is_ascii_graphic)
}

/// Nothing in it could end the property that it becomes, and begin another one.
#[inline]
fn is_id(text: &[u8]) -> bool {
    !text.is_empty() && text.iter().all(u8::is_ascii_alphanumeric)
}

/// The only message of a request, whose properties are put into `text` as they are stored; None: it is Python's.
pub fn read<'a>(request: &'a [u8], reserved: &HashSet<Vec<u8>>, text: &mut Vec<u8>) -> Option<Message<'a>> {
    let mut outer = Reader::new(request);
    let (1, Value::Bytes(data)) = outer.field()? else { return None };
    if !outer.is_at_end() {
        return None;
    }
    let mut message = Message::default();
    let (mut topic, mut system, mut body, mut first_user) = (None, None, None, None);
    let mut reader = Reader::new(data);
    while !reader.is_at_end() {
        let at = reader.at;
        let (number, Value::Bytes(value)) = reader.field()? else { return None };
        let place = match number {
            1 => &mut topic,
            2 => {
                first_user.get_or_insert(at);
                continue;
            }
            3 => &mut system,
            4 => &mut body,
            _ => return None,
        };
        if place.replace(value).is_some() {
            return None;
        }
    }
    message.body = body?;
    if message.body.is_empty() {
        return None;
    }
    read_topic(topic?, &mut message)?;
    let mut size = read_system(system?, &mut message, text)?;
    let mut count = 0;
    let mut reader = Reader::new(&data[first_user.unwrap_or(data.len())..]);
    let names_at = text.len();
    while let Some((number, value)) = reader.field() {
        let (2, Value::Bytes(entry)) = (number, value) else { continue };
        let (name, value) = read_entry(entry)?;
        let is_plain = !name.is_empty() && is_clean(name) && is_clean(value) && !reserved.contains(name);
        count += 1;
        if !is_plain || count > PROPERTIES_MAX || has_name(&text[names_at..], name) {
            return None; // each name is compared with all before it: not with thousands
        }
        size += name.len() + value.len();
        put_item(text, name, value);
    }
    (size <= PROPERTY_BYTES_MAX).then_some(message)
}

/// Whether one of these items has the name: the later one would take the place of the earlier.
fn has_name(items: &[u8], name: &[u8]) -> bool {
    items.split(|&byte| byte == 2).any(|item| item.strip_prefix(name).is_some_and(|rest| rest.first() == Some(&1)))
}

fn put_item(text: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    text.extend_from_slice(name);
    text.push(1);
    text.extend_from_slice(value);
    text.push(2);
}

fn read_topic<'a>(data: &'a [u8], message: &mut Message<'a>) -> Option<()> {
    let mut reader = Reader::new(data);
    let mut seen = 0;
    while !reader.is_at_end() {
        let (number, Value::Bytes(value)) = reader.field()? else { return None };
        match number {
            1 => message.namespace = value,
            2 => message.name = value,
            _ => return None,
        }
        if seen & 1 << number != 0 {
            return None;
        }
        seen |= 1 << number;
    }
    Some(())
}

fn read_entry(data: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut reader = Reader::new(data);
    let (1, Value::Bytes(name)) = reader.field()? else { return None };
    let (2, Value::Bytes(value)) = reader.field()? else { return None };
    reader.is_at_end().then_some((name, value))
}

/// Bytes of tag and keys; the properties that follow from all of it are in the text.
fn read_system<'a>(data: &'a [u8], message: &mut Message<'a>, text: &mut Vec<u8>) -> Option<usize> {
    let mut reader = Reader::new(data);
    let (mut seen, mut keys, mut key_bytes) = (0u32, 0, 0);
    while !reader.is_at_end() {
        let (number, value) = reader.field()?;
        if number > 18 || (number != 2 && seen & 1 << number != 0) {
            return None;
        }
        seen |= 1 << number;
        match (number, value) {
            (1, Value::Bytes(tag)) if is_visible(tag) && !tag.contains(&b'|') => message.tag = tag,
            (2, Value::Bytes(key)) if is_visible(key) => {
                keys += 1;
                key_bytes += key.len();
            }
            (3, Value::Bytes(id)) if is_id(id) => message.id = id,
            (4, Value::Bytes(digest)) => check_digest(digest)?,
            (5, Value::Number(encoding)) if encoding != GZIP => {}
            (6, Value::Number(kind)) if kind != TRANSACTION => {}
            (7, Value::Bytes(time)) => message.born_ms = Some(read_time(time)?),
            (8, Value::Bytes(host)) => std::str::from_utf8(host).map(|_| ()).ok()?,
            (13, Value::Number(_)) => {}
            (18, Value::Bytes(trace)) if is_clean(trace) => message.trace = trace,
            _ => return None,
        }
    }
    if message.id.is_empty() {
        return None;
    }
    text.clear();
    put_item(text, b"UNIQ_KEY", message.id);
    if !message.tag.is_empty() {
        put_item(text, b"TAGS", message.tag);
    }
    if keys > 0 {
        text.extend_from_slice(b"KEYS\x01");
        let mut reader = Reader::new(data);
        let mut is_first = true;
        while let Some((number, value)) = reader.field() {
            if let (2, Value::Bytes(key)) = (number, value) {
                if !is_first {
                    text.push(b' ');
                }
                text.extend_from_slice(key);
                is_first = false;
            }
        }
        text.push(2);
    }
    if !message.trace.is_empty() {
        put_item(text, b"TRACE_CONTEXT", message.trace);
    }
    Some(message.tag.len() + key_bytes)
}

fn check_digest(data: &[u8]) -> Option<()> {
    let mut reader = Reader::new(data);
    while !reader.is_at_end() {
        match reader.field()? {
            (1, Value::Number(_)) => {}
            (2, Value::Bytes(text)) => std::str::from_utf8(text).map(|_| ()).ok()?,
            _ => return None,
        }
    }
    Some(())
}

fn read_time(data: &[u8]) -> Option<i64> {
    let mut reader = Reader::new(data);
    let (mut seconds, mut nanos) = (0, 0);
    while !reader.is_at_end() {
        match reader.field()? {
            (1, Value::Number(found)) if found < SECONDS_MAX => seconds = found,
            (2, Value::Number(found)) if found < NANOS_MAX => nanos = found,
            _ => return None,
        }
    }
    Some((seconds * 1000 + nanos / 1_000_000) as i64)
}

/// The response to one message that was stored; `status` is that of success, encoded.
pub fn put_response(into: &mut Vec<u8>, status: &[u8], id: &[u8], offset: u64) {
    let mut entry = Vec::with_capacity(2 * id.len() + status.len() + 24);
    put_bytes(&mut entry, 0x0A, status);
    put_bytes(&mut entry, 0x12, id);
    put_bytes(&mut entry, 0x1A, id);
    if offset > 0 {
        entry.push(0x20);
        put_number(&mut entry, offset);
    }
    put_bytes(into, 0x0A, status);
    put_bytes(into, 0x12, &entry);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(tag: u64, value: &[u8]) -> Vec<u8> {
        let mut found = Vec::new();
        put_bytes(&mut found, tag, value);
        found
    }

    fn request(system: &[u8], more: &[u8]) -> Vec<u8> {
        let message = [field(0x0A, &field(0x12, b"orders")), more.to_vec(), field(0x1A, system), field(0x22, b"body")];
        field(0x0A, &message.concat())
    }

    #[test]
    fn a_message_is_read_and_every_cut_is_not() {
        let system = [field(0x0A, b"a"), field(0x12, b"k1"), field(0x12, b"k2"), field(0x1A, b"01AB")].concat();
        let user = field(0x12, &[field(0x0A, b"x"), field(0x12, "ü".as_bytes())].concat());
        let data = request(&system, &user);
        let mut text = Vec::new();
        let found = read(&data, &HashSet::new(), &mut text).unwrap();
        assert_eq!(
            (found.name, found.id, found.body, found.born_ms),
            (&b"orders"[..], &b"01AB"[..], &b"body"[..], None)
        );
        assert_eq!(text, "UNIQ_KEY\x0101AB\x02TAGS\x01a\x02KEYS\x01k1 k2\x02x\x01ü\x02".as_bytes());
        for end in 0..data.len() {
            assert_eq!(read(&data[..end], &HashSet::new(), &mut text), None);
        }
        assert_eq!(read(&data, &HashSet::from([b"x".to_vec()]), &mut text), None, "it is reserved");
    }

    #[test]
    fn what_is_out_of_the_ordinary_is_pythons() {
        let id = field(0x1A, b"01AB");
        let mut text = Vec::new();
        for system in [
            vec![],
            field(0x1A, b"01AB\x02TAGS\x01x"),
            field(0x1A, b"01AB\x02x\x01\xFF"),
            field(0x1A, b"01-AB"),
            [id.clone(), id.clone()].concat(),
            [id.clone(), field(0x0A, b"a|b")].concat(),
            [id.clone(), field(0x12, b"two words")].concat(),
            [id.clone(), vec![0x28, 2]].concat(),          // gzip
            [id.clone(), vec![0x30, 4]].concat(),          // transaction
            [id.clone(), field(0x5A, b"")].concat(),       // a time of delivery
            [id.clone(), vec![0x8A, 1, 1, b'g']].concat(), // a message group
            [id.clone(), vec![0xB0, 1, 9]].concat(),       // a priority
        ] {
            assert_eq!(read(&request(&system, b""), &HashSet::new(), &mut text), None, "{system:?}");
        }
        let twice = field(0x12, &[field(0x0A, b"x"), field(0x12, b"y")].concat()).repeat(2);
        assert_eq!(read(&request(&id, &twice), &HashSet::new(), &mut text), None);
    }

    #[test]
    fn as_many_properties_as_may_be_and_no_more() {
        let id = field(0x1A, b"01AB");
        let user = |count: usize| -> Vec<u8> {
            let entry =
                |number| field(0x12, &[field(0x0A, format!("p{number}").as_bytes()), field(0x12, b"y")].concat());
            (0..count).flat_map(entry).collect()
        };
        let mut text = Vec::new();
        assert!(read(&request(&id, &user(PROPERTIES_MAX)), &HashSet::new(), &mut text).is_some());
        assert_eq!(read(&request(&id, &user(PROPERTIES_MAX + 1)), &HashSet::new(), &mut text), None);
        assert_eq!(read(&request(&id, &user(5_000)), &HashSet::new(), &mut text), None);
        assert!(text.len() < 2_000, "it is left at once");
    }
}
