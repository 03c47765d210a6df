package pyromq.lane;

import org.apache.spark.SparkEnv;
import org.apache.spark.TaskContext;
import org.apache.spark.scheduler.OutputCommitCoordinator;

/**
 * Which attempt this is at the rows of a partition, and whose turn it is. When Spark has lost a part of the shuffle before a
 * write, it begins the stage anew: attempts of tasks count from 0 again, and tasks of the first stage that have fetched all
 * they need go on beside those of the second. The driver lets one of them commit, and another one only when that has
 * failed. For a topic to commit is to send, so a task asks before its first row.
 */
final class Attempts {
  private static final long ASK_AGAIN_MS = 200;

  private Attempts() {}

  /** 0 for the first, however the stage was begun; no two attempts at a partition have the same. */
  static int number() {
    TaskContext task = TaskContext.get();
    return task == null ? 0 : task.stageAttemptNumber() << 16 | task.attemptNumber();
  }

  /** Returns when no other attempt at the same partition may send; Spark kills those whose partition is done meanwhile. */
  static void awaitTurn() throws LaneError {
    TaskContext task = TaskContext.get();
    if (task == null) {
      return;
    }
    OutputCommitCoordinator driver = SparkEnv.get().outputCommitCoordinator();
    while (!driver.canCommit(task.stageId(), task.stageAttemptNumber(), task.partitionId(), task.attemptNumber())) {
      FoundRows.pause(ASK_AGAIN_MS);
      task.killTaskIfInterrupted();
    }
  }
}
