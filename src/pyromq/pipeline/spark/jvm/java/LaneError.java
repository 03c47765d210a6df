package pyromq.lane;

import java.io.IOException;
import java.util.List;
import java.util.Locale;
import java.util.Set;

/** Errors of the lane. Their texts are those of the Python source (pyromq.pipeline.core.errors, pyromq.errors). */
abstract class LaneError extends IOException {
  private static final long serialVersionUID = 1L;

  LaneError(String text, Throwable cause) {
    super(text, cause);
  }

  /** Whether the same request may succeed after a while: brokers restart. */
  boolean mayRetryLater() {
    return false;
  }
}

/** Messages that the query was to read are gone from the brokers. */
final class DataLossError extends LaneError {
  private static final long serialVersionUID = 1L;

  DataLossError(String loss) {
    super(
        "messages that this query was to read are gone: " + loss + ". To continue without them, set the option "
            + "failOnDataLoss to false; each gap is then logged",
        null);
  }
}

/** Brokers could not be asked for longer than retryTimeout. */
final class SourceUnreachableError extends LaneError {
  private static final long serialVersionUID = 1L;

  SourceUnreachableError(String what, long triedMs, LaneError error) {
    super(
        String.format(Locale.ROOT, "%s failed for %.1f s (option retryTimeout); the last error: %s. When the query is "
            + "started again, it continues where it stopped", what, triedMs / 1000.0, error.getMessage()),
        error);
  }
}

/** A server responded with an error code. */
final class BrokerError extends LaneError {
  private static final long serialVersionUID = 1L;
  private static final Set<Integer> LASTING = Set.of(3, 13, 16, 23, 26, 29); // pyromq.client.core.retry_advice

  BrokerError(int code, String remark) {
    super("code " + code + ": " + remark, null);
    this.code = code;
  }

  final int code;

  @Override
  boolean mayRetryLater() {
    return !LASTING.contains(code);
  }
}

/** No connection, no response in time, or bytes that are none. */
final class TransportError extends LaneError {
  private static final long serialVersionUID = 1L;

  TransportError(String text, Throwable cause) {
    super(text, cause);
  }

  @Override
  boolean mayRetryLater() {
    return true;
  }
}

/** The bytes at a log position are not the record that was written there. */
final class CorruptRecordError extends LaneError {
  private static final long serialVersionUID = 1L;

  CorruptRecordError(long position, String reason) {
    super("record at position " + position + " is damaged: " + reason, null);
  }
}

/** Rows that cannot be sent again safely, or a task that must not go on. */
final class RefusedError extends LaneError {
  private static final long serialVersionUID = 1L;

  RefusedError(String text) {
    super(text, null);
  }
}

/** A row that no broker would take; the text names the column and the row. */
final class BadRowError extends LaneError {
  private static final long serialVersionUID = 1L;

  BadRowError(String text) {
    super(text, null);
  }

  static BadRowError tooLarge(String what, int bytes, int bytesMax) {
    return new BadRowError(what + " has " + bytes + " bytes, at most " + bytesMax + " are allowed");
  }
}

/** Files or settings that cannot work. */
final class ConfigError extends LaneError {
  private static final long serialVersionUID = 1L;

  ConfigError(String text, List<String> files, Throwable cause) {
    super(text + " (" + String.join(", ", files) + ")", cause);
  }
}
