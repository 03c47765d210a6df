package pyromq.lane;

import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.regex.Pattern;
import org.apache.spark.sql.catalyst.InternalRow;

/**
 * Rows to requests, by topic and queue (pyromq.pipeline.sink.requests). Delayed messages travel alone, because brokers accept
 * them in no other way. What no broker would accept is refused with the column and the row named.
 */
final class Packer {
  private static final int BATCH_BYTES_MAX = 4 << 20;
  private static final int OPEN_BYTES_MAX = 16 << 20; // of all requests that are not full yet
  private static final int ROOM_FIRST = 1 << 14; // bytes of a new request
  private static final int ROOMY_MAX = 16; // so many requests get all the room that they may need at once
  private static final Pattern TOPIC = Pattern.compile("[%|a-zA-Z0-9_-]+|%RETRY%[%|a-zA-Z0-9_+-]+");
  private static final int TOPIC_CHARACTERS_MAX = 127;
  private static final int DERIVED_TOPIC_CHARACTERS_MAX = 255;

  private final WritePlan.Sink sink;
  private final SinkColumns columns;
  private final Sender sender;
  private final boolean keepsKeys;
  private final SendRequest.Target usual; // of all rows, unless columns decide
  private final Set<String> valid = new HashSet<>(); // topics that were looked at
  private final Map<SendRequest.Target, SendRequest> open = new HashMap<>(); // not full yet
  private final ArrayDeque<SendRequest> full = new ArrayDeque<>();
  private SendRequest last; // the one that the last row went to
  private long openBytes;
  private int room = ROOM_FIRST; // of a new request: as much as it may have, once one got full

  Packer(WritePlan.Sink sink, SinkColumns columns, Sender sender, boolean keepsKeys) {
    this.sink = sink;
    this.columns = columns;
    this.sender = sender;
    this.keepsKeys = keepsKeys;
    this.usual = sink.topic().isEmpty() || columns.chooseQueues() ? null : new SendRequest.Target(sink.nameOf(sink.topic()), null);
  }

  /** Adds a row; {@code number} names it in errors, which come in the order of the Python sink. */
  void add(InternalRow row, byte[] body, RowProperties texts, byte[] key, long number) throws LaneError {
    SendRequest.Target target = usual == null ? target(row, number) : usual;
    String delay = delay(row, number);
    int flag = (int) columns.whole(row, columns.flag);
    ByteText properties = texts.of(row, key, number);
    int bytes = SendRequest.itemBytes(body, properties);
    check(bytes, properties.size + delay.length(), number);
    if (!delay.isEmpty()) {
      SendRequest alone = new SendRequest(target, body.length, keepsKeys);
      alone.alone(body, new String(properties.data, 0, properties.size, StandardCharsets.UTF_8) + delay, key, flag);
      full.add(alone);
      return;
    }
    SendRequest request = last != null && last.target.equals(target) ? last : open.get(target);
    if (request != null && request.body.size + bytes > sink.batchBytes()) {
      close(request);
      room = sink.batchBytes();
      request = null;
    }
    if (request == null) {
      request = new SendRequest(target, open.size() < ROOMY_MAX ? room : ROOM_FIRST, keepsKeys);
      open.put(target, request);
    }
    request.add(body, properties, key, flag);
    openBytes += bytes;
    last = request;
    if (openBytes > OPEN_BYTES_MAX) { // so many queues that none gets full
      close(open.values().stream().max((one, other) -> Integer.compare(one.body.size, other.body.size)).orElseThrow());
    }
  }

  boolean isOpen() {
    return !open.isEmpty();
  }

  /** Sends requests that are full; whether there were any. */
  boolean sendFull() throws LaneError {
    boolean wereAny = !full.isEmpty();
    while (!full.isEmpty()) {
      sender.put(full.poll());
    }
    return wereAny;
  }

  /** Sends all; whether there were any. */
  boolean sendAll() throws LaneError {
    new ArrayList<>(open.values()).forEach(this::close);
    return sendFull();
  }

