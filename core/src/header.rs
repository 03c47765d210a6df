//! The JSON header of a send request (310, 320), read in place.
//!
//! Only what clients write is read: no blanks, numbers in their shortest form, ext fields as strings, no name of ours twice. None
//! is for everything else, valid or not: Python looks at it, and explains.

/// A JSON string without its quotes, as it stands there.
#[derive(Clone, Copy, Debug, Default)]
pub struct Text<'a> {
    pub raw: &'a [u8],
    pub is_escaped: bool,
}

/// As many ext fields as an ordinary request has, and some more.
pub const FIELDS: usize = 24;
/// Signed headers with more are Python's: fields have to be sorted before anybody is known.
pub const FIELDS_MAX: usize = 64;

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
    pub fields: Vec<(&'a [u8], Text<'a>)>,
}

pub(crate) struct Cursor<'a> {
    pub(crate) text: &'a [u8],
    pub(crate) at: usize,
}

impl<'a> Cursor<'a> {
    #[inline]
    pub(crate) fn expect(&mut self, byte: u8) -> Option<()> {
        if *self.text.get(self.at)? != byte {
            return None;
        }
        self.at += 1;
        Some(())
    }

    /// True after a comma, False after the brace that ends an object.
    #[inline]
    pub(crate) fn goes_on(&mut self) -> Option<bool> {
        let byte = *self.text.get(self.at)?;
        self.at += 1;
        match byte {
            b',' => Some(true),
            b'}' => Some(false),
            _ => None,
        }
    }

    #[inline]
    pub(crate) fn string(&mut self) -> Option<Text<'a>> {
        self.expect(b'"')?;
        let (start, mut is_escaped) = (self.at, false);
        loop {
            match *self.text.get(self.at)? {
                b'"' => break,
                b'\\' => {
                    is_escaped = true;
                    self.at += 2;
                }
                0..=0x1F => return None,
                _ => self.at += 1,
            }
        }
        let raw = &self.text[start..self.at];
        self.at += 1;
        Some(Text { raw, is_escaped })
    }

    /// A string that says what it is.
    #[inline]
    pub(crate) fn plain(&mut self) -> Option<&'a [u8]> {
        let text = self.string()?;
        (!text.is_escaped).then_some(text.raw)
    }

    #[inline]
    pub(crate) fn number(&mut self) -> Option<i32> {
        let start = self.at;
        while matches!(self.text.get(self.at)?, b'0'..=b'9' | b'-') {
            self.at += 1;
        }
        small(&self.text[start..self.at])
    }
}

/// A whole number in its shortest form, of at most 18 digits.
#[inline]
pub(crate) fn whole(text: &[u8]) -> Option<i64> {
    let (is_negative, digits) = match text.split_first()? {
        (b'-', digits) => (true, digits),
        _ => (false, text),
    };
    if digits.is_empty() || digits.len() > 18 || (digits[0] == b'0' && text.len() > 1) {
        return None;
    }
    let mut value: i64 = 0;
    for &digit in digits {
        if !digit.is_ascii_digit() {
            return None;
        }
        value = value * 10 + i64::from(digit - b'0');
    }
    Some(if is_negative { -value } else { value })
}

#[inline]
pub(crate) fn small(text: &[u8]) -> Option<i32> {
    i32::try_from(whole(text)?).ok()
}

#[inline]
fn truth(text: &[u8]) -> Option<bool> {
    match text {
        b"true" => Some(true),
        b"false" => Some(false),
        _ => None,
    }
}

