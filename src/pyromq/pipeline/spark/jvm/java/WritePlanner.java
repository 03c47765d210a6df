package pyromq.lane;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.List;
import java.util.Map;
import java.util.function.Supplier;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2;
import org.apache.spark.sql.execution.datasources.v2.python.PythonScanBuilder;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * Asks Python for the plan of a write: options and columns are checked there, and it knows what was written before. The
 * question is the planning of a batch read, which Spark runs as it always does, and whose only partition is the answer.
 */
final class WritePlanner {
  private static final String QUERY = "sql.streaming.queryId";
  private static final String BATCH = "streaming.sql.batchId";
  private static final ObjectMapper JSON = new ObjectMapper();

  private final String name;
  private final CaseInsensitiveStringMap options;
  private final Supplier<PythonDataSourceV2> newPlanner;
  private final Map<String, WritePlan> kept;
  final StructType columns;

  WritePlanner(String name, LogicalWriteInfo info, Supplier<PythonDataSourceV2> newPlanner, Map<String, WritePlan> kept) {
    this.name = name;
    this.options = info.options();
    this.columns = info.schema();
    this.newPlanner = newPlanner;
    this.kept = kept;
  }

  /** The plan of a batch write. */
  WritePlan ofBatch(boolean overwrites) {
    return plan(question(), "batch", "", overwrites);
  }

  /** The plan of the next batch of a streaming query: of an idempotent one it is another one each time. */
  WritePlan ofStream(boolean overwrites) {
    String query = SparkSession.active().sparkContext().getLocalProperty(QUERY);
    String key = query + columns.json() + overwrites;
    WritePlan known = kept.get(key);
    if (known == null) {
      ObjectNode question = question();
      String batch = SparkSession.active().sparkContext().getLocalProperty(BATCH);
      if (batch != null) {
        question.put("batch", Long.parseLong(batch));
      }
      known = plan(question, "stream", query, overwrites);
      if (!known.isIdempotent()) {
        kept.put(key, known);
      }
    }
    return known;
  }

  /** A batch of an idempotent query is done: Python notes where it ends, and of a live one how far tasks came. */
  void committed(long batch, List<RowWriter.Written> live) {
    ObjectNode question = question().put("commit", batch);
    if (live != null) {
      ObjectNode facts = question.putObject("live");
      ObjectNode rows = facts.putObject("rows");
      long found = 0;
      long foundMax = 0;
      long skipped = 0;
      long sent = 0;
      boolean hasOwnKeys = false;
      for (RowWriter.Written each : live) {
        rows.put(Integer.toString(each.partition()), each.next());
        found += each.found();
        foundMax = Math.max(foundMax, each.found());
        skipped += each.skipped();
        sent += each.rows();
        hasOwnKeys |= each.hasOwnKeys();
      }
      // with keys of their own all tasks find the same rows
      facts.put("found", hasOwnKeys ? foundMax : found).put("skipped", skipped).put("sent", sent);
    }
    asked(question);
  }

  private WritePlan plan(ObjectNode question, String use, String query, boolean overwrites) {
    return new WritePlan(asked(question.put("write", use).put("query", query).put("overwrites", overwrites)));
  }

  private static ObjectNode question() {
    return JSON.createObjectNode();
  }

  private String asked(ObjectNode question) {
    CaseInsensitiveStringMap marked = Lane.marked(options, question.toString());
    InputPartition[] found = new PythonScanBuilder(newPlanner.get(), name, columns, marked).build().toBatch().planInputPartitions();
    return PullPlan.text(found[0]);
  }
}
