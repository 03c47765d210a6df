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

const START: [u32; 4] = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476];
const NOTHING: &[u8; BLOCK] = &[0; BLOCK];

pub type Digest = [u8; 16];

/// Blocks of one text, its padding with them.
struct Blocks<'a> {
    whole: &'a [u8],
    last: [u8; 2 * BLOCK], // what is left, and the padding
    count: usize,
}

impl<'a> Blocks<'a> {
    fn of(data: &'a [u8]) -> Self {
        let (whole, rest) = data.split_at(data.len() / BLOCK * BLOCK);
        let mut last = [0u8; 2 * BLOCK];
        last[..rest.len()].copy_from_slice(rest);
        last[rest.len()] = 0x80;
        let size = if rest.len() < BLOCK - 8 { BLOCK } else { 2 * BLOCK };
        last[size - 8..size].copy_from_slice(&(data.len() as u64 * 8).to_le_bytes());
        Blocks { whole, last, count: (whole.len() + size) / BLOCK }
    }

    /// Zeros behind the last one.
    #[inline(always)]
    fn get(&self, number: usize) -> &[u8; BLOCK] {
        if number >= self.count {
            return NOTHING;
        }
        let at = number * BLOCK;
        let rest = if at < self.whole.len() { &self.whole[at..] } else { &self.last[at - self.whole.len()..] };
        rest.first_chunk().expect("64 bytes")
    }
}

/// The digest of all of the data.
pub fn md5(data: &[u8]) -> Digest {
    let (mut state, blocks) = (START, Blocks::of(data));
    for number in 0..blocks.count {
        mix(&mut state, blocks.get(number));
    }
    digest_of(state)
}

/// The digest of each; eight side by side where the processor can.
pub fn md5_each(texts: &[&[u8]]) -> Vec<Digest> {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        let mut found = Vec::with_capacity(texts.len());
        for some in texts.chunks(wide::LANES) {
            if some.len() < wide::WORTH {
                found.extend(some.iter().map(|text| md5(text)));
            } else {
                // SAFETY: this processor has AVX2.
                found.extend_from_slice(&unsafe { wide::md5(some) }[..some.len()]);
            }
        }
        return found;
    }
    texts.iter().map(|text| md5(text)).collect()
}

fn digest_of(state: [u32; 4]) -> Digest {
    let mut digest = [0; 16];
    for (into, word) in digest.chunks_exact_mut(4).zip(state) {
        into.copy_from_slice(&word.to_le_bytes());
    }
    digest
}

/// Eight texts at once, each in its 32 bits of every register.
#[cfg(target_arch = "x86_64")]
mod wide {
    use super::{digest_of, Blocks, Digest, BLOCK, SHIFTS, SINES, START};
    use std::arch::x86_64::*;

    pub const LANES: usize = 8;
    pub const WORTH: usize = 2; // fewer texts are digested one by one

