package pyromq.lane;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Set;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.catalyst.util.MapData;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Properties of a row as the text they travel in (pyromq.pipeline.sink.texts). Names that are RocketMQ's own are left out of
 * the column properties: they have columns, or belong to the message that a row was read from.
 */
final class RowProperties {
  static final int BYTES_MAX = 32_767;
  private static final byte NAME_END = 1;
  private static final byte ITEM_END = 2;
  private static final byte[] SHARDING_KEY = ascii("__SHARDINGKEY");

  private final SinkColumns columns;
  private final byte[] system;
  private final Set<String> reserved;
  private final ByteText text = new ByteText(256); // used again for each row

  RowProperties(SinkColumns columns, WritePlan.Sink sink) {
    this.columns = columns;
    this.system = sink.system();
    this.reserved = sink.reserved();
  }

  /** The text of one row; the next call changes it. */
  ByteText of(InternalRow row, byte[] key, long number) throws BadRowError {
    text.size = 0;
    item(PropertyText.UNIQUE_KEY, key);
    text.add(system);
    item(PropertyText.TAGS, word(row, columns.tags, "tags", number));
    item(PropertyText.KEYS, columns.hasKeyList ? words(row, number) : word(row, columns.keys, "keys", number));
    item(SHARDING_KEY, word(row, columns.shardingKey, "sharding_key", number));
    if (SinkColumns.isGiven(row, columns.properties)) {
      if (columns.propertiesType instanceof MapType) {
        fromMap(row.getMap(columns.properties), number);
      } else {
        fromRaw(row.getUTF8String(columns.properties).toString(), number);
      }
    }
    return text;
  }

  private void item(byte[] name, byte[] value) {
    if (value.length > 0) {
      text.add(name).add(NAME_END).add(value).add(ITEM_END);
    }
  }

  private static byte[] word(InternalRow row, int at, String column, long number) throws BadRowError {
    return SinkColumns.isGiven(row, at) ? checked(row.getUTF8String(at).getBytes(), column, number) : new byte[0];
  }

  /** Keys of a list, with blanks between them. */
  private byte[] words(InternalRow row, long number) throws BadRowError {
    ByteText joined = new ByteText(64);
    ArrayData list = SinkColumns.isGiven(row, columns.keys) ? row.getArray(columns.keys) : null;
    for (int at = 0; list != null && at < list.numElements(); at++) {
      UTF8String each = list.isNullAt(at) ? UTF8String.EMPTY_UTF8 : list.getUTF8String(at);
      if (each.numBytes() > 0) {
        (joined.size > 0 ? joined.add(' ') : joined).add(each.getBytes());
      }
    }
    return checked(Arrays.copyOf(joined.data, joined.size), "keys", number);
  }

  private static byte[] checked(byte[] value, String column, long number) throws BadRowError {
    boolean isTag = column.equals("tags");
    for (byte each : value) {
      if (each == NAME_END || each == ITEM_END || isTag && each == '|') {
        String problem = isTag ? "a tag must not contain |, \\x01 or \\x02" : "it contains \\x01 or \\x02, which separate properties";
        throw new BadRowError("column " + column + ", row " + number + ": " + problem);
      }
    }
    return value;
  }

  private void fromMap(MapData map, long number) throws BadRowError {
    ArrayData names = map.keyArray();
    ArrayData values = map.valueArray();
    for (int at = 0; at < map.numElements(); at++) {
      UTF8String name = names.getUTF8String(at);
      UTF8String value = values.isNullAt(at) ? UTF8String.EMPTY_UTF8 : values.getUTF8String(at);
      if (name.numBytes() == 0 || value.numBytes() == 0 || reserved.contains(name.toString())) {
        continue;
      }
      if (hasMark(name) || hasMark(value)) {
        throw new BadRowError("column properties, row " + number + ": a name or value holds \\x01 or \\x02");
      }
      item(name.getBytes(), value.getBytes());
    }
  }

  private void fromRaw(String raw, long number) throws BadRowError {
    if (raw.isEmpty()) {
      return;
    }
    for (String item : (raw.endsWith("\2") ? raw.substring(0, raw.length() - 1) : raw).split("\2", -1)) {
      int nameEnd = item.indexOf(NAME_END);
      if (nameEnd >= 0 && reserved.contains(item.substring(0, nameEnd))) {
        continue;
      }
      if (nameEnd < 0 || item.indexOf(NAME_END, nameEnd + 1) >= 0) {
        throw new BadRowError("column properties, row " + number + ": it is not name \\x01 value \\x02, again and again");
      }
      text.add(item.getBytes(StandardCharsets.UTF_8)).add(ITEM_END);
    }
  }

  private static boolean hasMark(UTF8String text) {
    return text.contains(UTF8String.fromString("\1")) || text.contains(UTF8String.fromString("\2"));
  }

  private static byte[] ascii(String text) {
    return text.getBytes(StandardCharsets.US_ASCII);
  }
}
