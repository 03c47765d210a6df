package pyromq.lane;

import java.util.ArrayDeque;
import java.util.Deque;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/** Open connections of this JVM that no task uses, for the next one. A connection that failed does not come back. */
final class Connections {
  private static final long IDLE_MS_MAX = 60_000; // servers close connections after 120 s
  private static final int KEPT_MAX = 16; // of one server

  private static final Map<Place, Deque<Connection>> FREE = new ConcurrentHashMap<>();

  private Connections() {}

  private record Place(String address, PullPlan.Cluster cluster) {}

  static Connection take(String address, PullPlan.Cluster cluster, PullPlan.Pulls pulls) throws LaneError {
    Deque<Connection> free = free(address, cluster);
    synchronized (free) {
      while (!free.isEmpty()) {
        Connection found = free.pop();
        if (System.currentTimeMillis() - found.lastUsedMs < IDLE_MS_MAX) {
          return found;
        }
        found.close();
      }
    }
    return Connection.open(address, cluster, pulls);
  }

  static void giveBack(Connection connection, PullPlan.Cluster cluster) {
    Deque<Connection> free = free(connection.address, cluster);
    synchronized (free) {
      if (connection.isFree() && free.size() < KEPT_MAX) {
        free.push(connection);
        return;
      }
    }
    connection.close();
  }

  /** Closes those to a server that has failed: it may have restarted. */
  static void drop(String address, PullPlan.Cluster cluster) {
    Deque<Connection> free = free(address, cluster);
    synchronized (free) {
      free.forEach(Connection::close);
      free.clear();
    }
  }

  private static Deque<Connection> free(String address, PullPlan.Cluster cluster) {
    return FREE.computeIfAbsent(new Place(address, cluster), place -> new ArrayDeque<>());
  }
}
