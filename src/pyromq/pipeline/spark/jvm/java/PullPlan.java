package pyromq.lane;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import net.razorvine.pickle.Unpickler;
import net.razorvine.pickle.objects.ClassDict;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.execution.datasources.v2.python.PythonInputPartition;
import org.apache.spark.sql.execution.datasources.v2.python.PythonStreamingInputPartition;

/** What one task reads, as the planner of the Python source has written it (pyromq.pipeline.spark.jvm.plans). */
final class PullPlan implements InputPartition {
  private static final long serialVersionUID = 1L;
  private static final ObjectMapper JSON = new ObjectMapper();

  private final String json;

  private PullPlan(String json) {
    this.json = json;
  }

  /** The offsets [start, end) of one queue, and what of them is wanted. */
  record Range(
      String topic, String shownTopic, String broker, int queue, long start, long end, String expression, String kind, Set<String> tags) {
    boolean isOpen() {
      return kind.equals("TAG") && tags.isEmpty();
    }

    /** Whether it ends: in real-time mode a queue is read as long as the batch lasts. */
    boolean hasEnd() {
      return end != Long.MAX_VALUE;
    }

    String shown() {
      return "queue " + queue + " of topic " + topic + " on broker " + broker;
    }
  }

  /** Who asks. */
  record Credentials(String accessKey, String secretKey, String securityToken) {}

  /** How servers are reached: without a file the system's authorities, without a name the host of the address. */
  record Tls(String caFile, boolean verify, boolean checkHostname, String hostname) {}

  /** Servers and identity; connections are kept for each. */
  record Cluster(List<String> nameservers, Credentials credentials, Tls tls) {}

  /** How pulls are made. */
  record Pulls(
      String group, int count, int gatherBytes, int retryMs, int requestMs, int connectMs, int discoveryMs, boolean failOnDataLoss) {}

  /** The plan of a task, ready to be read. */
  record Task(Cluster cluster, Pulls pulls, List<Range> ranges) {}

  /** The plan in a partition of the Python source; null for the one that Spark makes up when there is none. */
  static PullPlan unpickled(InputPartition partition) {
    String json = text(partition);
    return json == null ? null : new PullPlan(json);
  }

  /** What the planner has put into a partition; null for the one that Spark makes up. */
  static String text(InputPartition partition) {
    byte[] pickled =
        partition instanceof PythonInputPartition of
            ? of.pickedPartition()
            : ((PythonStreamingInputPartition) partition).pickedPartition();
    try {
      Object made = new Unpickler().loads(pickled);
      return made instanceof ClassDict found && found.get("value") instanceof String json ? json : null;
    } catch (IOException error) {
      throw new IllegalStateException("the plan of the Python source cannot be read: " + error, error);
    }
  }

  Task task() {
    try {
      JsonNode root = JSON.readTree(json);
      List<Range> ranges = new ArrayList<>();
      root.get("ranges").forEach(each -> ranges.add(range(each)));
      return new Task(cluster(root.get("cluster")), pulls(root.get("pulls")), ranges);
    } catch (IOException error) {
      throw new IllegalStateException("the plan of a task cannot be read: " + error, error);
    }
  }

  static Range range(JsonNode from) {
    return new Range(
        from.get("topic").asText(),
        from.get("shown_topic").asText(),
        from.get("broker").asText(),
        from.get("queue").asInt(),
        from.get("start").asLong(),
        from.get("end").asLong(),
        from.get("expression").asText(),
        from.get("kind").asText(),
        new HashSet<>(texts(from.get("tags"))));
  }

  static Cluster cluster(JsonNode from) {
    JsonNode keys = from.get("credentials");
    JsonNode tls = from.get("tls");
    return new Cluster(
        texts(from.get("nameservers")),
        keys.isNull() ? null : new Credentials(text(keys, "access_key"), text(keys, "secret_key"), text(keys, "security_token")),
        tls.isNull()
            ? null
            : new Tls(text(tls, "ca_file"), tls.get("verify").asBoolean(), tls.get("check_hostname").asBoolean(), text(tls, "hostname")));
  }

  static Pulls pulls(JsonNode from) {
    return new Pulls(
        text(from, "group"),
        from.get("count").asInt(),
        from.get("gather_bytes").asInt(),
        from.get("retry_ms").asInt(),
        from.get("request_ms").asInt(),
        from.get("connect_ms").asInt(),
        from.get("discovery_ms").asInt(),
        from.get("fail_on_data_loss").asBoolean());
  }

  static String text(JsonNode from, String name) {
    return from.get(name).asText();
  }

  static List<String> texts(JsonNode from) {
    List<String> found = new ArrayList<>();
    from.forEach(each -> found.add(each.asText()));
    return found;
  }
}
