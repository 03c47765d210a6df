//! HPACK, the receiving side (RFC 7541): `wire/http2/hpack.py` has the format, and is the reference.

use std::collections::VecDeque;

const TABLE_BYTES_MAX: usize = 4096;
const FIELD_BYTES: usize = 32;
const NUMBER_BYTES_MAX: usize = 4; // behind the first
const DYNAMIC_AT: usize = STATIC.len() + 1;
const PAD_BITS_MAX: u32 = 7;

#[rustfmt::skip]
const STATIC: [(&[u8], &[u8]); 61] = [
    (b":authority", b""),
    (b":method", b"GET"),
    (b":method", b"POST"),
    (b":path", b"/"),
    (b":path", b"/index.html"),
    (b":scheme", b"http"),
    (b":scheme", b"https"),
    (b":status", b"200"),
    (b":status", b"204"),
    (b":status", b"206"),
    (b":status", b"304"),
    (b":status", b"400"),
    (b":status", b"404"),
    (b":status", b"500"),
    (b"accept-charset", b""),
    (b"accept-encoding", b"gzip, deflate"),
    (b"accept-language", b""),
    (b"accept-ranges", b""),
    (b"accept", b""),
    (b"access-control-allow-origin", b""),
    (b"age", b""),
    (b"allow", b""),
    (b"authorization", b""),
    (b"cache-control", b""),
    (b"content-disposition", b""),
    (b"content-encoding", b""),
    (b"content-language", b""),
    (b"content-length", b""),
    (b"content-location", b""),
    (b"content-range", b""),
    (b"content-type", b""),
    (b"cookie", b""),
    (b"date", b""),
    (b"etag", b""),
    (b"expect", b""),
    (b"expires", b""),
    (b"from", b""),
    (b"host", b""),
    (b"if-match", b""),
    (b"if-modified-since", b""),
    (b"if-none-match", b""),
    (b"if-range", b""),
    (b"if-unmodified-since", b""),
    (b"last-modified", b""),
    (b"link", b""),
    (b"location", b""),
    (b"max-forwards", b""),
    (b"proxy-authenticate", b""),
    (b"proxy-authorization", b""),
    (b"range", b""),
    (b"referer", b""),
    (b"refresh", b""),
    (b"retry-after", b""),
    (b"server", b""),
    (b"set-cookie", b""),
    (b"strict-transport-security", b""),
    (b"transfer-encoding", b""),
    (b"user-agent", b""),
    (b"vary", b""),
    (b"via", b""),
    (b"www-authenticate", b""),
];

