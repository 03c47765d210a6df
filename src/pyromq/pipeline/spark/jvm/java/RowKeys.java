package pyromq.lane;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/** Unique keys of the rows of one partition of one batch: the same row has the same key (pyromq.pipeline.sink.keys). */
final class RowKeys {
  static final int KEY_BYTES = 56;
  private static final byte[] HEX = "0123456789ABCDEF".getBytes(StandardCharsets.US_ASCII);
  private static final int ROW_AT = 32;
  private static final int OWN_AT = 16;
  private static final int OWN_BYTES = 14;

  final String digest; // of the query
  final String head;
  private final byte[] row; // used again for each

  RowKeys(String digest, long batch, int partition) {
    this.digest = digest;
    this.head = String.format("%s%08X%08X", digest, batch & 0xFFFFFFFFL, partition);
    this.row = zeros(head);
  }

  /** The key of a row; the next call changes it. */
  byte[] ofRow(long number) {
    for (int digit = 0; digit < 8; digit++) {
      row[ROW_AT + digit] = HEX[(int) (number >>> (28 - 4 * digit)) & 15];
    }
    return row;
  }

  /** The key of a row that brings its own identity. */
  byte[] ofOwn(byte[] own) {
    byte[] key = zeros(digest);
    byte[] found = Blake2b.digest(own, OWN_BYTES);
    for (int number = 0; number < OWN_BYTES; number++) {
      key[OWN_AT + 2 * number] = HEX[found[number] >> 4 & 15];
      key[OWN_AT + 2 * number + 1] = HEX[found[number] & 15];
    }
    return key;
  }

  private static byte[] zeros(String beginning) {
    byte[] key = new byte[KEY_BYTES];
    Arrays.fill(key, (byte) '0');
    byte[] begun = beginning.getBytes(StandardCharsets.US_ASCII);
    System.arraycopy(begun, 0, key, 0, begun.length);
    return key;
  }
}
