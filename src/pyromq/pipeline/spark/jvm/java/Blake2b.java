package pyromq.lane;

import java.util.Arrays;

/** BLAKE2b without a key (RFC 7693), as Python's hashlib has it and Java's library does not. */
final class Blake2b {
  private static final int BLOCK_BYTES = 128;
  private static final int ROUNDS = 12;
  private static final long[] START = {
    0x6a09e667f3bcc908L, 0xbb67ae8584caa73bL, 0x3c6ef372fe94f82bL, 0xa54ff53a5f1d36f1L,
    0x510e527fade682d1L, 0x9b05688c2b3e6c1fL, 0x1f83d9abfb41bd6bL, 0x5be0cd19137e2179L
  };
  private static final String[] ORDERS = { // of the words of a block, one for each round, then from the first again
    "0123456789abcdef", "ea489fd61c02b753", "b8c052fdae367194", "7931dcbe265a40f8", "905724afe1bc683d",
    "2c6a0b834d75fe19", "c51fed4a0763928b", "db7ec13950f4862a", "6fe9b308c2d714a5", "a2847615fb9e3cd0"
  };
  private static final int[][] MIXED = { // columns, then diagonals
    {0, 4, 8, 12}, {1, 5, 9, 13}, {2, 6, 10, 14}, {3, 7, 11, 15}, {0, 5, 10, 15}, {1, 6, 11, 12}, {2, 7, 8, 13}, {3, 4, 9, 14}
  };

  private Blake2b() {}

  /** The digest of these bytes, that long. */
  static byte[] digest(byte[] data, int digestBytes) {
    long[] state = START.clone();
    state[0] ^= 0x01010000L ^ digestBytes;
    int at = 0;
    do {
      int end = Math.min(at + BLOCK_BYTES, data.length);
      compress(state, Arrays.copyOf(Arrays.copyOfRange(data, at, end), BLOCK_BYTES), end, end == data.length);
      at = end;
    } while (at < data.length);
    byte[] found = new byte[digestBytes];
    for (int number = 0; number < digestBytes; number++) {
      found[number] = (byte) (state[number / 8] >>> (8 * (number % 8)));
    }
    return found;
  }

  private static void compress(long[] state, byte[] block, long bytesSoFar, boolean isLast) {
    long[] words = new long[16];
    for (int number = 0; number < BLOCK_BYTES; number++) {
      words[number / 8] |= (block[number] & 0xFFL) << (8 * (number % 8));
    }
    long[] work = Arrays.copyOf(state, 16);
    System.arraycopy(START, 0, work, 8, 8);
    work[12] ^= bytesSoFar;
    work[14] ^= isLast ? -1L : 0;
    for (int round = 0; round < ROUNDS; round++) {
      String order = ORDERS[round % ORDERS.length];
      for (int step = 0; step < MIXED.length; step++) {
        mix(work, MIXED[step], words[Character.digit(order.charAt(2 * step), 16)], words[Character.digit(order.charAt(2 * step + 1), 16)]);
      }
    }
    for (int number = 0; number < state.length; number++) {
      state[number] ^= work[number] ^ work[number + 8];
    }
  }

  private static void mix(long[] work, int[] at, long first, long second) {
    int a = at[0];
    int b = at[1];
    int c = at[2];
    int d = at[3];
    work[a] += work[b] + first;
    work[d] = Long.rotateRight(work[d] ^ work[a], 32);
    work[c] += work[d];
    work[b] = Long.rotateRight(work[b] ^ work[c], 24);
    work[a] += work[b] + second;
    work[d] = Long.rotateRight(work[d] ^ work[a], 16);
    work[c] += work[d];
    work[b] = Long.rotateRight(work[b] ^ work[c], 63);
  }
}
