package pyromq.lane;

import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.SupportsPushDownFilters;
import org.apache.spark.sql.connector.read.SupportsPushDownRequiredColumns;
import org.apache.spark.sql.execution.datasources.v2.python.PythonScanBuilder;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.types.StructType;

/**
 * What Spark knows of a query before it is planned: the columns that it needs, and conditions of its rows. With the option
 * pushFilters the planner reads no range that cannot meet them; Spark compares the rows in any case.
 */
final class LaneScanBuilder implements ScanBuilder, SupportsPushDownRequiredColumns, SupportsPushDownFilters {
  private final PythonScanBuilder planned;
  private final boolean takesConditions;
  private StructType columns;

  LaneScanBuilder(PythonScanBuilder planned, StructType columns, boolean takesConditions) {
    this.planned = planned;
    this.columns = columns;
    this.takesConditions = takesConditions;
  }

  @Override
  public void pruneColumns(StructType required) {
    columns = required;
  }

  @Override
  public Filter[] pushFilters(Filter[] filters) {
    if (takesConditions) {
      planned.pushFilters(filters);
    }
    return filters;
  }

  @Override
  public Filter[] pushedFilters() {
    return takesConditions ? planned.pushedFilters() : new Filter[0];
  }

  @Override
  public Scan build() {
    return new LaneScan(planned.build(), columns, pushedFilters());
  }
}