/// Bytes by the length of their codes in Huffman's code.
#[rustfmt::skip]
const BY_LENGTH: [(u32, &[u8]); 21] = [
    (5, &[0x30, 0x31, 0x32, 0x61, 0x63, 0x65, 0x69, 0x6f, 0x73, 0x74]),
    (6, &[0x20, 0x25, 0x2d, 0x2e, 0x2f, 0x33, 0x34, 0x35, 0x36, 0x37, 0x38, 0x39, 0x3d, 0x41, 0x5f, 0x62, 0x64, 0x66, 0x67, 0x68, 0x6c, 0x6d, 0x6e, 0x70, 0x72, 0x75]),
    (7, &[0x3a, 0x42, 0x43, 0x44, 0x45, 0x46, 0x47, 0x48, 0x49, 0x4a, 0x4b, 0x4c, 0x4d, 0x4e, 0x4f, 0x50, 0x51, 0x52, 0x53, 0x54, 0x55, 0x56, 0x57, 0x59, 0x6a, 0x6b, 0x71, 0x76, 0x77, 0x78, 0x79, 0x7a]),
    (8, &[0x26, 0x2a, 0x2c, 0x3b, 0x58, 0x5a]),
    (10, &[0x21, 0x22, 0x28, 0x29, 0x3f]),
    (11, &[0x27, 0x2b, 0x7c]),
    (12, &[0x23, 0x3e]),
    (13, &[0x00, 0x24, 0x40, 0x5b, 0x5d, 0x7e]),
    (14, &[0x5e, 0x7d]),
    (15, &[0x3c, 0x60, 0x7b]),
    (19, &[0x5c, 0xc3, 0xd0]),
    (20, &[0x80, 0x82, 0x83, 0xa2, 0xb8, 0xc2, 0xe0, 0xe2]),
    (21, &[0x99, 0xa1, 0xa7, 0xac, 0xb0, 0xb1, 0xb3, 0xd1, 0xd8, 0xd9, 0xe3, 0xe5, 0xe6]),
    (22, &[0x81, 0x84, 0x85, 0x86, 0x88, 0x92, 0x9a, 0x9c, 0xa0, 0xa3, 0xa4, 0xa9, 0xaa, 0xad, 0xb2, 0xb5, 0xb9, 0xba, 0xbb, 0xbd, 0xbe, 0xc4, 0xc6, 0xe4, 0xe8, 0xe9]),
    (23, &[0x01, 0x87, 0x89, 0x8a, 0x8b, 0x8c, 0x8d, 0x8f, 0x93, 0x95, 0x96, 0x97, 0x98, 0x9b, 0x9d, 0x9e, 0xa5, 0xa6, 0xa8, 0xae, 0xaf, 0xb4, 0xb6, 0xb7, 0xbc, 0xbf, 0xc5, 0xe7, 0xef]),
    (24, &[0x09, 0x8e, 0x90, 0x91, 0x94, 0x9f, 0xab, 0xce, 0xd7, 0xe1, 0xec, 0xed]),
    (25, &[0xc7, 0xcf, 0xea, 0xeb]),
    (26, &[0xc0, 0xc1, 0xc8, 0xc9, 0xca, 0xcd, 0xd2, 0xd5, 0xda, 0xdb, 0xee, 0xf0, 0xf2, 0xf3, 0xff]),
    (27, &[0xcb, 0xcc, 0xd3, 0xd4, 0xd6, 0xdd, 0xde, 0xdf, 0xf1, 0xf4, 0xf5, 0xf6, 0xf7, 0xf8, 0xfa, 0xfb, 0xfc, 0xfd, 0xfe]),
    (28, &[0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x0b, 0x0c, 0x0e, 0x0f, 0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x17, 0x18, 0x19, 0x1a, 0x1b, 0x1c, 0x1d, 0x1e, 0x1f, 0x7f, 0xdc, 0xf9]),
    (30, &[0x0a, 0x0d, 0x16]),
];

/// A block that cannot be decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Damage {
    Cut,
    TextCut,
    Number,
    Field0,
    Resized,
    TableBytes(usize),
    HuffmanEnd,
    HuffmanCut,
    ListBytes(usize),
}

impl Damage {
    /// What Python says of it.
    pub fn text(&self) -> String {
        match self {
            Damage::Cut => "a header block is cut, or has a field that is not in the tables".into(),
            Damage::TextCut => "a header block is cut".into(),
            Damage::Number => "a number of a header block is too large".into(),
            Damage::Field0 => "there is no field 0 in the tables".into(),
            Damage::Resized => "the table changes its size in the middle of a block".into(),
            Damage::TableBytes(size) => format!("a table of {size} bytes, at most {TABLE_BYTES_MAX} are allowed"),
            Damage::HuffmanEnd => "a text in Huffman's code has its end in the middle".into(),
            Damage::HuffmanCut => "a text in Huffman's code is cut".into(),
            Damage::ListBytes(most) => format!("a header list of more than {most} bytes"),
        }
    }
}

/// Names and values, one behind the other.
#[derive(Default)]
pub struct Fields {
    bytes: Vec<u8>,
    ends: Vec<(u32, u32)>, // of each name and value
}

impl Fields {
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let mut at = 0;
        self.ends.iter().map(move |&(name, value)| {
            let start = std::mem::replace(&mut at, value as usize);
            (&self.bytes[start..name as usize], &self.bytes[name as usize..value as usize])
        })
    }
}

/// Where a byte of Huffman's code leads: by state and byte, the next state and up to two bytes that it emits.
#[derive(Clone, Copy)]
struct Move {
    next: u16,
    count: u8,
    bytes: [u8; 2],
}

struct Huffman {
    moves: Vec<Move>,  // 256 for each state
    ends: [bool; 256], // states in which a text may end
}

const NOWHERE: u16 = u16::MAX;

