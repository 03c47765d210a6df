package pyromq.lane;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.Closeable;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Instant;
import java.time.OffsetDateTime;
import java.time.ZoneOffset;
import java.time.format.DateTimeFormatter;
import java.util.Arrays;
import java.util.Base64;
import java.util.Locale;
import java.util.UUID;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.catalyst.util.MapData;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Rows of one task that no broker would take: messages of a topic, or lines of a file, each the whole row as JSON with the
 * reason (pyromq.pipeline.sink.bad_rows). Both are made with the first.
 */
final class BadRows implements Closeable {
  private static final Logger LOGGER = LoggerFactory.getLogger(BadRows.class);
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final JsonNodeFactory NODES = JsonNodeFactory.instance;
  private static final int TEXT_MAX = 1 << 20; // of one value; longer ones are cut, so that the rest can be sent
  private static final DateTimeFormatter SECONDS = DateTimeFormatter.ofPattern("yyyy-MM-dd'T'HH:mm:ss", Locale.ROOT);

  private final WritePlan.Task plan;
  private final StructType schema;
  private final String task;
  private long count;
  private volatile Sender sender; // to the topic; close() comes from anywhere
  private OutputStream file;

  BadRows(WritePlan.Task plan, StructType schema, String task) {
    this.plan = plan;
    this.schema = schema;
    this.task = task;
  }

  long count() {
    return count;
  }

  void put(InternalRow row, long number, BadRowError reason) throws IOException {
    if (count++ == 0) {
      LOGGER.warn("rows that cannot be sent are set aside, the first: {}", reason.getMessage());
    }
    byte[] text = json(row, number, reason.getMessage()).getBytes(StandardCharsets.UTF_8);
    if (plan.sink().badTopic().isEmpty()) {
      toFile(text);
    } else {
      toTopic(text);
    }
  }

  /** All of them are safe when it returns. */
  void finish() throws IOException {
    if (sender != null) {
      sender.finish();
    }
    if (file != null) {
      file.close();
    }
  }

  @Override
  public void close() {
    if (sender != null) {
      sender.close();
    }
    try {
      if (file != null) {
        file.close();
      }
    } catch (IOException error) {
      LOGGER.warn("the file of rows that were set aside could not be closed: {}", error.getMessage());
    }
  }

  private void toTopic(byte[] text) throws LaneError {
    if (sender == null) {
      sender = new Sender(plan, null);
    }
    String key = UUID.randomUUID().toString().replace("-", "").toUpperCase(Locale.ROOT);
    SendRequest alone = new SendRequest(new SendRequest.Target(plan.sink().badTopic(), null), text.length, false);
    alone.alone(text, "UNIQ_KEY\1" + key + "\2TAGS\1bad-row\2", null, 0);
    sender.put(alone);
  }

  private void toFile(byte[] text) throws IOException {
    if (file == null) {
      Path folder = Files.createDirectories(Path.of(plan.sink().badFolder()));
      String name = "bad-rows-" + task + "-" + UUID.randomUUID().toString().substring(0, 8) + ".jsonl";
      file = Files.newOutputStream(folder.resolve(name));
    }
    file.write(text);
    file.write('\n');
  }

  // --- as JSON ---

  private String json(InternalRow row, long number, String reason) throws JsonProcessingException {
    ObjectNode whole = NODES.objectNode().put("row", number).put("reason", reason);
    ObjectNode columns = whole.putObject("columns");
    for (int at = 0; at < schema.length(); at++) {
      StructField field = schema.fields()[at];
      DataType type = field.dataType();
      if (row.isNullAt(at)) {
        columns.putNull(field.name());
      } else if (type.equals(DataTypes.BinaryType)) {
        columns.set(field.name(), bytes(row.getBinary(at)));
      } else if (type.equals(DataTypes.TimestampType)) {
        columns.put(field.name(), time(row.getLong(at)));
      } else if (type instanceof ArrayType) {
        columns.set(field.name(), texts(row.getArray(at)));
      } else if (type instanceof MapType) {
        columns.set(field.name(), pairs(row.getMap(at)));
      } else if (type.equals(DataTypes.StringType)) {
        columns.put(field.name(), cut(row.getUTF8String(at).toString()));
      } else {
        columns.put(field.name(), ((Number) row.get(at, type)).longValue());
      }
    }
    return JSON.writeValueAsString(whole);
  }

  private static ObjectNode bytes(byte[] value) {
    boolean isCut = value.length > TEXT_MAX;
    byte[] kept = isCut ? Arrays.copyOf(value, TEXT_MAX) : value;
    ObjectNode node = NODES.objectNode().put("base64", Base64.getEncoder().encodeToString(kept));
    return isCut ? node.put("cut", value.length) : node;
  }

  /** As Python writes it: with microseconds where there are some. */
  private static String time(long micros) {
    Instant moment = Instant.ofEpochSecond(Math.floorDiv(micros, 1_000_000L));
    long rest = Math.floorMod(micros, 1_000_000L);
    String text = SECONDS.format(OffsetDateTime.ofInstant(moment, ZoneOffset.UTC));
    return text + (rest == 0 ? "" : String.format(Locale.ROOT, ".%06d", rest)) + "+00:00";
  }

  private static ArrayNode texts(ArrayData list) {
    ArrayNode found = NODES.arrayNode();
    for (int at = 0; at < list.numElements(); at++) {
      found.add(list.isNullAt(at) ? null : cut(list.getUTF8String(at).toString()));
    }
    return found;
  }

  private static ArrayNode pairs(MapData map) {
    ArrayNode found = NODES.arrayNode();
    for (int at = 0; at < map.numElements(); at++) {
      ArrayData values = map.valueArray();
      found.addArray()
          .add(cut(map.keyArray().getUTF8String(at).toString()))
          .add(values.isNullAt(at) ? null : cut(values.getUTF8String(at).toString()));
    }
    return found;
  }

  private static String cut(String text) {
    return text.codePointCount(0, text.length()) <= TEXT_MAX ? text : text.substring(0, text.offsetByCodePoints(0, TEXT_MAX));
  }
}
