package pyromq.lane;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.zip.CRC32;

/** Which rows of a batch that is run again lie in their topics already (pyromq.pipeline.sink.replay). */
final class FoundRows {
  private static final int CRC_MASK = 0x7FFFFFFF;

  private final WritePlan.Task plan;
  private final WritePlan.Replay replay;
  private final PullPlan.Pulls pulls;
  private final Routes routes;

  FoundRows(WritePlan.Task plan, WritePlan.Replay replay) {
    PullPlan.Pulls given = plan.pulls();
    this.plan = plan;
    this.replay = replay;
    this.pulls = new PullPlan.Pulls(given.group(), given.count(), given.gatherBytes(), given.retryMs(), given.requestMs(),
        given.connectMs(), given.discoveryMs(), false); // what is gone cannot be there twice
    this.routes = new Routes(plan.cluster(), pulls);
  }

  /** Keys with that beginning, and checksums of their bodies: of an earlier life, or of an earlier attempt of the task. */
  Map<String, Integer> before(String prefix, boolean isRepeated) throws LaneError {
    List<PullPlan.Range> ranges = replay.ranges();
    if (isRepeated) {
      pause(plan.sink().settleMs()); // what the earlier attempt sent may still be on its way
      ranges = untilNow();
    }
    return read(ranges, prefix);
  }

  /** Whether a request arrived at a queue that did not confirm it. */
  boolean isStored(SendRequest request, Routes.Queue queue, String prefix) throws LaneError {
    PullPlan.Range planned = planned(queue);
    Map<String, Integer> found = read(List.of(range(queue, planned == null ? null : planned.end())), prefix);
    int there = 0;
    for (int at = 0; at < request.keys.size; at += RowKeys.KEY_BYTES) {
      there += found.containsKey(new String(request.keys.data, at, RowKeys.KEY_BYTES, StandardCharsets.ISO_8859_1)) ? 1 : 0;
    }
    if (there > 0 && there < request.rows) {
      throw new RefusedError("a broker stored " + there + " of " + request.rows + " rows of one request before it stopped; "
          + "run the batch again, it sends the missing ones");
    }
    return there > 0;
  }

  /** Whether a row with that checksum, which was found, is this one. */
  static void check(int foundCrc, byte[] body) throws LaneError {
    CRC32 crc = new CRC32();
    crc.update(body);
    if ((foundCrc & CRC_MASK) != ((int) crc.getValue() & CRC_MASK)) {
      throw new RefusedError(
          "a batch that is run again has other rows than the first time (because of a shuffle, or of random or current values "
              + "before the sink), so it is not known which rows were sent. Add a column unique_key, or use the mode "
              + "at-least-once or transactional");
    }
  }

  private Map<String, Integer> read(List<PullPlan.Range> ranges, String prefix) throws LaneError {
    Map<String, Integer> found = new HashMap<>();
    byte[] begun = prefix.getBytes(StandardCharsets.ISO_8859_1);
    for (PullPlan.Range range : ranges) {
      try (RangePuller puller = new RangePuller(new PullPlan.Task(plan.cluster(), pulls, ranges), range)) {
        for (byte[] data = puller.next(); data != null; data = puller.next()) {
          note(new StoredRecords(data, range), begun, found);
        }
      }
    }
    return found;
  }

  private static void note(StoredRecords records, byte[] prefix, Map<String, Integer> found) {
    for (int row = 0; row < records.count(); row++) {
      long span = PropertyText.find(records.data, records.propertyStart(row), records.end(row), PropertyText.UNIQUE_KEY);
      int start = span < 0 ? 0 : PropertyText.startOf(span);
      int length = span < 0 ? 0 : PropertyText.endOf(span) - start;
      if (length >= prefix.length && Arrays.equals(records.data, start, start + prefix.length, prefix, 0, prefix.length)) {
        found.put(new String(records.data, start, length, StandardCharsets.ISO_8859_1), records.bodyCrc(row));
      }
    }
  }

  // --- where queues end now ---

  private List<PullPlan.Range> untilNow() throws LaneError {
    Set<String> topics = new TreeSet<>();
    replay.ranges().forEach(each -> topics.add(each.topic()));
    List<PullPlan.Range> found = new ArrayList<>();
    for (String topic : topics) {
      for (Routes.Queue queue : queuesOf(topic)) {
        PullPlan.Range planned = planned(queue);
        found.add(range(queue, planned == null ? null : planned.start()));
      }
    }
    return found;
  }

  private List<Routes.Queue> queuesOf(String topic) throws LaneError {
    RetryWindow window = new RetryWindow("asking for the queues of topic " + topic, pulls.retryMs());
    while (true) {
      try {
        return routes.toRead(topic);
      } catch (LaneError error) {
        window.failed(error);
      }
    }
  }

  private PullPlan.Range planned(Routes.Queue queue) {
    for (PullPlan.Range each : replay.ranges()) {
      if (each.topic().equals(queue.topic()) && each.broker().equals(queue.broker()) && each.queue() == queue.number()) {
        return each;
      }
    }
    return null;
  }

  /** From there, or the first message, to the last one of now. */
  private PullPlan.Range range(Routes.Queue queue, Long start) throws LaneError {
    RetryWindow window = new RetryWindow("asking brokers for their queues", pulls.retryMs());
    while (true) {
      try {
        long first = start == null ? asked(queue, Frame.GET_MIN_OFFSET) : start;
        return new PullPlan.Range(
            queue.topic(), queue.topic(), queue.broker(), queue.number(), first, asked(queue, Frame.GET_MAX_OFFSET), "*", "TAG", Set.of());
      } catch (LaneError error) {
        routes.forget(queue.topic());
        window.failed(error);
      }
    }
  }

  private long asked(Routes.Queue queue, int code) throws LaneError {
    Connection connection = Connections.take(routes.masterOf(queue), plan.cluster(), pulls);
    try {
      TreeMap<String, String> fields = new TreeMap<>(Map.of("topic", queue.topic(), "queueId", Integer.toString(queue.number())));
      Frame.Response response = connection.receive(connection.send(code, fields));
      if (response.code() != 0) {
        throw new BrokerError(response.code(), response.remark());
      }
      long found = response.number("offset");
      Connections.giveBack(connection, plan.cluster());
      return found;
    } catch (LaneError error) {
      Connections.drop(connection.address, plan.cluster());
      connection.close();
      throw error;
    }
  }

  static void pause(long waitMs) throws LaneError {
    try {
      Thread.sleep(waitMs);
    } catch (InterruptedException interrupt) {
      Thread.currentThread().interrupt();
      throw new RefusedError("the task was interrupted");
    }
  }
}