    /// Up to eight texts; what is behind the last of fewer means nothing.
    #[target_feature(enable = "avx2")]
    pub unsafe fn md5(texts: &[&[u8]]) -> [Digest; LANES] {
        let blocks: [Blocks<'_>; LANES] = std::array::from_fn(|lane| Blocks::of(texts.get(lane).unwrap_or(&&[][..])));
        let counts: [i32; LANES] = std::array::from_fn(|lane| blocks[lane].count as i32);
        let most = counts.iter().copied().max().unwrap_or(0);
        let counts = _mm256_loadu_si256(counts.as_ptr().cast());
        let mut state = START.map(|word| _mm256_set1_epi32(word as i32));
        for number in 0..most {
            let words = words_of(std::array::from_fn(|lane| blocks[lane].get(number as usize)));
            // those that have ended stay as they are
            let is_alive = _mm256_cmpgt_epi32(counts, _mm256_set1_epi32(number));
            let mixed = mix(state, &words);
            for (own, new) in state.iter_mut().zip(mixed) {
                *own = _mm256_add_epi32(*own, _mm256_and_si256(new, is_alive));
            }
        }
        let mut found = [[0u32; LANES]; 4];
        for (into, own) in found.iter_mut().zip(state) {
            _mm256_storeu_si256(into.as_mut_ptr().cast(), own);
        }
        std::array::from_fn(|lane| digest_of(std::array::from_fn(|word| found[word][lane])))
    }

    /// The sixteen words of a block, each of all texts.
    #[target_feature(enable = "avx2")]
    unsafe fn words_of(blocks: [&[u8; BLOCK]; LANES]) -> [__m256i; 16] {
        let mut words = [_mm256_setzero_si256(); 16];
        for (half, into) in words.chunks_exact_mut(LANES).enumerate() {
            let rows = blocks.map(|block| unsafe { _mm256_loadu_si256(block.as_ptr().add(32 * half).cast()) });
            let mut pairs = [_mm256_setzero_si256(); LANES];
            for i in 0..4 {
                pairs[2 * i] = _mm256_unpacklo_epi32(rows[2 * i], rows[2 * i + 1]);
                pairs[2 * i + 1] = _mm256_unpackhi_epi32(rows[2 * i], rows[2 * i + 1]);
            }
            for i in 0..4 {
                // words 0, 1, 2, 3 of the lower half of each row, and 4, 5, 6, 7 of the upper one
                let (low, high) = (pairs[i / 2], pairs[i / 2 + 2]);
                let (low_end, high_end) = (pairs[i / 2 + 4], pairs[i / 2 + 6]);
                let (first, second) = if i % 2 == 0 {
                    (_mm256_unpacklo_epi64(low, high), _mm256_unpacklo_epi64(low_end, high_end))
                } else {
                    (_mm256_unpackhi_epi64(low, high), _mm256_unpackhi_epi64(low_end, high_end))
                };
                into[i] = _mm256_permute2x128_si256::<0x20>(first, second);
                into[i + 4] = _mm256_permute2x128_si256::<0x31>(first, second);
            }
        }
        words
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn step(a: __m256i, b: __m256i, mixed: __m256i, word: __m256i, sine: u32, shift: u32) -> __m256i {
        let sum = _mm256_add_epi32(_mm256_add_epi32(a, word), _mm256_set1_epi32(sine as i32));
        let sum = _mm256_add_epi32(sum, mixed);
        let (left, right) = (_mm_cvtsi32_si128(shift as i32), _mm_cvtsi32_si128(32 - shift as i32));
        _mm256_add_epi32(b, _mm256_or_si256(_mm256_sll_epi32(sum, left), _mm256_srl_epi32(sum, right)))
    }

    #[target_feature(enable = "avx2")]
    unsafe fn mix(state: [__m256i; 4], words: &[__m256i; 16]) -> [__m256i; 4] {
        let [mut a, mut b, mut c, mut d] = state;
        let ones = _mm256_set1_epi32(-1);
        for i in 0..16 {
            let mixed = _mm256_xor_si256(d, _mm256_and_si256(b, _mm256_xor_si256(c, d)));
            let next = step(a, b, mixed, words[i], SINES[i], SHIFTS[0][i % 4]);
            (a, d, c, b) = (d, c, b, next);
        }
        for i in 0..16 {
            let mixed = _mm256_or_si256(_mm256_andnot_si256(d, c), _mm256_and_si256(b, d));
            let next = step(a, b, mixed, words[(5 * i + 1) % 16], SINES[16 + i], SHIFTS[1][i % 4]);
            (a, d, c, b) = (d, c, b, next);
        }
        for i in 0..16 {
            let mixed = _mm256_xor_si256(b, _mm256_xor_si256(c, d));
            let next = step(a, b, mixed, words[(3 * i + 5) % 16], SINES[32 + i], SHIFTS[2][i % 4]);
            (a, d, c, b) = (d, c, b, next);
        }
        for i in 0..16 {
            let mixed = _mm256_xor_si256(c, _mm256_or_si256(b, _mm256_xor_si256(d, ones)));
            let next = step(a, b, mixed, words[7 * i % 16], SINES[48 + i], SHIFTS[3][i % 4]);
            (a, d, c, b) = (d, c, b, next);
        }
        [a, b, c, d]
    }
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
    use super::{md5, md5_each};

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
    fn side_by_side_they_are_what_each_is_alone() {
        let data: Vec<u8> = (0..20_000u32).map(|number| (number * number >> 7) as u8).collect();
        for count in 0..20 {
            let texts: Vec<&[u8]> = (0..count).map(|i| &data[i..(i * 61 * (i % 5 + 1)).max(i)]).collect();
            let alone: Vec<_> = texts.iter().map(|text| md5(text)).collect();
            assert_eq!(md5_each(&texts), alone);
        }
        let same: Vec<&[u8]> = (50..70).map(|size| &data[..size]).collect();
        assert_eq!(md5_each(&same), same.iter().map(|text| md5(text)).collect::<Vec<_>>());
    }

    #[test]
    fn every_length_around_the_padding() {
        let all: Vec<String> = (50..70).map(|size| hex(&vec![7; size])).collect();
        assert_eq!(all.iter().collect::<std::collections::HashSet<_>>().len(), 20);
    }
}
