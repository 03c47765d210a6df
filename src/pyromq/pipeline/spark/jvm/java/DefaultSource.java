package pyromq;

import java.util.HashMap;
import java.util.Map;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import pyromq.lane.Lane;
import pyromq.lane.LaneTable;

/**
 * What Spark finds for format("pyromq") where this jar is on its class path: it looks for a class of that name before it
 * looks for sources of Python. Each query is planned by the Python source, which Spark runs as it always does; the lane
 * decides whether it is also read by Python.
 */
public final class DefaultSource implements TableProvider {
  private static final String NAME = "pyromq";

  private final Map<Map<String, String>, PythonDataSourceV2> planners = new HashMap<>(); // by their options

  @Override
  public StructType inferSchema(CaseInsensitiveStringMap options) {
    CaseInsensitiveStringMap marked = Lane.of(options).marked(options);
    return planner(marked).inferSchema(marked);
  }

  @Override
  public Table getTable(StructType schema, Transform[] partitioning, Map<String, String> properties) {
    return new LaneTable(NAME, schema, this::planner, DefaultSource::newPlanner);
  }

  @Override
  public boolean supportsExternalMetadata() {
    return true;
  }

  /** Spark keeps the plan of a batch with its source, so one frame always reads the same messages. */
  private synchronized PythonDataSourceV2 planner(CaseInsensitiveStringMap options) {
    return planners.computeIfAbsent(options.asCaseSensitiveMap(), given -> newPlanner());
  }

  private static PythonDataSourceV2 newPlanner() {
    PythonDataSourceV2 made = new PythonDataSourceV2();
    made.setShortName(NAME);
    return made;
  }
}
