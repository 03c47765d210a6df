package pyromq.lane;

import com.fasterxml.jackson.databind.node.TextNode;
import java.util.Map;
import java.util.StringJoiner;
import java.util.TreeMap;
import org.apache.spark.sql.connector.read.streaming.PartitionOffset;

/** Where a task of real-time mode stands in its queue: the next offset to read. */
record QueueOffset(String topic, String broker, int queue, long next) implements PartitionOffset {
  /** The offsets of all tasks as checkpoints have them: {"orders": {"broker-a": {"0": 123}}}, sorted. */
  static String tree(PartitionOffset[] offsets) {
    Map<String, Map<String, Map<Integer, Long>>> tree = new TreeMap<>();
    for (PartitionOffset each : offsets) {
      QueueOffset at = (QueueOffset) each;
      tree.computeIfAbsent(at.topic, topic -> new TreeMap<>())
          .computeIfAbsent(at.broker, broker -> new TreeMap<>())
          .put(at.queue, at.next);
    }
    return text(tree);
  }

  /** With a blank behind each colon and comma, as Python writes it: Spark compares offsets as texts. */
  private static String text(Object tree) {
    if (!(tree instanceof Map<?, ?> entries)) {
      return tree.toString();
    }
    StringJoiner text = new StringJoiner(", ", "{", "}");
    entries.forEach((name, value) -> text.add(TextNode.valueOf(name.toString()) + ": " + text(value)));
    return text.toString();
  }
}
