package pyromq.lane;

import java.util.Arrays;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;

/** Where the columns of the sink lie in rows (pyromq.pipeline.sink.columns, whose check they have passed); -1 for none. */
final class SinkColumns {
  final int body;
  final int topic;
  final int tags;
  final int keys;
  final int properties;
  final int shardingKey;
  final int delayLevel;
  final int deliverTime;
  final int queueId;
  final int broker;
  final int flag;
  final int uniqueKey;
  final boolean hasTextBody;
  final boolean hasKeyList;
  final DataType propertiesType;
  private final StructType schema;

  SinkColumns(StructType schema) {
    this.schema = schema;
    body = at("body");
    topic = at("topic");
    tags = at("tags");
    keys = at("keys");
    properties = at("properties");
    shardingKey = at("sharding_key");
    delayLevel = at("delay_level");
    deliverTime = at("deliver_time");
    queueId = at("queue_id");
    broker = at("broker");
    flag = at("flag");
    uniqueKey = at("unique_key");
    hasTextBody = !type(body).equals(DataTypes.BinaryType);
    hasKeyList = type(keys) instanceof ArrayType;
    propertiesType = type(properties);
  }

  private int at(String name) {
    return Arrays.asList(schema.fieldNames()).indexOf(name);
  }

  private DataType type(int at) {
    return at < 0 ? DataTypes.NullType : schema.fields()[at].dataType();
  }

  static boolean isGiven(InternalRow row, int at) {
    return at >= 0 && !row.isNullAt(at);
  }

  /** Whether rows of one topic may differ in the queue they go to. */
  boolean chooseQueues() {
    return queueId >= 0 || shardingKey >= 0;
  }

  /** Empty for none. */
  byte[] bodyOf(InternalRow row) {
    if (!isGiven(row, body)) {
      return new byte[0];
    }
    return hasTextBody ? row.getUTF8String(body).getBytes() : row.getBinary(body);
  }

  /** A whole number, of whatever width; 0 where there is none. */
  long whole(InternalRow row, int at) {
    return isGiven(row, at) ? ((Number) row.get(at, type(at))).longValue() : 0;
  }

  /** In milliseconds, 0 for a row that is not delayed. */
  long deliverMs(InternalRow row) {
    long time = whole(row, deliverTime);
    return type(deliverTime).equals(DataTypes.TimestampType) ? Math.floorDiv(time, 1000) : time;
  }

  /** Empty where there is none. */
  static String text(InternalRow row, int at) {
    return isGiven(row, at) ? row.getUTF8String(at).toString() : "";
  }
}