impl Huffman {
    fn new() -> Self {
        // by state and bit: the next state, or 256 and the byte that ends here
        let mut nodes: Vec<[u16; 2]> = vec![[0, 0]];
        let (mut code, mut last) = (0u32, 0u32);
        for (length, symbols) in BY_LENGTH {
            for &symbol in symbols {
                code <<= length - last;
                last = length;
                let mut state = 0usize;
                for shift in (1..length).rev() {
                    let bit = (code >> shift & 1) as usize;
                    if nodes[state][bit] == 0 {
                        nodes[state][bit] = nodes.len() as u16;
                        nodes.push([0, 0]);
                    }
                    state = nodes[state][bit] as usize;
                }
                nodes[state][(code & 1) as usize] = 256 + u16::from(symbol);
                code += 1;
            }
        }
        let mut moves = Vec::with_capacity(nodes.len() * 256);
        for start in 0..nodes.len() {
            for byte in 0..=255u8 {
                moves.push(follow(&nodes, start, byte));
            }
        }
        let mut ends = [false; 256];
        let mut state = 0usize;
        for _ in 0..=PAD_BITS_MAX {
            ends[state] = true;
            state = nodes[state][1] as usize;
        }
        Huffman { moves, ends }
    }

    fn decode(&self, data: &[u8], into: &mut Vec<u8>) -> Result<(), Damage> {
        let mut state = 0usize;
        for &byte in data {
            let found = &self.moves[state << 8 | byte as usize];
            if found.next == NOWHERE {
                return Err(Damage::HuffmanEnd);
            }
            into.extend_from_slice(&found.bytes[..found.count as usize]);
            state = found.next as usize;
        }
        self.ends[state].then_some(()).ok_or(Damage::HuffmanCut)
    }
}

fn follow(nodes: &[[u16; 2]], start: usize, byte: u8) -> Move {
    let mut found = Move { next: start as u16, count: 0, bytes: [0; 2] };
    for shift in (0..8).rev() {
        let next = nodes[found.next as usize][(byte >> shift & 1) as usize];
        if next >= 256 {
            found.bytes[found.count as usize] = (next - 256) as u8;
            found.count += 1;
            found.next = 0;
        } else if next == 0 {
            return Move { next: NOWHERE, ..found };
        } else {
            found.next = next;
        }
    }
    found
}

fn huffman() -> &'static Huffman {
    static TABLE: std::sync::OnceLock<Huffman> = std::sync::OnceLock::new();
    TABLE.get_or_init(Huffman::new)
}

/// A field of the dynamic table: name and value in one piece.
struct Entry {
    bytes: Box<[u8]>,
    name: usize,
}

/// The tables of one connection.
pub struct Tables {
    list_bytes_max: usize,
    pub list_bytes: usize,    // of the last list
    entries: VecDeque<Entry>, // the newest first
    bytes: usize,
    bytes_max: usize,
}

impl Tables {
    pub fn new(list_bytes_max: usize) -> Self {
        Tables { list_bytes_max, list_bytes: 0, entries: VecDeque::new(), bytes: 0, bytes_max: TABLE_BYTES_MAX }
    }

    /// Decode a block into `fields`, which is emptied first.
    pub fn decode(&mut self, block: &[u8], fields: &mut Fields) -> Result<(), Damage> {
        fields.clear();
        let (mut at, mut left) = (0, self.list_bytes_max);
        while at < block.len() {
            let byte = block[at];
            let start = fields.bytes.len();
            at += 1;
            if byte & 0x80 != 0 {
                let index = number(block, &mut at, byte, 0x7F)?;
                let (name, value) = self.field(index)?;
                fields.bytes.extend_from_slice(name);
                let name_end = fields.bytes.len() as u32;
                fields.bytes.extend_from_slice(value);
                fields.ends.push((name_end, fields.bytes.len() as u32));
            } else if byte & 0x60 == 0x20 {
                let size = number(block, &mut at, byte, 0x1F)?;
                self.resize(size, fields.ends.is_empty())?;
                continue;
            } else {
                let mask = if byte & 0x40 != 0 { 0x3F } else { 0x0F };
                let index = number(block, &mut at, byte, mask)?;
                if index == 0 {
                    text(block, &mut at, &mut fields.bytes)?;
                } else {
                    let name = self.field(index)?.0;
                    fields.bytes.extend_from_slice(name);
                }
                let name_end = fields.bytes.len();
                text(block, &mut at, &mut fields.bytes)?;
                fields.ends.push((name_end as u32, fields.bytes.len() as u32));
                if byte & 0x40 != 0 {
                    self.add(&fields.bytes[start..], name_end - start);
                }
            }
            let size = fields.bytes.len() - start + FIELD_BYTES;
            if size > left {
                return Err(Damage::ListBytes(self.list_bytes_max));
            }
            left -= size;
        }
        self.list_bytes = self.list_bytes_max - left;
        Ok(())
    }

