//! The JSON header of a command, request or response: what all of them have around their ext fields.

use crate::json::{Cursor, Text};

/// Name and value of an ext field.
pub type Field<'a> = (&'a [u8], Text<'a>);

/// As many ext fields as an ordinary request has, and some more.
pub const FIELDS: usize = 24;
/// Signed headers with more are Python's: fields have to be sorted before anybody is known.
pub const FIELDS_MAX: usize = 64;

/// Longer headers are Python's, which does not decode them field by field: `HEADER_BYTES_DECODED_MAX` of
/// `wire/received.py`.
pub const TEXT_BYTES_MAX: usize = 1280 * 1024;

// Which of its parts a header has.
pub const CODE: u32 = 1;
pub const EXT_FIELDS: u32 = 2;
pub const FLAG: u32 = 4;
pub const OPAQUE: u32 = 8;
pub const REMARK: u32 = 64;
const VERSION: u32 = 16;
const LANGUAGE: u32 = 32;
const SERIALIZATION: u32 = 128;

#[derive(Debug, Default)]
pub struct Command {
    pub code: i32,
    pub flag: i32,
    pub opaque: i32,
    has: u32,
}

impl Command {
    /// Whether it has all of these parts.
    #[inline]
    pub fn has(&self, parts: u32) -> bool {
        self.has & parts == parts
    }
}

/// A whole header, of which `ext_fields` reads the object of that name; None when it is long, has a part that is unknown,
/// or one twice. Whether the text is UTF-8 is not looked at.
#[inline]
pub fn read<'a>(text: &'a [u8], mut ext_fields: impl FnMut(&mut Cursor<'a>) -> Option<()>) -> Option<Command> {
    if text.len() > TEXT_BYTES_MAX {
        return None;
    }
    let mut cursor = Cursor::new(text);
    let mut command = Command::default();
    command.has = cursor.object(|cursor, name| {
        Some(match name {
            b"code" => {
                command.code = cursor.number()?;
                CODE
            }
            b"extFields" => {
                ext_fields(cursor)?;
                EXT_FIELDS
            }
            b"flag" => {
                command.flag = cursor.number()?;
                FLAG
            }
            b"opaque" => {
                command.opaque = cursor.number()?;
                OPAQUE
            }
            b"version" => cursor.number().map(|_| VERSION)?,
            b"language" => cursor.plain().map(|_| LANGUAGE)?,
            b"remark" => cursor.plain().map(|_| REMARK)?,
            b"serializeTypeCurrentRPC" => cursor.plain().map(|_| SERIALIZATION)?,
            _ => return None,
        })
    })?;
    cursor.is_at_end().then_some(command)
}

/// Keep a field for a signature.
#[inline]
pub fn keep<'a>(fields: &mut Vec<Field<'a>>, name: &'a [u8], value: Text<'a>) -> Option<()> {
    if fields.is_empty() {
        fields.reserve_exact(FIELDS);
    }
    fields.push((name, value));
    (fields.len() <= FIELDS_MAX).then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes_of_remark(count: usize) -> Option<Command> {
        let text = format!(r#"{{"code":0,"flag":1,"remark":"{}","opaque":7}}"#, "x".repeat(count));
        assert_eq!(text.len(), count + 42);
        read(text.as_bytes(), |_| None)
    }

    #[test]
    fn long_headers_are_pythons() {
        let command = bytes_of_remark(TEXT_BYTES_MAX - 42).unwrap();
        assert_eq!((command.code, command.flag, command.opaque), (0, 1, 7));
        assert!(command.has(CODE | FLAG | OPAQUE | REMARK) && !command.has(EXT_FIELDS));
        assert!(bytes_of_remark(TEXT_BYTES_MAX - 41).is_none());
    }
}
