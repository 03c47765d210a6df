//! JSON as clients and brokers write it, read in place and written.
//!
//! Read is what they write: no blanks, numbers in their shortest form, no name twice where one would count. None is for
//! everything else, valid or not: Python looks at it, and explains.

/// A JSON string without its quotes, as it stands there.
#[derive(Clone, Copy, Debug, Default)]
pub struct Text<'a> {
    pub raw: &'a [u8],
    pub is_escaped: bool,
}

pub struct Cursor<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    pub fn new(text: &'a [u8]) -> Self {
        Cursor { text, at: 0 }
    }

    /// Whether all of the text was read.
    pub fn is_at_end(&self) -> bool {
        self.at == self.text.len()
    }

    #[inline]
    fn expect(&mut self, byte: u8) -> Option<()> {
        if *self.text.get(self.at)? != byte {
            return None;
        }
        self.at += 1;
        Some(())
    }

    /// True after a comma, False after the brace that ends an object.
    #[inline]
    fn goes_on(&mut self) -> Option<bool> {
        let byte = *self.text.get(self.at)?;
        self.at += 1;
        match byte {
            b',' => Some(true),
            b'}' => Some(false),
            _ => None,
        }
    }

    /// All fields of an object: `take` reads the value of each name and says which bit it has, 0 for one that may come
    /// again. The bits that there were.
    #[inline]
    pub fn object(&mut self, mut take: impl FnMut(&mut Self, &'a [u8]) -> Option<u32>) -> Option<u32> {
        self.expect(b'{')?;
        let mut seen = 0;
        loop {
            let name = self.plain()?;
            self.expect(b':')?;
            let bit = take(self, name)?;
            if seen & bit != 0 {
                return None;
            }
            seen |= bit;
            if !self.goes_on()? {
                return Some(seen);
            }
        }
    }

    /// Whether an object without fields is next; then it is read.
    #[inline]
    pub fn empty_object(&mut self) -> bool {
        let is_next = self.text[self.at..].starts_with(b"{}");
        self.at += if is_next { 2 } else { 0 };
        is_next
    }

    #[inline]
    pub fn string(&mut self) -> Option<Text<'a>> {
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
    pub fn plain(&mut self) -> Option<&'a [u8]> {
        let text = self.string()?;
        (!text.is_escaped).then_some(text.raw)
    }

    /// All items of an array that has some: `take` reads each.
    #[inline]
    pub fn array(&mut self, mut take: impl FnMut(&mut Self) -> Option<()>) -> Option<()> {
        self.expect(b'[')?;
        loop {
            take(self)?;
            let byte = *self.text.get(self.at)?;
            self.at += 1;
            match byte {
                b',' => {}
                b']' => return Some(()),
                _ => return None,
            }
        }
    }

    /// A number that is no string.
    #[inline]
    pub fn number(&mut self) -> Option<i32> {
        i32::try_from(self.long()?).ok()
    }

    /// The same of 64 bits.
    #[inline]
    pub fn long(&mut self) -> Option<i64> {
        let start = self.at;
        while matches!(self.text.get(self.at)?, b'0'..=b'9' | b'-') {
            self.at += 1;
        }
        whole(&self.text[start..self.at])
    }
}

/// A whole number in its shortest form, of at most 18 digits.
#[inline]
pub fn whole(text: &[u8]) -> Option<i64> {
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

/// The same of 32 bits.
#[inline]
pub fn small(text: &[u8]) -> Option<i32> {
    i32::try_from(whole(text)?).ok()
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

/// Append a number in its shortest form.
#[inline]
pub fn put_decimal(into: &mut Vec<u8>, value: i64) {
    let mut digits = [0u8; 20];
    let (mut at, mut rest) = (digits.len(), value.unsigned_abs());
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if value < 0 {
        into.push(b'-');
    }
    into.extend_from_slice(&digits[at..]);
}

/// Append a JSON string with its quotes, escaped as msgspec does it.
pub fn put_string(into: &mut Vec<u8>, text: &[u8]) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    into.push(b'"');
    let mut plain = 0;
    for (at, &byte) in text.iter().enumerate() {
        if byte >= 0x20 && byte != b'"' && byte != b'\\' {
            continue;
        }
        into.extend_from_slice(&text[plain..at]);
        plain = at + 1;
        match byte {
            b'"' | b'\\' => into.extend_from_slice(&[b'\\', byte]),
            8 => into.extend_from_slice(b"\\b"),
            9 => into.extend_from_slice(b"\\t"),
            10 => into.extend_from_slice(b"\\n"),
            12 => into.extend_from_slice(b"\\f"),
            13 => into.extend_from_slice(b"\\r"),
            _ => into.extend_from_slice(&[
                b'\\',
                b'u',
                b'0',
                b'0',
                HEX[usize::from(byte >> 4)],
                HEX[usize::from(byte & 15)],
            ]),
        }
    }
    into.extend_from_slice(&text[plain..]);
    into.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_of_pairs_are_pythons() {
        for raw in [&br"\ud83d"[..], br"\ud83d\ude00", br"\u12", br"\x", br"\u+123", b"\\"] {
            assert!(unescape(Text { raw, is_escaped: true }, &mut Vec::new()).is_none(), "{raw:?}");
        }
    }

    #[test]
    fn an_object_is_read_and_no_name_that_counts_comes_twice() {
        let bits = |text: &str| {
            let mut cursor = Cursor::new(text.as_bytes());
            let seen = cursor.object(|cursor, name| {
                cursor.plain()?;
                Some(match name {
                    b"a" => 1,
                    b"b" => 2,
                    _ => 0,
                })
            });
            seen.filter(|_| cursor.is_at_end())
        };
        assert_eq!(bits(r#"{"x":"1","b":"2","x":"3"}"#), Some(2));
        assert_eq!(bits(r#"{"b":"","a":""}"#), Some(3));
        for odd in
            [r#"{"a":"1","a":"1"}"#, r#"{"a":"1",}"#, r#"{"a":1}"#, "{}", "[]", r#"{"a":"1"}}"#, r#"{"\u0061":"1"}"#]
        {
            assert_eq!(bits(odd), None, "{odd}");
        }
    }
}