  private void close(SendRequest request) {
    open.remove(request.target);
    openBytes -= request.body.size;
    full.add(request);
    last = null;
  }

  private static void check(int bytes, int propertiesBytes, long number) throws BadRowError {
    if (bytes > BATCH_BYTES_MAX) {
      throw BadRowError.tooLarge("columns body and properties, row " + number + ": a row with its properties", bytes, BATCH_BYTES_MAX);
    }
    if (propertiesBytes > RowProperties.BYTES_MAX) {
      throw BadRowError.tooLarge(
          "columns tags, keys and properties, row " + number + ": properties of a row", propertiesBytes, RowProperties.BYTES_MAX);
    }
  }

  /** The property of a delayed row; empty for others. */
  private String delay(InternalRow row, long number) throws BadRowError {
    long level = columns.whole(row, columns.delayLevel);
    if (level < 0 || level > Integer.MAX_VALUE) {
      throw new BadRowError("column delay_level, row " + number + ": levels are numbers from 1 on, not " + level);
    }
    long deliverMs = columns.deliverTime < 0 ? 0 : columns.deliverMs(row);
    return level > 0 ? "DELAY\1" + level + "\2" : deliverMs != 0 ? "TIMER_DELIVER_MS\1" + deliverMs + "\2" : "";
  }

  // --- where to ---

  private SendRequest.Target target(InternalRow row, long number) throws LaneError {
    String topic = sink.nameOf(sink.topic().isEmpty() ? topic(row, number) : sink.topic());
    String shard = SinkColumns.text(row, columns.shardingKey);
    if (!shard.isEmpty()) {
      List<Routes.Queue> queues = sender.queuesOf(topic);
      return new SendRequest.Target(topic, queues.get((int) (Math.abs((long) shard.hashCode()) % queues.size())));
    }
    return new SendRequest.Target(topic, SinkColumns.isGiven(row, columns.queueId) ? named(row, topic, number) : null);
  }

  private String topic(InternalRow row, long number) throws BadRowError {
    String name = SinkColumns.text(row, columns.topic);
    if (valid.contains(name)) {
      return name;
    }
    boolean isDerived = name.startsWith("%RETRY%") || name.startsWith("%DLQ%");
    int most = isDerived ? DERIVED_TOPIC_CHARACTERS_MAX : TOPIC_CHARACTERS_MAX;
    String problem = "";
    if (name.isBlank()) {
      problem = "it is blank";
    } else if (name.length() > most) {
      problem = "it has " + name.length() + " characters, at most " + most + " are allowed";
    } else if (!TOPIC.matcher(name).matches()) {
      problem = "only the characters % | a-z A-Z 0-9 _ - are allowed";
    }
    problem = problem.isEmpty() ? problem : "topic name '" + name + "' is not allowed: " + problem;
    if (problem.isEmpty() && !sink.topics().isEmpty() && !sink.topics().contains(name)) {
      problem = name + " is not among those in the option topic: " + String.join(", ", sink.topics().stream().sorted().toList());
    }
    if (!problem.isEmpty()) {
      throw new BadRowError("column topic, row " + number + ": " + problem);
    }
    valid.add(name);
    return name;
  }

  /** The queue with that number: on that broker, or on the first that has it. */
  private Routes.Queue named(InternalRow row, String topic, long number) throws LaneError {
    long wanted = columns.whole(row, columns.queueId);
    boolean isAnywhere = !SinkColumns.isGiven(row, columns.broker);
    String broker = SinkColumns.text(row, columns.broker);
    for (Routes.Queue queue : sender.queuesOf(topic)) {
      if (queue.number() == wanted && (isAnywhere || queue.broker().equals(broker))) {
        return queue;
      }
    }
    String where = broker.isEmpty() ? "any broker" : "broker " + broker;
    throw new BadRowError("column queue_id, row " + number + ": topic " + topic + " has no queue " + wanted + " on " + where);
  }
}