    fn field(&self, index: usize) -> Result<(&[u8], &[u8]), Damage> {
        if index == 0 {
            return Err(Damage::Field0);
        }
        if index < DYNAMIC_AT {
            return Ok(STATIC[index - 1]);
        }
        let entry = self.entries.get(index - DYNAMIC_AT).ok_or(Damage::Cut)?;
        Ok(entry.bytes.split_at(entry.name))
    }

    fn add(&mut self, bytes: &[u8], name: usize) {
        self.bytes += bytes.len() + FIELD_BYTES;
        self.entries.push_front(Entry { bytes: bytes.into(), name });
        self.shrink();
    }

    fn shrink(&mut self) {
        while self.bytes > self.bytes_max {
            let oldest = self.entries.pop_back().expect("bytes are of entries");
            self.bytes -= oldest.bytes.len() + FIELD_BYTES;
        }
    }

    fn resize(&mut self, size: usize, is_first: bool) -> Result<(), Damage> {
        if !is_first {
            return Err(Damage::Resized);
        }
        if size > TABLE_BYTES_MAX {
            return Err(Damage::TableBytes(size));
        }
        self.bytes_max = size;
        self.shrink();
        Ok(())
    }
}

#[inline]
fn number(block: &[u8], at: &mut usize, first: u8, mask: u8) -> Result<usize, Damage> {
    let mut found = usize::from(first & mask);
    if found < usize::from(mask) {
        return Ok(found);
    }
    for index in 0..NUMBER_BYTES_MAX {
        let byte = *block.get(*at).ok_or(Damage::Cut)?;
        *at += 1;
        found += usize::from(byte & 0x7F) << (7 * index);
        if byte < 0x80 {
            return Ok(found);
        }
    }
    Err(Damage::Number)
}

#[inline]
fn text(block: &[u8], at: &mut usize, into: &mut Vec<u8>) -> Result<(), Damage> {
    let first = *block.get(*at).ok_or(Damage::Cut)?;
    *at += 1;
    let size = number(block, at, first, 0x7F)?;
    let raw = block.get(*at..*at + size).ok_or(Damage::TextCut)?;
    *at += size;
    if first & 0x80 != 0 {
        huffman().decode(raw, into)
    } else {
        into.extend_from_slice(raw);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(tables: &mut Tables, hex: &str) -> Result<Vec<(String, String)>, Damage> {
        let pairs = |at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
        let block: Vec<u8> = (0..hex.len()).step_by(2).map(pairs).collect();
        let mut fields = Fields::default();
        tables.decode(&block, &mut fields)?;
        let text = |raw: &[u8]| String::from_utf8(raw.to_vec()).unwrap();
        Ok(fields.iter().map(|(name, value)| (text(name), text(value))).collect())
    }

    #[test]
    fn requests_of_the_rfc() {
        for blocks in [
            ["828684410f7777772e6578616d706c652e636f6d", "828684be58086e6f2d6361636865"],
            ["828684418cf1e3c2e5f23a6ba0ab90f4ff", "828684be5886a8eb10649cbf"],
        ] {
            let mut tables = Tables::new(1000);
            let first = decoded(&mut tables, blocks[0]).unwrap();
            assert_eq!(first[3], (":authority".into(), "www.example.com".into()));
            let second = decoded(&mut tables, blocks[1]).unwrap();
            assert_eq!(second[3..], [first[3].clone(), ("cache-control".into(), "no-cache".into())]);
        }
    }

    #[test]
    fn damage_is_named() {
        for (hex, wanted) in [
            ("80", Damage::Field0),
            ("be", Damage::Cut),
            ("400361", Damage::TextCut),
            ("ffffffffff0f", Damage::Number),
            ("8220", Damage::Resized),
            ("3fe21f", Damage::TableBytes(4097)),
            ("4001618 1ff".replace(' ', "").as_str(), Damage::HuffmanCut),
        ] {
            assert_eq!(decoded(&mut Tables::new(1000), hex), Err(wanted), "{hex}");
        }
    }
}
