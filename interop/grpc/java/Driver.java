import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.consumer.ConsumeResult;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.consumer.PushConsumer;
import org.apache.rocketmq.client.apis.consumer.SimpleConsumer;
import org.apache.rocketmq.client.apis.message.Message;
import org.apache.rocketmq.client.apis.message.MessageBuilder;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;
import org.apache.rocketmq.client.apis.producer.SendReceipt;
import org.apache.rocketmq.client.apis.producer.Transaction;
import org.apache.rocketmq.client.apis.producer.TransactionResolution;

/** The cases of docs/compatibility.md for the official Java client; prints one line for each: name, then what happened. */
public class GrpcSmoke {
    static final ClientServiceProvider PROVIDER = ClientServiceProvider.loadService();
    static ClientConfiguration configuration;

    public static void main(String[] args) throws Exception {
        configuration = ClientConfiguration.newBuilder().setEndpoints(args[0]).enableSsl(Boolean.parseBoolean(args[1])).build();
        Producer producer = PROVIDER.newProducerBuilder().setClientConfiguration(configuration)
            .setTopics("orders", "fifo", "later", "urgent", "work", "money")
            .setTransactionChecker(view -> body(view).equals("orphan") ? TransactionResolution.COMMIT : TransactionResolution.UNKNOWN)
            .build();
        normal(producer);
        fifo(producer);
        delay(producer);
        transaction(producer);
        push(producer);
        producer.close();
        System.exit(0);
    }

    static String body(MessageView view) {
        byte[] bytes = new byte[view.getBody().remaining()];
        view.getBody().duplicate().get(bytes);
        return new String(bytes);
    }

    static MessageBuilder message(String topic, String body) {
        return PROVIDER.newMessageBuilder().setTopic(topic).setBody(body.getBytes());
    }

    static List<String> receive(String group, String topic, int count, String expression) throws Exception {
        SimpleConsumer consumer = PROVIDER.newSimpleConsumerBuilder().setClientConfiguration(configuration)
            .setConsumerGroup(group).setAwaitDuration(Duration.ofSeconds(5))
            .setSubscriptionExpressions(Collections.singletonMap(topic, new FilterExpression(expression))).build();
        List<String> found = new ArrayList<>();
        long end = System.currentTimeMillis() + 60_000;
        while (found.size() < count && System.currentTimeMillis() < end) {
            for (MessageView view : consumer.receive(16, Duration.ofSeconds(15))) {
                found.add(body(view));
                consumer.ack(view);
            }
        }
        consumer.close();
        return found;
    }

    static void normal(Producer producer) throws Exception {
        for (int n = 0; n < 4; n++) {
            producer.send(message("orders", "n" + n).setTag(n % 2 == 0 ? "even" : "odd").setKeys("k" + n).addProperty("p", "" + n).build());
        }
        System.out.println("normal by tag: " + new TreeSet<>(receive("java-tagged", "orders", 2, "even")));
    }

    static void fifo(Producer producer) throws Exception {
        for (int n = 0; n < 5; n++) {
            producer.send(message("fifo", "f" + n).setMessageGroup("one").build());
        }
        System.out.println("order: " + receive("ordered", "fifo", 5, "*"));
    }

    static void delay(Producer producer) throws Exception {
        long now = System.currentTimeMillis();
        SendReceipt far = producer.send(message("later", "far").setDeliveryTimestamp(now + 3_600_000).build());
        producer.send(message("later", "soon").setDeliveryTimestamp(now + 2_000).build());
        producer.recallMessage("later", far.getRecallHandle());
        System.out.println("delay and recall: " + receive("java-patient", "later", 1, "*"));
    }

    static void transaction(Producer producer) throws Exception {
        for (String ending : new String[] {"committed", "rolled back", "orphan"}) {
            Transaction transaction = producer.beginTransaction();
            producer.send(message("money", ending).build(), transaction);
            if (ending.equals("committed")) {
                transaction.commit();
            } else if (ending.equals("rolled back")) {
                transaction.rollback();
            }
        }
        System.out.println("transactions: " + new TreeSet<>(receive("java-auditors", "money", 2, "*")));
    }

    static void push(Producer producer) throws Exception {
        Map<String, Integer> seen = new ConcurrentHashMap<>();
        CountDownLatch done = new CountDownLatch(2);
        PushConsumer consumer = PROVIDER.newPushConsumerBuilder().setClientConfiguration(configuration)
            .setConsumerGroup("java-pushed").setSubscriptionExpressions(Collections.singletonMap("work", new FilterExpression("*")))
            .setMessageListener(view -> {
                int attempt = seen.merge(body(view), 1, Integer::sum);
                if (body(view).equals("fails once") && attempt == 1) {
                    return ConsumeResult.FAILURE;
                }
                done.countDown();
                return ConsumeResult.SUCCESS;
            }).build();
        producer.send(message("work", "fine").build());
        producer.send(message("work", "fails once").build());
        done.await(60, TimeUnit.SECONDS);
        consumer.close();
        System.out.println("push and retry: " + new java.util.TreeMap<>(seen));
    }
}
