package pyromq.lane;

import org.apache.spark.TaskContext;

/** Time within which one thing is tried again; every success renews it (pyromq.pipeline.core.retry_window). */
final class RetryWindow {
  private static final long WAIT_MS_FIRST = 50;
  private static final long WAIT_MS_MAX = 2_000;

  private final String what;
  private final long allowedMs;
  private long sinceNs;
  private int failures;

  RetryWindow(String what, long allowedMs) {
    this.what = what;
    this.allowedMs = allowedMs;
  }

  void succeeded() {
    failures = 0;
  }

  /** Waits before the next attempt, or gives up. */
  void failed(LaneError error) throws LaneError {
    if (!error.mayRetryLater()) {
      throw error;
    }
    sinceNs = failures == 0 ? System.nanoTime() : sinceNs;
    long triedMs = (System.nanoTime() - sinceNs) / 1_000_000;
    if (triedMs >= allowedMs) {
      throw new SourceUnreachableError(what, triedMs, error);
    }
    long waitMs = Math.min(WAIT_MS_MAX, WAIT_MS_FIRST << Math.min(failures++, 10));
    pause(Math.max(1, Math.min(waitMs, allowedMs - triedMs)), error);
  }

  private static void pause(long waitMs, LaneError error) throws LaneError {
    TaskContext task = TaskContext.get();
    if (task != null) {
      task.killTaskIfInterrupted();
    }
    try {
      Thread.sleep(waitMs);
    } catch (InterruptedException interrupt) {
      Thread.currentThread().interrupt();
      throw error;
    }
  }
}
