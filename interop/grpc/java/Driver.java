import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.consumer.ConsumeResult;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.consumer.FilterExpressionType;
import org.apache.rocketmq.client.apis.consumer.PushConsumer;
import org.apache.rocketmq.client.apis.consumer.SimpleConsumer;
import org.apache.rocketmq.client.apis.message.Message;
import org.apache.rocketmq.client.apis.message.MessageBuilder;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;
import org.apache.rocketmq.client.apis.producer.SendReceipt;
import org.apache.rocketmq.client.apis.producer.Transaction;
import org.apache.rocketmq.client.apis.producer.TransactionResolution;
import org.apache.rocketmq.shaded.com.google.gson.JsonArray;
import org.apache.rocketmq.shaded.com.google.gson.JsonElement;
import org.apache.rocketmq.shaded.com.google.gson.JsonNull;
import org.apache.rocketmq.shaded.com.google.gson.JsonObject;
import org.apache.rocketmq.shaded.com.google.gson.JsonParser;

/** The official Java client, driven by lines of JSON: see interop/grpc/clients.py for the words. TLS, as it comes. */
public class Driver {
    static final ClientServiceProvider PROVIDER = ClientServiceProvider.loadService();
    static final Map<String, AutoCloseable> RUNNING = new ConcurrentHashMap<>();
    static final Map<String, MessageView> RECEIVED = new ConcurrentHashMap<>();
    static final Map<String, List<JsonObject>> SEEN = new ConcurrentHashMap<>();

