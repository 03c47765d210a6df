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
      String digest, byte[] system, Set<String> reserved) {
    String nameOf(String shown) {
      return names.getOrDefault(shown, shown);
    }
  }

  /** Of an idempotent write: batches up to {@code decided} are done, rows of others may lie in these ranges already. */
  record Replay(long decided, List<PullPlan.Range> ranges) {}

  /** The plan, ready to be used; {@code replay} is null where rows may be sent twice. */
  record Task(PullPlan.Cluster cluster, PullPlan.Pulls pulls, Sink sink, Replay replay) {}

  /** Whether the next batch needs a plan of its own, and its commit is to be told. */
  boolean isIdempotent() {
    return task().replay != null;
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
        new HashSet<>(PullPlan.texts(from.get("reserved"))));
  }

  private static Replay replay(JsonNode from) {
    if (from.isNull()) {
      return null;
    }
    List<PullPlan.Range> ranges = new ArrayList<>();
    from.get("ranges").forEach(each -> ranges.add(PullPlan.range(each)));
    return new Replay(from.get("decided").asLong(), ranges);
  }
}
