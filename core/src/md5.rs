//! MD5 (RFC 1321), which clients of gRPC compare bodies by: a checksum, nothing that anybody may rely on for secrecy.

const SHIFTS: [[u32; 4]; 4] = [[7, 12, 17, 22], [5, 9, 14, 20], [4, 11, 16, 23], [6, 10, 15, 21]];
const BLOCK: usize = 64;

/// The table of RFC 1321: the fraction of the sine of 1, 2, ..., 64, times 2^32.
#[rustfmt::skip]
const SINES: [u32; 64] = [
    0xd76aa478, 0xe8c7b756, 0x242070db, 0xc1bdceee, 0xf57c0faf, 0x4787c62a, 0xa8304613, 0xfd469501,
    0x698098d8, 0x8b44f7af, 0xffff5bb1, 0x895cd7be, 0x6b901122, 0xfd987193, 0xa679438e, 0x49b40821,
    0xf61e2562, 0xc040b340, 0x265e5a51, 0xe9b6c7aa, 0xd62f105d, 0x02441453, 0xd8a1e681, 0xe7d3fbc8,
    0x21e1cde6, 0xc33707d6, 0xf4d50d87, 0x455a14ed, 0xa9e3e905, 0xfcefa3f8, 0x676f02d9, 0x8d2a4c8a,
    0xfffa3942, 0x8771f681, 0x6d9d6122, 0xfde5380c, 0xa4beea44, 0x4bdecfa9, 0xf6bb4b60, 0xbebfbc70,
    0x289b7ec6, 0xeaa127fa, 0xd4ef3085, 0x04881d05, 0xd9d4d039, 0xe6db99e5, 0x1fa27cf8, 0xc4ac5665,
    0xf4292244, 0x432aff97, 0xab9423a7, 0xfc93a039, 0x655b59c3, 0x8f0ccc92, 0xffeff47d, 0x85845dd1,
    0x6fa87e4f, 0xfe2ce6e0, 0xa3014314, 0x4e0811a1, 0xf7537e82, 0xbd3af235, 0x2ad7d2bb, 0xeb86d391,
];

/// The digest of all of the data.
pub fn md5(data: &[u8]) -> [u8; 16] {
    let mut state = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476];
    let mut blocks = data.chunks_exact(BLOCK);
    for block in &mut blocks {
        mix(&mut state, block.try_into().expect("64 bytes"));
    }
    let rest = blocks.remainder();
    let mut last = [0u8; 2 * BLOCK];
    last[..rest.len()].copy_from_slice(rest);
    last[rest.len()] = 0x80;
    let size = if rest.len() < BLOCK - 8 { BLOCK } else { 2 * BLOCK };
    last[size - 8..size].copy_from_slice(&(data.len() as u64 * 8).to_le_bytes());
    for block in last[..size].chunks_exact(BLOCK) {
        mix(&mut state, block.try_into().expect("64 bytes"));
    }
    let mut digest = [0; 16];
    for (into, word) in digest.chunks_exact_mut(4).zip(state) {
        into.copy_from_slice(&word.to_le_bytes());
    }
    digest
}

#[inline(always)]
fn step(a: u32, b: u32, mixed: u32, word: u32, sine: u32, shift: u32) -> u32 {
    a.wrapping_add(mixed).wrapping_add(word).wrapping_add(sine).rotate_left(shift).wrapping_add(b)
}

fn mix(state: &mut [u32; 4], block: &[u8; BLOCK]) {
    let mut words = [0u32; 16];
    for (word, bytes) in words.iter_mut().zip(block.chunks_exact(4)) {
        *word = u32::from_le_bytes(bytes.try_into().expect("4 bytes"));
    }
    let [mut a, mut b, mut c, mut d] = *state;
    // each round by itself, with bounds that the compiler knows, so that it unrolls them
    for i in 0..16 {
        let next = step(a, b, d ^ (b & (c ^ d)), words[i], SINES[i], SHIFTS[0][i % 4]);
        (a, d, c, b) = (d, c, b, next);
    }
    for i in 0..16 {
        // the two halves have no bit in common, so that they can be added apart
        let next = step(a.wrapping_add(!d & c), b, b & d, words[(5 * i + 1) % 16], SINES[16 + i], SHIFTS[1][i % 4]);
        (a, d, c, b) = (d, c, b, next);
    }
    for i in 0..16 {
        let next = step(a, b, b ^ c ^ d, words[(3 * i + 5) % 16], SINES[32 + i], SHIFTS[2][i % 4]);
        (a, d, c, b) = (d, c, b, next);
    }
    for i in 0..16 {
        let next = step(a, b, c ^ (b | !d), words[7 * i % 16], SINES[48 + i], SHIFTS[3][i % 4]);
        (a, d, c, b) = (d, c, b, next);
    }
    for (own, new) in state.iter_mut().zip([a, b, c, d]) {
        *own = own.wrapping_add(new);
    }
}

#[cfg(test)]
mod tests {
    use super::md5;

    fn hex(data: &[u8]) -> String {
        md5(data).iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn digests_of_the_rfc() {
        assert_eq!(hex(b""), "d41d8cd98f00b204e9800998ecf8427e");
        assert_eq!(hex(b"abc"), "900150983cd24fb0d6963f7d28e17f72");
        assert_eq!(hex(b"message digest"), "f96b697d7cb7938d525a2f31aaf161d0");
        assert_eq!(
            hex(b"12345678901234567890123456789012345678901234567890123456789012345678901234567890"),
            "57edf4a22be3c955ac49da2e2107b67a"
        );
    }

    #[test]
    fn every_length_around_the_padding() {
        let all: Vec<String> = (50..70).map(|size| hex(&vec![7; size])).collect();
        assert_eq!(all.iter().collect::<std::collections::HashSet<_>>().len(), 20);
    }
}
