//! Frames: length (u32), form and length of the header (u8 and u24), header, body; `wire/frame.py` has the layout.

use std::ops::Range;

pub const PREFIX_BYTES: usize = 8;
pub const FRAME_BYTES_MAX: usize = 16_777_216;
pub const HEADER_BYTES_MAX: usize = 0xFF_FFFF;

const LENGTH_BYTES: usize = 4; // which the length does not count

/// Where the parts of a frame lie in the data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    pub header: Range<usize>,
    pub body: Range<usize>,
}

/// The frame that begins at `start`; None unless it is whole, has a JSON header and at most `bytes_max` bytes.
#[inline]
pub fn frame_at(data: &[u8], start: usize, bytes_max: usize) -> Option<Frame> {
    let prefix: &[u8; PREFIX_BYTES] = data.get(start..)?.first_chunk()?;
    let length = u32::from_be_bytes([prefix[0], prefix[1], prefix[2], prefix[3]]) as usize;
    let header_bytes = u32::from_be_bytes([prefix[4], prefix[5], prefix[6], prefix[7]]) as usize;
    let end = start + LENGTH_BYTES + length;
    if header_bytes > HEADER_BYTES_MAX // the highest byte is the form, 0 for JSON
        || length < header_bytes + LENGTH_BYTES
        || length + LENGTH_BYTES > bytes_max
        || end > data.len()
    {
        return None;
    }
    let body_at = start + PREFIX_BYTES + header_bytes;
    Some(Frame { header: start + PREFIX_BYTES..body_at, body: body_at..end })
}

/// The first bytes of a frame whose header and body have so many; a JSON header.
#[inline]
pub fn prefix(header_bytes: usize, body_bytes: usize) -> [u8; PREFIX_BYTES] {
    let length = (LENGTH_BYTES + header_bytes + body_bytes) as u64;
    (length << 32 | header_bytes as u64).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_found_and_every_cut_is_not() {
        let mut data = b"..".to_vec();
        data.extend_from_slice(&prefix(6, 4));
        data.extend_from_slice(b"headerbody");
        let frame = frame_at(&data, 2, 18).unwrap();
        assert_eq!((&data[frame.header], &data[frame.body]), (&b"header"[..], &b"body"[..]));
        for end in 0..data.len() {
            assert_eq!(frame_at(&data[..end], 2, 18), None);
        }
        assert_eq!(frame_at(&data, 2, 17), None, "it is too large");
        assert_eq!(frame_at(&data, 200, 18), None, "there is nothing");
        data[6] = 1;
        assert_eq!(frame_at(&data, 2, 18), None, "its header is in another form");
        data[6] = 0;
        data[9] = 11;
        assert_eq!(frame_at(&data, 2, 18), None, "its header is longer than the frame");
    }
}
