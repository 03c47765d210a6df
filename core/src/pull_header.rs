//! The JSON header of a pull request (11), read in place.
//!
//! As strict as that of a send: what clients write is read, and everything else is Python's, valid or not.

use crate::command::{self, Field, CODE, EXT_FIELDS, REMARK};
use crate::json::{small, whole, Cursor, Text};

#[derive(Debug, Default)]
pub struct PullHeader<'a> {
    pub opaque: i32,
    pub flag: i32,
    pub group: &'a [u8],
    pub topic: &'a [u8],
    pub queue_id: i32,
    pub offset: i64,
    pub count_max: i32,
    pub sys_flag: i32,
    pub commit_offset: i64,
    pub subscription: Option<&'a [u8]>,
    pub sub_version: i64,
    pub expression_type: Option<&'a [u8]>,
    pub bytes_max: Option<i32>,
    /// All ext fields, for signatures; empty unless they were asked for.
    pub fields: Vec<Field<'a>>,
}

const REQUIRED: u32 = 0x1FF; // of the fields below, those that every pull has

/// The header of a pull; with its ext fields as they came if `SIGNED`.
pub fn read<const SIGNED: bool>(text: &[u8]) -> Option<PullHeader<'_>> {
    if !text.starts_with(b"{\"code\":11,") || std::str::from_utf8(text).is_err() {
        return None;
    }
    let (mut header, mut fields) = (PullHeader::default(), 0);
    let command = command::read(text, |cursor| {
        fields = read_fields::<SIGNED>(cursor, &mut header)?;
        Some(())
    })?;
    (header.opaque, header.flag) = (command.opaque, command.flag);
    let is_plain = command.has(CODE | EXT_FIELDS) && !command.has(REMARK);
    (is_plain && fields & REQUIRED == REQUIRED).then_some(header)
}

/// Bits of the fields that there were. No name of ours comes twice, and nothing is escaped: what counts then, Python says.
#[inline]
fn read_fields<'a, const SIGNED: bool>(cursor: &mut Cursor<'a>, header: &mut PullHeader<'a>) -> Option<u32> {
    cursor.object(|cursor, name| {
        let value = cursor.plain()?;
        if SIGNED {
            command::keep(&mut header.fields, name, Text { raw: value, is_escaped: false })?;
        }
        Some(match name {
            b"consumerGroup" => {
                header.group = value;
                1
            }
            b"topic" => {
                header.topic = value;
                2
            }
            b"queueId" => {
                header.queue_id = small(value)?;
                4
            }
            b"queueOffset" => {
                header.offset = whole(value)?;
                8
            }
            b"maxMsgNums" => {
                header.count_max = small(value)?;
                0x10
            }
            b"sysFlag" => {
                header.sys_flag = small(value)?;
                0x20
            }
            b"commitOffset" => {
                header.commit_offset = whole(value)?;
                0x40
            }
            b"suspendTimeoutMillis" => {
                whole(value)?;
                0x80
            }
            b"subVersion" => {
                header.sub_version = whole(value)?;
                0x100
            }
            b"subscription" => {
                header.subscription = Some(value);
                0x200
            }
            b"expressionType" => {
                header.expression_type = Some(value);
                0x400
            }
            b"maxMsgBytes" => {
                header.bytes_max = Some(small(value)?);
                0x800
            }
            b"requestSource" => {
                small(value)?;
                0x1000
            }
            _ => 0, // texts that a pull does not need
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = concat!(
        r#"{"code":11,"extFields":{"consumerGroup":"g","topic":"orders","queueId":"2","queueOffset":"32","#,
        r#""maxMsgNums":"16","sysFlag":"7","commitOffset":"-1","suspendTimeoutMillis":"15000","subscription":"a || ä","#,
        r#""subVersion":"1700000000000","expressionType":"TAG","maxMsgBytes":"9","requestSource":"0","bname":"b"},"#,
        r#""flag":0,"language":"JAVA","opaque":-7,"serializeTypeCurrentRPC":"JSON","version":401}"#
    );

    #[test]
    fn a_header_is_read() {
        let header = read::<true>(HEADER.as_bytes()).unwrap();
        assert_eq!((header.group, header.topic, header.queue_id), (&b"g"[..], &b"orders"[..], 2));
        assert_eq!((header.offset, header.count_max, header.sys_flag, header.opaque), (32, 16, 7, -7));
        assert_eq!((header.commit_offset, header.sub_version, header.bytes_max), (-1, 1_700_000_000_000, Some(9)));
        assert_eq!(header.subscription, Some("a || ä".as_bytes()));
        assert_eq!(header.expression_type, Some(&b"TAG"[..]));
        assert_eq!((header.fields.len(), header.fields[13].0, header.fields[13].1.raw), (14, &b"bname"[..], &b"b"[..]));
        assert!(read::<false>(HEADER.as_bytes()).unwrap().fields.is_empty());
    }

    #[test]
    fn oddities_are_pythons() {
        for (old, new) in [
            ("\"queueId\":\"2\"", "\"queueId\":2"),
            ("\"queueId\":\"2\"", "\"queueId\":\"02\""),
            ("\"queueId\":\"2\"", "\"queueId\":\"2\",\"queueId\":\"2\""),
            ("\"queueId\":\"2\",", ""),
            ("\"queueOffset\":\"32\"", "\"queueOffset\":\"1e3\""),
            ("\"subscription\":\"a", "\"subscription\":\"\\u0061"),
            ("\"bname\":\"b\"", "\"bname\":\"\\x\""),
            ("\"bname\":\"b\"", "\"bname\":null"),
            ("\"requestSource\":\"0\"", "\"requestSource\":\"\""),
            ("\"flag\":0", "\"flag\": 0"),
            (":11,", ":12,"),
            ("\"flag\":0", "\"flag\":0,\"flag\":0"),
            ("\"flag\":0", "\"flag\":0,\"code\":12"),
            ("401}", "401}}"),
            ("401}", "401"),
            ("\"flag\":0", "\"flaw\":0"),
            ("\"flag\":0", "\"flag\":0,\"remark\":\"r\""),
        ] {
            let odd = HEADER.replace(old, new);
            assert_ne!(odd, HEADER);
            assert!(read::<false>(odd.as_bytes()).is_none() && read::<true>(odd.as_bytes()).is_none(), "{odd}");
        }
        for end in 0..HEADER.len() {
            assert!(read::<true>(&HEADER.as_bytes()[..end]).is_none());
        }
    }
}