    public static void main(String[] args) throws Exception {
        PrintStream out = new PrintStream(System.out, true, "UTF-8");
        System.setOut(System.err);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            JsonObject answer = new JsonObject();
            try {
                answer.add("ok", answer(new JsonParser().parse(line).getAsJsonObject()));
            } catch (Throwable error) {
                answer.add("error", described(error));
            }
            out.println(answer);
        }
        System.exit(0);
    }

    static JsonObject described(Throwable error) {
        JsonObject facts = new JsonObject();
        facts.addProperty("type", error.getClass().getSimpleName());
        facts.addProperty("message", String.valueOf(error.getMessage()));
        return facts;
    }

    static JsonElement answer(JsonObject asked) throws Exception {
        String name = asked.get("name").getAsString();
        switch (asked.get("op").getAsString()) {
            case "producer.start":
                RUNNING.put(name, producer(asked));
                return JsonNull.INSTANCE;
            case "producer.send":
                return receipt(((Producer) RUNNING.get(name)).send(message(asked.getAsJsonObject("message"))));
            case "producer.transaction":
                return transaction((Producer) RUNNING.get(name), asked);
            case "producer.recall":
                ((Producer) RUNNING.get(name)).recallMessage(text(asked, "topic"), text(asked, "handle"));
                return JsonNull.INSTANCE;
            case "simple.start":
                RUNNING.put(name, PROVIDER.newSimpleConsumerBuilder().setClientConfiguration(configuration(asked))
                    .setConsumerGroup(text(asked, "group")).setAwaitDuration(Duration.ofMillis(asked.get("waitMs").getAsLong()))
                    .setSubscriptionExpressions(subscription(asked)).build());
                return JsonNull.INSTANCE;
            case "simple.receive":
                return receive((SimpleConsumer) RUNNING.get(name), asked);
            case "simple.ack":
                ((SimpleConsumer) RUNNING.get(name)).ack(RECEIVED.get(text(asked, "id")));
                return JsonNull.INSTANCE;
            case "simple.change":
                Duration invisible = Duration.ofMillis(asked.get("invisibleMs").getAsLong());
                ((SimpleConsumer) RUNNING.get(name)).changeInvisibleDuration(RECEIVED.get(text(asked, "id")), invisible);
                return JsonNull.INSTANCE;
            case "push.start":
                RUNNING.put(name, push(asked));
                return JsonNull.INSTANCE;
            case "push.wait":
                return seen(SEEN.get(name), asked.get("count").getAsInt(), asked.get("timeoutMs").getAsLong());
            default:
                RUNNING.remove(name).close();
                return JsonNull.INSTANCE;
        }
    }

    static String text(JsonObject asked, String field) {
        return asked.get(field).getAsString();
    }

    static ClientConfiguration configuration(JsonObject asked) {
        return ClientConfiguration.newBuilder().setEndpoints(text(asked, "endpoint"))
            .setRequestTimeout(Duration.ofSeconds(20)).build();
    }

    static Map<String, FilterExpression> subscription(JsonObject asked) {
        FilterExpressionType type = asked.get("sql").getAsBoolean() ? FilterExpressionType.SQL92 : FilterExpressionType.TAG;
        return Collections.singletonMap(text(asked, "topic"), new FilterExpression(text(asked, "expression"), type));
    }

    static Producer producer(JsonObject asked) throws Exception {
        List<String> topics = new ArrayList<>();
        asked.getAsJsonArray("topics").forEach(each -> topics.add(each.getAsString()));
        return PROVIDER.newProducerBuilder().setClientConfiguration(configuration(asked)).setTopics(topics.toArray(new String[0]))
            .setTransactionChecker(view -> {
                String body = body(view);
                return body.endsWith("commit") ? TransactionResolution.COMMIT
                    : body.endsWith("rollback") ? TransactionResolution.ROLLBACK : TransactionResolution.UNKNOWN;
            }).build();
    }

    static Message message(JsonObject asked) {
        MessageBuilder builder = PROVIDER.newMessageBuilder().setTopic(text(asked, "topic"))
            .setBody(text(asked, "body").getBytes(StandardCharsets.UTF_8));
        if (asked.has("tag")) {
            builder.setTag(text(asked, "tag"));
        }
        if (asked.has("keys")) {
            List<String> keys = new ArrayList<>();
            asked.getAsJsonArray("keys").forEach(each -> keys.add(each.getAsString()));
            builder.setKeys(keys.toArray(new String[0]));
        }
        if (asked.has("properties")) {
            asked.getAsJsonObject("properties").entrySet().forEach(each -> builder.addProperty(each.getKey(), each.getValue().getAsString()));
        }
        if (asked.has("group")) {
            builder.setMessageGroup(text(asked, "group"));
        }
        if (asked.has("deliverAtMs")) {
            builder.setDeliveryTimestamp(asked.get("deliverAtMs").getAsLong());
        }
        if (asked.has("priority")) {
            builder.setPriority(asked.get("priority").getAsInt());
        }
        return builder.build();
    }

    static JsonObject receipt(SendReceipt receipt) {
        JsonObject found = new JsonObject();
        found.addProperty("id", receipt.getMessageId().toString());
        found.addProperty("handle", receipt.getRecallHandle());
        return found;
    }

    static JsonElement transaction(Producer producer, JsonObject asked) throws Exception {
        Transaction transaction = producer.beginTransaction();
        SendReceipt sent = producer.send(message(asked.getAsJsonObject("message")), transaction);
        if (text(asked, "ending").equals("commit")) {
            transaction.commit();
        } else if (text(asked, "ending").equals("rollback")) {
            transaction.rollback();
        }
        return receipt(sent);
    }

    static String body(MessageView view) {
        return StandardCharsets.UTF_8.decode(view.getBody().duplicate()).toString();
    }

    static JsonObject shown(MessageView view) {
        JsonObject found = new JsonObject();
        found.addProperty("id", view.getMessageId().toString());
        found.addProperty("body", body(view));
        found.addProperty("tag", view.getTag().orElse(""));
        JsonArray keys = new JsonArray();
        view.getKeys().forEach(keys::add);
        found.add("keys", keys);
        JsonObject properties = new JsonObject();
        view.getProperties().forEach(properties::addProperty);
        found.add("properties", properties);
        found.addProperty("attempt", view.getDeliveryAttempt());
        found.addProperty("group", view.getMessageGroup().orElse(""));
        return found;
    }

    static JsonArray receive(SimpleConsumer consumer, JsonObject asked) throws Exception {
        JsonArray found = new JsonArray();
        Duration invisible = Duration.ofMillis(asked.get("invisibleMs").getAsLong());
        for (MessageView view : consumer.receive(asked.get("count").getAsInt(), invisible)) {
            RECEIVED.put(view.getMessageId().toString(), view);
            found.add(shown(view));
        }
        return found;
    }

    static PushConsumer push(JsonObject asked) throws Exception {
        List<JsonObject> seen = Collections.synchronizedList(new ArrayList<>());
        SEEN.put(text(asked, "name"), seen);
        JsonObject failures = asked.getAsJsonObject("failures");
        Map<String, Integer> times = new ConcurrentHashMap<>();
        return PROVIDER.newPushConsumerBuilder().setClientConfiguration(configuration(asked))
            .setConsumerGroup(text(asked, "group")).setSubscriptionExpressions(subscription(asked))
            .setMessageListener(view -> {
                seen.add(shown(view));
                int time = times.merge(body(view), 1, Integer::sum);
                boolean fails = failures.has(body(view)) && time <= failures.get(body(view)).getAsInt();
                return fails ? ConsumeResult.FAILURE : ConsumeResult.SUCCESS;
            }).build();
    }

    static JsonArray seen(List<JsonObject> seen, int count, long timeoutMs) throws InterruptedException {
        for (long end = System.currentTimeMillis() + timeoutMs; seen.size() < count && System.currentTimeMillis() < end;) {
            Thread.sleep(50);
        }
        JsonArray found = new JsonArray();
        synchronized (seen) {
            seen.forEach(found::add);
        }
        return found;
    }
}
