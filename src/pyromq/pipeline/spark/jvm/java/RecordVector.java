package pyromq.lane;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Locale;
import java.util.Map;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarArray;
import org.apache.spark.sql.vectorized.ColumnarMap;
import org.apache.spark.unsafe.types.UTF8String;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** A column of the rows in a response: a view of its records, which takes out a value when Spark asks for it. */
final class RecordVector extends ColumnVector {
  private static final Logger LOGGER = LoggerFactory.getLogger(RecordVector.class);
  private static final byte[] HEX = "0123456789ABCDEF".getBytes(StandardCharsets.US_ASCII);

  /** The columns of the source (pyromq.pipeline.arrow.columns), by their names. */
  enum Column {
    TOPIC, BROKER, QUEUE_ID, QUEUE_OFFSET, MESSAGE_ID, OFFSET_MESSAGE_ID, TAGS, KEYS, BORN_TIME, STORE_TIME, BORN_HOST,
    STORE_HOST, FLAG, SYS_FLAG, DELIVERY_ATTEMPT, BODY_CRC, COMMIT_LOG_OFFSET, PROPERTIES, BODY
  }

  private final Column column;
  private final Hosts hosts = new Hosts();
  private StoredRecords records;
  private UTF8String topic;
  private UTF8String broker;
  private PropertyMaps maps;
  private int knownRow = -1; // whose value was taken out last, of a column that may be null
  private Object known;

  RecordVector(String name, DataType type) {
    super(type);
    this.column = Column.valueOf(name.toUpperCase(Locale.ROOT));
  }

  /** A vector for each of these columns. */
  static RecordVector[] of(StructType columns) {
    RecordVector[] made = new RecordVector[columns.fields().length];
    for (int number = 0; number < made.length; number++) {
      StructField field = columns.fields()[number];
      made[number] = new RecordVector(field.name(), field.dataType());
    }
    return made;
  }

  void show(StoredRecords records, PullPlan.Range range) {
    this.records = records;
    topic = UTF8String.fromString(range.shownTopic());
    broker = UTF8String.fromString(range.broker());
    maps = null;
    knownRow = -1;
  }

  // --- what may be null ---

  @Override
  public boolean hasNull() {
    return mayBeNull();
  }

  @Override
  public int numNulls() {
    return mayBeNull() ? records.count() : 0; // at most
  }

  @Override
  public boolean isNullAt(int row) {
    return mayBeNull() && value(row) == null;
  }

  private boolean mayBeNull() {
    return column == Column.TAGS || column == Column.KEYS || column == Column.BODY;
  }

  private Object value(int row) {
    if (row != knownRow) {
      known = column == Column.BODY ? body(row) : property(row, column == Column.TAGS ? PropertyText.TAGS : PropertyText.KEYS);
      knownRow = row;
    }
    return known;
  }

  // --- values ---

  @Override
  public int getInt(int row) {
    return switch (column) {
      case QUEUE_ID -> records.queue(row);
      case FLAG -> records.flag(row);
      case SYS_FLAG -> records.sysFlag(row);
      case DELIVERY_ATTEMPT -> records.attempt(row);
      case BODY_CRC -> records.bodyCrc(row);
      default -> throw unsupported();
    };
  }

  @Override
  public long getLong(int row) {
    return switch (column) {
      case QUEUE_OFFSET -> records.offset(row);
      case COMMIT_LOG_OFFSET -> records.position(row);
      case BORN_TIME -> records.bornMs(row) * 1000;
      case STORE_TIME -> records.storedMs(row) * 1000;
      default -> throw unsupported();
    };
  }

  @Override
  public UTF8String getUTF8String(int row) {
    return switch (column) {
      case TOPIC -> topic;
      case BROKER -> broker;
      case TAGS, KEYS -> (UTF8String) value(row);
      case MESSAGE_ID -> messageId(row);
      case OFFSET_MESSAGE_ID -> offsetId(row);
      case BORN_HOST -> hosts.text(records, records.bornHostAt(row), isSet(row, StoredRecords.BORN_V6));
      case STORE_HOST -> hosts.text(records, records.storeHostAt(row), isSet(row, StoredRecords.STORE_V6));
      case PROPERTIES -> PropertyText.raw(records.data, records.propertyStart(row), records.end(row));
      default -> throw unsupported();
    };
  }

