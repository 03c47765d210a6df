package pyromq.lane;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.io.Serializable;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** What the tasks of one batch have to know, as the Python sink has planned it (pyromq.pipeline.spark.jvm.writes). */
record WritePlan(String json) implements Serializable {
  private static final ObjectMapper JSON = new ObjectMapper();

  /** How rows become requests. {@code topic} is empty where a column decides; {@code names} are those of topics at servers. */
  record Sink(
      String topic, Set<String> topics, Map<String, String> names, String group, int batchBytes, int inFlight, int settleMs,
      String digest, byte[] system, Set<String> reserved, String badTopic, String badFolder) {
    /** Whether rows that cannot be sent go to a topic or a folder; else they end the task. */
    boolean setsAside() {
      return !badTopic.isEmpty() || !badFolder.isEmpty();
    }

    String nameOf(String shown) {
      return names.getOrDefault(shown, shown);
    }
  }

  /** Rows have the numbers of an earlier batch: those of each partition go on behind so many. */
  record Numbering(long batch, Map<Integer, Long> rows) {}

  /**
   * Of an idempotent write: batches up to {@code decided} are done, rows of others may lie in these ranges already. A live
   * batch has no end before it is over; {@code again} is for one that is decided, and that Spark may run once more.
   */
  record Replay(long decided, boolean isLive, List<PullPlan.Range> ranges, Numbering goesOn, Replay again) {
    boolean isDone(long batch) {
      return batch < decided || batch == decided && again == null;
    }

    /** What there is to know for the tasks of a batch that is not done. */
    Replay of(long batch) {
      return batch == decided ? again : this;
    }
  }

  /** The plan, ready to be used; {@code replay} is null where rows may be sent twice. */
  record Task(PullPlan.Cluster cluster, PullPlan.Pulls pulls, Sink sink, Replay replay) {}

  /** Whether the next batch needs a plan of its own, and its commit is to be told. */
  boolean isIdempotent() {
    return task().replay != null;
  }

  /** Whether nobody knows where the batch ends: real-time mode. */
  boolean isLive() {
    Replay replay = task().replay;
    return replay != null && replay.isLive();
  }

  Task task() {
    try {
      JsonNode root = JSON.readTree(json);
      return new Task(
          PullPlan.cluster(root.get("cluster")), PullPlan.pulls(root.get("pulls")), sink(root.get("sink")), replay(root.get("replay")));
    } catch (IOException error) {
      throw new IllegalStateException("the plan of a write cannot be read: " + error, error);
    }
  }

  private static Sink sink(JsonNode from) {
    Map<String, String> names = new HashMap<>();
    from.get("names").fields().forEachRemaining(each -> names.put(each.getKey(), each.getValue().asText()));
    return new Sink(
        PullPlan.text(from, "topic"),
        new HashSet<>(PullPlan.texts(from.get("topics"))),
        names,
        PullPlan.text(from, "group"),
        from.get("batch_bytes").asInt(),
        from.get("in_flight").asInt(),
        from.get("settle_ms").asInt(),
        PullPlan.text(from, "digest"),
        PullPlan.text(from, "system").getBytes(StandardCharsets.UTF_8),
        new HashSet<>(PullPlan.texts(from.get("reserved"))),
        PullPlan.text(from, "bad_topic"),
        PullPlan.text(from, "bad_folder"));
  }

  private static Replay replay(JsonNode from) {
    if (from.isNull()) {
      return null;
    }
    long decided = from.get("decided").asLong();
    boolean isLive = from.get("live").asBoolean();
    JsonNode again = from.get("again");
    return new Replay(decided, isLive, ranges(from), numbering(from.get("goes_on")),
        again.isNull() ? null : new Replay(decided, isLive, ranges(again), numbering(again.get("goes_on")), null));
  }

  private static List<PullPlan.Range> ranges(JsonNode from) {
    List<PullPlan.Range> ranges = new ArrayList<>();
    from.get("ranges").forEach(each -> ranges.add(PullPlan.range(each)));
    return ranges;
  }

  private static Numbering numbering(JsonNode from) {
    if (from.isNull()) {
      return null;
    }
    Map<Integer, Long> rows = new HashMap<>();
    from.get("rows").fields().forEachRemaining(each -> rows.put(Integer.parseInt(each.getKey()), each.getValue().asLong()));
    return new Numbering(from.get("batch").asLong(), rows);
  }
}
