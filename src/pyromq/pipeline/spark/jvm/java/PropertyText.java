package pyromq.lane;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Stored properties: name 0x01 value 0x02, repeated; the last 0x02 may be missing. Items without a name or a value do not
 * count, of a repeated name the last does. The checksum of a record is no property of its message.
 */
final class PropertyText {
  static final byte[] TAGS = bytes("TAGS");
  static final byte[] KEYS = bytes("KEYS");
  static final byte[] UNIQUE_KEY = bytes("UNIQ_KEY");
  private static final byte[] CHECKSUM = bytes("__CRC32#");
  private static final int CHECKSUM_BYTES = 20; // with its marks
  private static final byte NAME_END = 1;
  private static final byte ITEM_END = 2;

  private PropertyText() {}

  /** Where the value of a property lies, start and end in one number; -1 if it has none. */
  static long find(byte[] data, int start, int end, byte[] name) {
    long found = -1;
    int item = start;
    while (item < end) {
      int itemEnd = indexOf(data, ITEM_END, item, end);
      int value = item + name.length + 1;
      if (value < itemEnd && data[value - 1] == NAME_END && Arrays.equals(data, item, value - 1, name, 0, name.length)) {
        found = (long) value << 32 | itemEnd;
      }
      item = itemEnd + 1;
    }
    return found;
  }

  static int startOf(long span) {
    return (int) (span >>> 32);
  }

  static int endOf(long span) {
    return (int) span;
  }

  /** All properties, in their order. */
  static Map<UTF8String, UTF8String> all(byte[] data, int start, int end) {
    Map<UTF8String, UTF8String> found = new LinkedHashMap<>();
    int item = start;
    while (item < end) {
      int itemEnd = indexOf(data, ITEM_END, item, end);
      int nameEnd = indexOf(data, NAME_END, item, itemEnd);
      boolean isChecksum = Arrays.equals(data, item, nameEnd, CHECKSUM, 0, CHECKSUM.length);
      if (nameEnd > item && nameEnd + 1 < itemEnd && !isChecksum) {
        found.put(Utf8.text(data, item, nameEnd), Utf8.text(data, nameEnd + 1, itemEnd));
      }
      item = itemEnd + 1;
    }
    return found;
  }

  /** As they are stored, without the checksum, which is the last and always as long. */
  static UTF8String raw(byte[] data, int start, int end) {
    int begin = end - CHECKSUM_BYTES;
    boolean hasChecksum =
        begin >= start
            && (begin == start || data[begin - 1] == ITEM_END)
            && Arrays.equals(data, begin, begin + CHECKSUM.length, CHECKSUM, 0, CHECKSUM.length)
            && data[begin + CHECKSUM.length] == NAME_END;
    return Utf8.text(data, start, hasChecksum ? begin : end);
  }

  private static int indexOf(byte[] data, byte mark, int start, int end) {
    int at = start;
    while (at < end && data[at] != mark) {
      at++;
    }
    return at;
  }

  private static byte[] bytes(String text) {
    return text.getBytes(StandardCharsets.US_ASCII);
  }
}