  @Override
  public byte[] getBinary(int row) {
    return (byte[]) value(row);
  }

  @Override
  public ColumnarMap getMap(int row) {
    if (maps == null) {
      maps = new PropertyMaps(records);
    }
    return maps.of(row);
  }

  private UTF8String property(int row, byte[] name) {
    long span = PropertyText.find(records.data, records.propertyStart(row), records.end(row), name);
    return span < 0 ? null : Utf8.text(records.data, PropertyText.startOf(span), PropertyText.endOf(span));
  }

  /** The id of the producer, or else that of the broker. */
  private UTF8String messageId(int row) {
    UTF8String given = property(row, PropertyText.UNIQUE_KEY);
    return given == null ? offsetId(row) : given;
  }

  /** Host and position, in hexadecimal. */
  private UTF8String offsetId(int row) {
    int place = records.storeHostAt(row);
    int hostBytes = isSet(row, StoredRecords.STORE_V6) ? 20 : 8;
    byte[] id = new byte[hostBytes + 8];
    System.arraycopy(records.data, place, id, 0, hostBytes);
    for (int number = 0; number < 8; number++) {
      id[hostBytes + number] = (byte) (records.position(row) >>> (56 - 8 * number));
    }
    byte[] digits = new byte[2 * id.length];
    for (int number = 0; number < id.length; number++) {
      digits[2 * number] = HEX[id[number] >> 4 & 15];
      digits[2 * number + 1] = HEX[id[number] & 15];
    }
    return UTF8String.fromBytes(digits);
  }

  private boolean isSet(int row, int flag) {
    return (records.sysFlag(row) & flag) != 0;
  }

  /** A body that cannot be decompressed is null: one bad message must not end a query. */
  private byte[] body(int row) {
    int start = records.bodyStart(row);
    int end = records.bodyEnd(row);
    if (!isSet(row, Bodies.COMPRESSED)) {
      return Arrays.copyOfRange(records.data, start, end);
    }
    try {
      return Bodies.decompressed(records.data, start, end, records.sysFlag(row));
    } catch (IOException | RuntimeException error) {
      LOGGER.warn("body is null: topic={} broker={} queue={} offset={} error={}", topic, broker, records.queue(row),
          records.offset(row), error.getMessage());
      return null;
    }
  }

  /** The maps of all rows: names and values behind each other, and where those of each row begin. */
  private static final class PropertyMaps {
    private final int[] starts;
    private final TextVector names;
    private final TextVector values;

    PropertyMaps(StoredRecords records) {
      starts = new int[records.count() + 1];
      UTF8String[] allNames = new UTF8String[8 * records.count()];
      UTF8String[] allValues = new UTF8String[8 * records.count()];
      int at = 0;
      for (int row = 0; row < records.count(); row++) {
        Map<UTF8String, UTF8String> found = PropertyText.all(records.data, records.propertyStart(row), records.end(row));
        if (at + found.size() > allNames.length) {
          allNames = Arrays.copyOf(allNames, 2 * (at + found.size()));
          allValues = Arrays.copyOf(allValues, 2 * (at + found.size()));
        }
        for (Map.Entry<UTF8String, UTF8String> each : found.entrySet()) {
          allNames[at] = each.getKey();
          allValues[at++] = each.getValue();
        }
        starts[row + 1] = at;
      }
      names = new TextVector(allNames);
      values = new TextVector(allValues);
    }

    ColumnarMap of(int row) {
      return new ColumnarMap(names, values, starts[row], starts[row + 1] - starts[row]);
    }
  }

  // --- what no column has ---

  @Override
  public void close() {}

  @Override
  public boolean getBoolean(int row) {
    throw unsupported();
  }

  @Override
  public byte getByte(int row) {
    throw unsupported();
  }

  @Override
  public short getShort(int row) {
    throw unsupported();
  }

  @Override
  public float getFloat(int row) {
    throw unsupported();
  }

  @Override
  public double getDouble(int row) {
    throw unsupported();
  }

  @Override
  public ColumnarArray getArray(int row) {
    throw unsupported();
  }

  @Override
  public Decimal getDecimal(int row, int precision, int scale) {
    throw unsupported();
  }

  @Override
  public ColumnVector getChild(int ordinal) {
    throw unsupported();
  }

  private UnsupportedOperationException unsupported() {
    return new UnsupportedOperationException("column " + column + " has no values of that type");
  }
}
