//! Java's String.hashCode of UTF-8 texts: tags are filtered by it, keys are indexed by it.

/// The hash of a text that goes on from the hash of what stands before it. The text must be UTF-8.
#[inline]
pub fn extend(hash: u32, text: &[u8]) -> u32 {
    if text.is_ascii() {
        return text.iter().fold(hash, |hash, &byte| step(hash, u32::from(byte)));
    }
    let text = String::from_utf8_lossy(text);
    text.encode_utf16().fold(hash, |hash, unit| step(hash, u32::from(unit)))
}

#[inline]
fn step(hash: u32, unit: u32) -> u32 {
    hash.wrapping_mul(31).wrapping_add(unit)
}

/// How a queue entry holds the hash of a tag: signed, 0 without one.
#[inline]
pub fn of_tag(tag: &[u8]) -> i64 {
    i64::from(extend(0, tag) as i32)
}

/// How the key index holds a hash: without its sign, and 2^31, which Java cannot negate, is 0.
#[inline]
pub fn for_index(hash: u32) -> u32 {
    (hash as i32).unsigned_abs() & 0x7FFF_FFFF
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_javas() {
        assert_eq!(extend(0, b"hello") as i32, 99_162_322);
        assert_eq!(extend(extend(0, b"hel"), b"lo"), extend(0, b"hello"));
        assert_eq!(extend(0, "ä😀".as_bytes()) as i32, (228 * 31 + 0xD83D) * 31 + 0xDE00);
        assert_eq!(for_index(0x8000_0000), 0);
    }
}