/// The header of a send; with its ext fields as they came if `SIGNED`.
pub fn read<const SIGNED: bool>(text: &[u8]) -> Option<SendHeader<'_>> {
    if !text.starts_with(b"{\"code\":3") || std::str::from_utf8(text).is_err() {
        return None;
    }
    let mut cursor = Cursor { text, at: 1 };
    let mut header = SendHeader::default();
    if SIGNED {
        header.fields.reserve_exact(FIELDS);
    }
    let (mut seen, mut fields_seen) = (0u32, 0u32);
    loop {
        let name = cursor.plain()?;
        cursor.expect(b':')?;
        let bit = match name {
            b"code" => {
                header.code = cursor.number()?;
                1
            }
            b"extFields" => {
                fields_seen = read_fields::<SIGNED>(&mut cursor, &mut header)?;
                2
            }
            b"flag" => {
                header.flag = cursor.number()?;
                4
            }
            b"opaque" => {
                header.opaque = cursor.number()?;
                8
            }
            b"version" => {
                cursor.number()?;
                16
            }
            b"language" => {
                cursor.plain()?;
                32
            }
            b"remark" => {
                cursor.plain()?;
                64
            }
            b"serializeTypeCurrentRPC" => {
                cursor.plain()?;
                128
            }
            _ => return None,
        };
        if seen & bit != 0 {
            return None;
        }
        seen |= bit;
        if !cursor.goes_on()? {
            break;
        }
    }
    let is_send = header.code == 310 || header.code == 320;
    let is_complete = seen & 3 == 3 && fields_seen & REQUIRED == REQUIRED && cursor.at == text.len();
    (is_send && is_complete).then_some(header)
}

const REQUIRED: u32 = 0xFF; // a to h

/// Bits of the fields a to n that there were.
fn read_fields<'a, const SIGNED: bool>(cursor: &mut Cursor<'a>, header: &mut SendHeader<'a>) -> Option<u32> {
    let mut seen = 0u32;
    cursor.expect(b'{')?;
    loop {
        let name = cursor.plain()?;
        cursor.expect(b':')?;
        let value = cursor.string()?;
        if SIGNED {
            header.fields.push((name, value));
            if header.fields.len() > FIELDS_MAX {
                return None;
            }
        } else if value.is_escaped && name != b"i" {
            return None; // what is no escape is for Python to refuse
        }
        if let [letter @ b'a'..=b'n'] = *name {
            let bit = 1 << (letter - b'a');
            if seen & bit != 0 || (value.is_escaped && letter != b'i') {
                return None;
            }
            seen |= bit;
            match letter {
                b'b' => header.topic = value.raw,
                b'd' | b'l' => {
                    small(value.raw)?;
                }
                b'e' => header.queue_id = small(value.raw)?,
                b'f' => header.sys_flag = small(value.raw)?,
                b'g' => header.born_ms = whole(value.raw)?,
                b'h' => header.message_flag = small(value.raw)?,
                b'i' => header.properties = value,
                b'j' => header.attempts = small(value.raw)?,
                b'k' => {
                    truth(value.raw)?;
                }
                b'm' => header.is_batch = truth(value.raw)?,
                _ => {} // a, c and n: texts that a plain send does not need
            }
        }
        if !cursor.goes_on()? {
            return Some(seen);
        }
    }
}

/// Append what a string means. None for half of a surrogate pair, and for whole ones, which are rare.
#[inline]
pub fn unescape(text: Text<'_>, into: &mut Vec<u8>) -> Option<()> {
    if !text.is_escaped {
        into.extend_from_slice(text.raw);
        return Some(());
    }
    let mut rest = text.raw;
    while let Some(at) = rest.iter().position(|&byte| byte == b'\\') {
        into.extend_from_slice(&rest[..at]);
        let (escape, behind) = rest[at + 1..].split_first()?;
        rest = behind;
        match escape {
            b'u' => {
                let digits = std::str::from_utf8(rest.get(..4)?).ok()?;
                if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
                    return None;
                }
                let letter = char::from_u32(u32::from_str_radix(digits, 16).ok()?)?;
                rest = &rest[4..];
                if letter.is_ascii() {
                    into.push(letter as u8);
                } else {
                    into.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
                }
            }
            b'n' => into.push(b'\n'),
            b't' => into.push(b'\t'),
            b'r' => into.push(b'\r'),
            b'b' => into.push(8),
            b'f' => into.push(12),
            b'"' | b'\\' | b'/' => into.push(*escape),
            _ => return None,
        }
    }
    into.extend_from_slice(rest);
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn halves_of_pairs_are_pythons() {
        for raw in [&br"\ud83d"[..], br"\ud83d\ude00", br"\u12", br"\x", br"\u+123", b"\\"] {
            assert!(unescape(Text { raw, is_escaped: true }, &mut Vec::new()).is_none(), "{raw:?}");
        }
    }
}
