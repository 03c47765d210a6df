package pyromq.lane;

import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.streaming.Offset;

/** The plan of a batch, which Python makes while Spark writes the batch into its log. */
record PlanAhead(String start, String end, FutureTask<InputPartition[]> task) {
  /** Begins to plan, on a thread of its own: there is one for each batch, and it lives for some milliseconds. */
  static PlanAhead of(Offset start, Offset end, Callable<InputPartition[]> planning) {
    FutureTask<InputPartition[]> task = new FutureTask<>(planning);
    Thread thread = new Thread(task, "pyromq-plan");
    thread.setDaemon(true);
    thread.start();
    return new PlanAhead(start.json(), end.json(), task);
  }

  boolean isFor(Offset from, Offset to) {
    return start.equals(from.json()) && end.equals(to.json());
  }

  /** Waits for the plan. An error of the planner is thrown as it is, as is the interrupt of a query that is stopped. */
  InputPartition[] plans() {
    try {
      return task.get();
    } catch (ExecutionException error) {
      throw PlanAhead.<RuntimeException>unchecked(error.getCause());
    } catch (InterruptedException error) {
      throw PlanAhead.<RuntimeException>unchecked(error);
    }
  }

  @SuppressWarnings("unchecked")
  private static <E extends Throwable> E unchecked(Throwable error) throws E {
    throw (E) error;
  }
}
