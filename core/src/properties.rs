//! What a broker has to know of a message's properties, found in one pass.
//!
//! `name 0x01 value 0x02` repeated. Names that send a message on a detour (transactions, delays, pops, priorities, messages
//! inside of messages) are Python's wherever they stand, also inside a value; so is a checksum of an earlier life, and a name
//! that is only the end of a longer one or has no value: what then counts is for Python to say.

pub const NAME_END: u8 = 1;
pub const ITEM_END: u8 = 2;

/// How items of these names begin.
pub const TAGS_START: &[u8; 5] = b"TAGS\x01";
pub const KEYS_START: &[u8; 5] = b"KEYS\x01";
pub const UNIQUE_KEY_START: &[u8; 9] = b"UNIQ_KEY\x01";
pub const CHECKSUM_START: &[u8; 9] = b"__CRC32#\x01";
const NO_WAIT: &[u8; 10] = b"WAIT\x01false";
/// The names alone.
pub const TAGS: &[u8] = name(TAGS_START);
pub const KEYS: &[u8] = name(KEYS_START);
pub const UNIQUE_KEY: &[u8] = name(UNIQUE_KEY_START);
pub const CHECKSUM: &[u8] = name(CHECKSUM_START);

/// The checksum of a record is its last property: its digits, the least significant first, and the end of the item.
pub const CHECKSUM_BYTES: usize = CHECKSUM_START.len() + CHECKSUM_DIGITS + 1;
pub const CHECKSUM_DIGITS: usize = 10;

const DETOURS: [&[u8]; 6] = [b"TRAN_MSG", b"TIMER_D", b"DELAY", b"INNER_NUM", b"POP_CK", b"PRIORITY_"];
const CHECKSUM_BEGIN: &[u8] = b"__CRC32"; // and "#", which is rare

const fn name(start: &'static [u8]) -> &'static [u8] {
    start.split_at(start.len() - 1).0
}

/// Values are empty where there is none.
#[derive(Debug, PartialEq, Eq)]
pub struct Facts<'a> {
    pub unique_key: &'a [u8],
    pub keys: &'a [u8],
    pub tag: &'a [u8],
    /// False: its sender does not want to wait for the disk.
    pub waits: bool,
}

/// None: something in them is Python's.
#[inline]
pub fn look(raw: &[u8]) -> Option<Facts<'_>> {
    let mut facts = Facts { unique_key: b"", keys: b"", tag: b"", waits: true };
    for at in 0..raw.len() {
        match raw[at] {
            b'T' => {
                let rest = &raw[at..];
                if rest.starts_with(DETOURS[0]) || rest.starts_with(DETOURS[1]) {
                    return None;
                }
                if rest.starts_with(TAGS_START) {
                    facts.tag = value(raw, at, TAGS_START.len())?;
                }
            }
            b'D' if raw[at..].starts_with(DETOURS[2]) => return None,
            b'I' if raw[at..].starts_with(DETOURS[3]) => return None,
            b'P' if raw[at..].starts_with(DETOURS[4]) || raw[at..].starts_with(DETOURS[5]) => return None,
            b'W' if raw[at..].starts_with(NO_WAIT) => facts.waits = false,
            b'U' if raw[at..].starts_with(UNIQUE_KEY_START) => {
                facts.unique_key = value(raw, at, UNIQUE_KEY_START.len())?
            }
            b'K' if raw[at..].starts_with(KEYS_START) => facts.keys = value(raw, at, KEYS_START.len())?,
            b'#' if raw[..at].ends_with(CHECKSUM_BEGIN) => return None,
            _ => {}
        }
    }
    Some(facts)
}

/// The value of the item that begins there, behind so many bytes; None if it is the end of a longer name, or has no value.
#[inline]
pub fn value(raw: &[u8], at: usize, start_bytes: usize) -> Option<&[u8]> {
    if at > 0 && raw[at - 1] != ITEM_END {
        return None;
    }
    let rest = &raw[at + start_bytes..];
    let found = &rest[..rest.iter().position(|&byte| byte == ITEM_END).unwrap_or(rest.len())];
    (!found.is_empty()).then_some(found)
}

/// The keys that the index holds of a message: its unique key, then each word of KEYS.
pub fn keys<'a>(facts: &Facts<'a>) -> impl Iterator<Item = &'a [u8]> {
    let unique = (!facts.unique_key.is_empty()).then_some(facts.unique_key);
    unique.into_iter().chain(facts.keys.split(|&byte| byte == b' ').filter(|key| !key.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_of_plain_properties() {
        let facts = look(b"KEYS\x01a  b\x02UNIQ_KEY\x01U1\x02TAGS\x01x\x02TAGS\x01y\x02").unwrap();
        assert_eq!((facts.unique_key, facts.tag, facts.waits), (&b"U1"[..], &b"y"[..], true));
        assert_eq!(keys(&facts).collect::<Vec<_>>(), [&b"U1"[..], b"a", b"b"]);
        assert!(!look(b"WAIT\x01false").unwrap().waits);
        assert_eq!(look(b"a\x01x#y\x02").unwrap().keys, b"");
    }

    #[test]
    fn what_is_out_of_the_ordinary_is_pythons() {
        for raw in [
            &b"DELAY\x013\x02"[..],
            b"x\x01aDELAYb\x02",
            b"TIMER_DELAY_MS\x011\x02",
            b"TRAN_MSG\x01true\x02",
            b"POP_CK\x01x",
            b"_SYS_MSG_PRIORITY_\x019\x02",
            b"INNER_NUM\x012\x02",
            b"MYTAGS\x01x\x02",
            b"TAGS\x01\x02",
            b"KEYS\x01\x02",
            b"a\x01KEYS\x01b\x02",
            b"__CRC32#\x010123456789\x02",
        ] {
            assert_eq!(look(raw), None, "{raw:?}");
        }
    }
}
