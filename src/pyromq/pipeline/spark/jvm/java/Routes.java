package pyromq.lane;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.util.HashMap;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;

/** Addresses of brokers, as name servers say them; kept for discoveryInterval. */
final class Routes {
  static final long MASTER_ID = 0;
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final Map<Topic, Known> KNOWN = new ConcurrentHashMap<>();

  private final PullPlan.Cluster cluster;
  private final PullPlan.Pulls pulls;

  Routes(PullPlan.Cluster cluster, PullPlan.Pulls pulls) {
    this.cluster = cluster;
    this.pulls = pulls;
  }

  private record Topic(String name, PullPlan.Cluster cluster) {}

  /** Addresses of each broker by id, and when they were asked. */
  private record Known(Map<String, TreeMap<Long, String>> brokers, long askedMs) {}

  /** The addresses of a broker of the topic, by id; none while it is not registered. */
  TreeMap<Long, String> of(String topic, String broker) throws LaneError {
    Topic key = new Topic(topic, cluster);
    Known known = KNOWN.get(key);
    if (known == null || System.currentTimeMillis() - known.askedMs >= pulls.discoveryMs()) {
      known = new Known(asked(topic), System.currentTimeMillis());
      KNOWN.put(key, known);
    }
    return known.brokers.getOrDefault(broker, new TreeMap<>());
  }

  void forget(String topic) {
    KNOWN.remove(new Topic(topic, cluster));
  }

  private Map<String, TreeMap<Long, String>> asked(String topic) throws LaneError {
    LaneError last = new TransportError("there is no name server", null);
    for (String address : cluster.nameservers()) {
      try {
        return asked(topic, address);
      } catch (LaneError error) {
        if (!error.mayRetryLater()) {
          throw error;
        }
        Connections.drop(address, cluster);
        last = error;
      }
    }
    throw last;
  }

  private Map<String, TreeMap<Long, String>> asked(String topic, String address) throws LaneError {
    Connection connection = Connections.take(address, cluster, pulls);
    Frame.Response response;
    try {
      TreeMap<String, String> fields = new TreeMap<>(Map.of("topic", topic, "acceptStandardJsonOnly", "true"));
      response = connection.receive(connection.send(Frame.GET_ROUTE, fields));
    } catch (TransportError error) {
      connection.close();
      throw error;
    }
    Connections.giveBack(connection, cluster);
    if (response.code() != 0) {
      throw new BrokerError(response.code(), response.remark());
    }
    return read(response.body());
  }

  private static Map<String, TreeMap<Long, String>> read(byte[] body) throws TransportError {
    Map<String, TreeMap<Long, String>> found = new HashMap<>();
    try {
      for (JsonNode broker : JSON.readTree(body).path("brokerDatas")) {
        TreeMap<Long, String> addresses = new TreeMap<>();
        broker.path("brokerAddrs").fields().forEachRemaining(
            each -> addresses.put(Long.parseLong(each.getKey()), each.getValue().asText()));
        found.put(broker.path("brokerName").asText(), addresses);
      }
    } catch (IOException | RuntimeException error) {
      throw new TransportError("a route cannot be read: " + error.getMessage(), error);
    }
    return found;
  }
}
