package pyromq.lane;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.HashSet;
import java.util.Set;

/**
 * Stored records back to back, as one response has them, and where the parts of each lie. Only those that are wanted count:
 * offsets [start, end), and of those the ones with the tags that are asked for (brokers compare hashes of tags).
 * pyromq.wire.record_layout has the layout.
 */
final class StoredRecords {
  private static final VarHandle SHORTS = MethodHandles.byteArrayViewVarHandle(short[].class, ByteOrder.BIG_ENDIAN);
  private static final VarHandle INTS = MethodHandles.byteArrayViewVarHandle(int[].class, ByteOrder.BIG_ENDIAN);
  private static final VarHandle LONGS = MethodHandles.byteArrayViewVarHandle(long[].class, ByteOrder.BIG_ENDIAN);
  private static final int MAGIC_V1 = 0xDAA320A7;
  private static final int MAGIC_V2 = 0xDAA320AB;
  private static final int RECORD_BYTES_MIN = 91;
  private static final int BODY_AT = 88;
  private static final int V6_MORE_BYTES = 12;
  static final int BORN_V6 = 0x10;
  static final int STORE_V6 = 0x20;

  final byte[] data;
  private int count;
  private int[] starts = new int[64];
  private int[] bodyStarts = new int[64];
  private int[] bodyEnds = new int[64];
  private int[] propertyStarts = new int[64];
  private int[] ends = new int[64];

  StoredRecords(byte[] data, PullPlan.Range wanted) throws CorruptRecordError {
    this.data = data;
    Set<byte[]> tags = new HashSet<>();
    wanted.tags().forEach(tag -> tags.add(tag.getBytes(StandardCharsets.UTF_8)));
    int at = 0;
    int found = 0;
    while (at <= data.length - RECORD_BYTES_MIN) {
      int size = intAt(at);
      if (size >= 0 && size < RECORD_BYTES_MIN) {
        throw new CorruptRecordError(-1, "size " + size + " is impossible");
      }
      found++;
      if (size < 0 || size > data.length - at) {
        break;
      }
      place(at, at + size);
      long offset = offset(count);
      if (wanted.start() <= offset && offset < wanted.end() && (tags.isEmpty() || isTagged(count, tags))) {
        count++;
      }
      at += size;
    }
    if (at != data.length) {
      throw new CorruptRecordError(-1, "the last of " + found + " records is cut, or more follows it");
    }
  }

  /** Notes where the parts of a record lie; it fills its bytes exactly. */
  private void place(int start, int end) throws CorruptRecordError {
    if (count == starts.length) {
      grow();
    }
    starts[count] = start;
    ends[count] = end;
    int magic = intAt(start + 4);
    int fixed = BODY_AT + bornMore(count) + storeMore(count);
    require(start, (magic == MAGIC_V1 || magic == MAGIC_V2) && fixed + 3 <= end - start);
    int bodyStart = start + fixed;
    int bodyBytes = intAt(bodyStart - 4);
    int lengthBytes = magic == MAGIC_V2 ? 2 : 1;
    require(start, bodyBytes >= 0 && bodyBytes <= end - bodyStart - 2 - lengthBytes);
    int bodyEnd = bodyStart + bodyBytes;
    int topicBytes = lengthBytes == 1 ? data[bodyEnd] & 0xFF : shortAt(bodyEnd);
    int behindTopic = bodyEnd + lengthBytes + topicBytes;
    require(start, behindTopic + 2 <= end && behindTopic + 2 + shortAt(behindTopic) == end);
    bodyStarts[count] = bodyStart;
    bodyEnds[count] = bodyEnd;
    propertyStarts[count] = behindTopic + 2;
  }

  private void require(int start, boolean holds) throws CorruptRecordError {
    if (!holds) {
      throw new CorruptRecordError(longAt(start + 28), "its magic is unknown, or its parts do not add up");
    }
  }

  private void grow() {
    int room = 2 * count;
    starts = Arrays.copyOf(starts, room);
    bodyStarts = Arrays.copyOf(bodyStarts, room);
    bodyEnds = Arrays.copyOf(bodyEnds, room);
    propertyStarts = Arrays.copyOf(propertyStarts, room);
    ends = Arrays.copyOf(ends, room);
  }

  private boolean isTagged(int row, Set<byte[]> tags) {
    long span = PropertyText.find(data, propertyStarts[row], ends[row], PropertyText.TAGS);
    return span >= 0 && tags.stream().anyMatch(tag -> isAt(PropertyText.startOf(span), PropertyText.endOf(span), tag));
  }

  private boolean isAt(int start, int end, byte[] text) {
    return Arrays.equals(data, start, end, text, 0, text.length);
  }

  int count() {
    return count;
  }

  // --- parts of the record of a row ---

  int bodyStart(int row) {
    return bodyStarts[row];
  }

  int bodyEnd(int row) {
    return bodyEnds[row];
  }

  int propertyStart(int row) {
    return propertyStarts[row];
  }

  int end(int row) {
    return ends[row];
  }

  int bodyCrc(int row) {
    return intAt(starts[row] + 8);
  }

  int queue(int row) {
    return intAt(starts[row] + 12);
  }

  int flag(int row) {
    return intAt(starts[row] + 16);
  }

  long offset(int row) {
    return longAt(starts[row] + 20);
  }

  long position(int row) {
    return longAt(starts[row] + 28);
  }

  int sysFlag(int row) {
    return intAt(starts[row] + 36);
  }

  long bornMs(int row) {
    return longAt(starts[row] + 40);
  }

  int bornHostAt(int row) {
    return starts[row] + 48;
  }

  long storedMs(int row) {
    return longAt(starts[row] + 56 + bornMore(row));
  }

  int storeHostAt(int row) {
    return starts[row] + 64 + bornMore(row);
  }

  int attempt(int row) {
    return intAt(starts[row] + 72 + bornMore(row) + storeMore(row));
  }

  private int bornMore(int row) {
    return (sysFlag(row) & BORN_V6) == 0 ? 0 : V6_MORE_BYTES;
  }

  private int storeMore(int row) {
    return (sysFlag(row) & STORE_V6) == 0 ? 0 : V6_MORE_BYTES;
  }

  private int shortAt(int place) {
    return (short) SHORTS.get(data, place) & 0xFFFF;
  }

  int intAt(int place) {
    return (int) INTS.get(data, place);
  }

  long longAt(int place) {
    return (long) LONGS.get(data, place);
  }
}
