package pyromq.lane;

import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Function;
import java.util.function.Supplier;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2;
import org.apache.spark.sql.execution.datasources.v2.python.PythonScanBuilder;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** Topics as a table: read and written by the lane that the options choose. */
public final class LaneTable implements SupportsRead, SupportsWrite {
  private static final String CONDITIONS = "pushFilters";

  private final String name;
  private final StructType schema;
  private final Function<CaseInsensitiveStringMap, PythonDataSourceV2> planners;
  private final Supplier<PythonDataSourceV2> newPlanner;
  private volatile Lane writer; // null until there is a write
  private final Map<String, WritePlan> writes = new ConcurrentHashMap<>(); // by query: plans that serve more than one batch

  public LaneTable(
      String name,
      StructType schema,
      Function<CaseInsensitiveStringMap, PythonDataSourceV2> planners,
      Supplier<PythonDataSourceV2> newPlanner) {
    this.name = name;
    this.schema = schema;
    this.planners = planners;
    this.newPlanner = newPlanner;
  }

  @Override
  public String name() {
    return name;
  }

  /** What Spark shows as the description of a sink in the progress of a query. */
  @Override
  public String toString() {
    return name + "[lane=" + (writer == null ? "" : writer.name().toLowerCase(Locale.ROOT)) + "]";
  }

  @Override
  public StructType schema() {
    return schema;
  }

  @Override
  public Set<TableCapability> capabilities() {
    return written().capabilities();
  }

  @Override
  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
    Lane lane = Lane.of(options);
    CaseInsensitiveStringMap marked = lane.marked(options);
    if (lane == Lane.PYTHON) {
      return ((SupportsRead) table(planners.apply(marked))).newScanBuilder(marked);
    }
    boolean takesConditions = options.getBoolean(CONDITIONS, false);
    // a plan that heeds conditions must not be kept for the next query of the frame, which may have none
    PythonDataSourceV2 planner = takesConditions ? newPlanner.get() : planners.apply(marked);
    return new LaneScanBuilder(new PythonScanBuilder(planner, name, schema, marked), schema, takesConditions);
  }

  @Override
  public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
    writer = Lane.ofWrite(info.options());
    if (writer == Lane.JVM) {
      return new LaneWriteBuilder(new WritePlanner(name, info, newPlanner, writes));
    }
    return ((SupportsWrite) written()).newWriteBuilder(info);
  }

  private Table written() {
    return table(planners.apply(CaseInsensitiveStringMap.empty()));
  }

  private Table table(PythonDataSourceV2 planner) {
    return planner.getTable(schema, new Transform[0], Map.of());
  }
}
