package pyromq.lane;

import java.io.ByteArrayOutputStream;
import org.apache.spark.unsafe.types.UTF8String;

/** Texts of foreign bytes. What is not UTF-8 is replaced as Python does it: one mark for each maximal part of a character. */
final class Utf8 {
  private static final byte[] MARK = {(byte) 0xEF, (byte) 0xBF, (byte) 0xBD};

  private Utf8() {}

  static UTF8String text(byte[] data, int start, int end) {
    int at = start;
    while (at < end && data[at] >= 0) {
      at++;
    }
    while (at < end) { // there are other characters than ASCII's
      int length = lengthAt(data, at, end);
      if (length < 0) {
        byte[] mended = mended(data, start, end);
        return UTF8String.fromBytes(mended, 0, mended.length);
      }
      at += length;
    }
    return UTF8String.fromBytes(data, start, end - start);
  }

  private static byte[] mended(byte[] data, int start, int end) {
    ByteArrayOutputStream out = new ByteArrayOutputStream(end - start + 16);
    int at = start;
    while (at < end) {
      int length = lengthAt(data, at, end);
      if (length < 0) {
        out.write(MARK, 0, MARK.length);
      } else {
        out.write(data, at, length);
      }
      at += Math.abs(length);
    }
    return out.toByteArray();
  }

  /** How many bytes the character has that begins here; negative for bytes that begin none, or the beginning of one. */
  private static int lengthAt(byte[] data, int at, int end) {
    int first = data[at] & 0xFF;
    if (first < 0x80) {
      return 1;
    }
    int length = first >= 0xC2 && first <= 0xDF ? 2 : first >= 0xE0 && first <= 0xEF ? 3 : first >= 0xF0 && first <= 0xF4 ? 4 : 0;
    if (length == 0) {
      return -1;
    }
    int low = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80; // of the second byte
    int high = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
    for (int number = 1; number < length; number++) {
      int next = at + number < end ? data[at + number] & 0xFF : -1;
      if (next < low || next > high) {
        return -number;
      }
      low = 0x80;
      high = 0xBF;
    }
    return length;
  }
}
