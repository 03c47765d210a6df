//! The JSON header of a send request (310, 320), read in place.
//!
//! Only what clients write is read: `json.rs` says what that is, and ext fields are strings.

use crate::command::{self, Command, Field, CODE, EXT_FIELDS};
use crate::json::{small, whole, Cursor, Text};

const SEND: i32 = 310;
const SEND_BATCH: i32 = 320;
const REQUIRED: u32 = 0xFF; // a to h

#[derive(Default)]
pub struct SendHeader<'a> {
    pub code: i32,
    pub opaque: i32,
    pub flag: i32,
    pub topic: &'a [u8],
    pub queue_id: i32,
    pub sys_flag: i32,
    pub born_ms: i64,
    pub message_flag: i32,
    pub attempts: i32,
    pub is_batch: bool,
    pub properties: Text<'a>,
    /// Names and values of all ext fields, for signatures; empty unless they were asked for.
    pub fields: Vec<Field<'a>>,
}

/// The header of a send; with its ext fields as they came if `SIGNED`.
pub fn read<const SIGNED: bool>(text: &[u8]) -> Option<SendHeader<'_>> {
    if !text.starts_with(b"{\"code\":3") || std::str::from_utf8(text).is_err() {
        return None;
    }
    let (mut header, mut fields) = (SendHeader::default(), 0);
    let command = command::read(text, |cursor| {
        fields = read_fields::<SIGNED>(cursor, &mut header)?;
        Some(())
    })?;
    let Command { code, opaque, flag, .. } = command;
    (header.code, header.opaque, header.flag) = (code, opaque, flag);
    let is_send = code == SEND || code == SEND_BATCH;
    (is_send && command.has(CODE | EXT_FIELDS) && fields & REQUIRED == REQUIRED).then_some(header)
}

/// Bits of the fields a to n that there were.
#[inline]
fn read_fields<'a, const SIGNED: bool>(cursor: &mut Cursor<'a>, header: &mut SendHeader<'a>) -> Option<u32> {
    cursor.object(|cursor, name| {
        let value = cursor.string()?;
        if SIGNED {
            command::keep(&mut header.fields, name, value)?;
        } else if value.is_escaped && name != b"i" {
            return None; // what is no escape is for Python to refuse
        }
        let [letter @ b'a'..=b'n'] = *name else { return Some(0) };
        if value.is_escaped && letter != b'i' {
            return None;
        }
        match letter {
            b'b' => header.topic = value.raw,
            b'd' | b'l' => small(value.raw).map(|_| ())?,
            b'e' => header.queue_id = small(value.raw)?,
            b'f' => header.sys_flag = small(value.raw)?,
            b'g' => header.born_ms = whole(value.raw)?,
            b'h' => header.message_flag = small(value.raw)?,
            b'i' => header.properties = value,
            b'j' => header.attempts = small(value.raw)?,
            b'k' => truth(value.raw).map(|_| ())?,
            b'm' => header.is_batch = truth(value.raw)?,
            _ => {} // a, c and n: texts that a plain send does not need
        }
        Some(1 << (letter - b'a'))
    })
}

#[inline]
fn truth(text: &[u8]) -> Option<bool> {
    match text {
        b"true" => Some(true),
        b"false" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::unescape;

    const HEADER: &str = concat!(
        r#"{"code":310,"extFields":{"a":"g","b":"orders","c":"TBW102","d":"4","e":"2","f":"0","g":"1700000000000","#,
        r#""h":"-1","i":"KEYS\u0001\u00e4\"\u0002","j":"0","k":"false","m":"false","n":"broker-a","x":"é"},"#,
        r#""flag":0,"language":"JAVA","opaque":-7,"serializeTypeCurrentRPC":"JSON","version":401}"#
    );

    #[test]
    fn a_header_is_read() {
        let header = read::<true>(HEADER.as_bytes()).unwrap();
        assert_eq!((header.code, header.opaque, header.topic, header.queue_id), (310, -7, &b"orders"[..], 2));
        assert_eq!((header.born_ms, header.message_flag, header.is_batch), (1_700_000_000_000, -1, false));
        assert_eq!((header.fields.len(), header.fields[13].0), (14, &b"x"[..]));
        let mut text = Vec::new();
        unescape(header.properties, &mut text).unwrap();
        assert_eq!(text, "KEYS\x01ä\"\x02".as_bytes());
    }

    #[test]
    fn oddities_are_pythons() {
        for (old, new) in [
            ("\"e\":\"2\"", "\"e\":2"),
            ("\"e\":\"2\"", "\"e\":\"02\""),
            ("\"e\":\"2\"", "\"e\":\"-0\""),
            ("\"e\":\"2\"", "\"e\":\"+2\""),
            ("\"e\":\"2\"", "\"e\":\"2.0\""),
            ("\"e\":\"2\"", "\"e\":\"2\",\"e\":\"2\""),
            ("\"e\":\"2\",", ""),
            ("\"k\":\"false\"", "\"k\":\"1\""),
            ("\"e\":\"2\"", "\"e\":\"3000000000\""),
            ("orders", "ord\\u0065rs"),
            ("\"flag\":0", "\"flag\": 0"),
            (":310", ":311"),
            ("\"flag\":0", "\"flag\":0,\"flag\":0"),
            ("401}", "401}}"),
            ("401}", "401"),
            ("\"flag\":0", "\"flaw\":0"),
        ] {
            let odd = HEADER.replace(old, new);
            assert_ne!(odd, HEADER);
            assert!(read::<false>(odd.as_bytes()).is_none(), "{odd}");
        }
        for end in 0..HEADER.len() {
            assert!(read::<false>(&HEADER.as_bytes()[..end]).is_none());
        }
    }
}
