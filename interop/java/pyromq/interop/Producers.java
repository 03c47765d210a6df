package pyromq.interop;

import com.alibaba.fastjson2.JSONArray;
import com.alibaba.fastjson2.JSONObject;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** Producers by name. */
final class Producers {
    private final Map<String, DefaultMQProducer> running = new ConcurrentHashMap<>();
    private final Map<String, List<String>> checks = new ConcurrentHashMap<>();

    Object start(JSONObject a) throws Exception {
        String name = a.getString("name");
        DefaultMQProducer producer = a.getBooleanValue("transactional")
            ? transactional(name, a) : new DefaultMQProducer(a.getString("group"), Driver.hook(a));
        producer.setEnableTrace(a.getBooleanValue("trace"));
        Driver.place(producer, a, name);
        producer.setVipChannelEnabled(a.getBooleanValue("vip"));
        producer.setSendMsgTimeout(a.getIntValue("timeoutMs", Driver.PATIENCE_MS));
        producer.setRetryTimesWhenSendFailed(a.getIntValue("retries", 0));
        if (a.containsKey("compressOver")) {
            producer.setCompressMsgBodyOverHowmuch(a.getIntValue("compressOver"));
        }
        producer.start();
        running.put(name, producer);
        return producer.buildMQClientId();
    }

    /** Commits, rolls back or leaves open according to the user property "outcome"; checks answer by "checked". */
    private TransactionMQProducer transactional(String name, JSONObject a) {
        TransactionMQProducer producer = new TransactionMQProducer(a.getString("group"), Driver.hook(a));
        List<String> checked = java.util.Collections.synchronizedList(new ArrayList<>());
        checks.put(name, checked);
        producer.setTransactionListener(new TransactionListener() {
            @Override
            public LocalTransactionState executeLocalTransaction(Message message, Object argument) {
                return LocalTransactionState.valueOf(message.getUserProperty("outcome"));
            }

            @Override
            public LocalTransactionState checkLocalTransaction(MessageExt message) {
                checked.add(new String(message.getBody(), java.nio.charset.StandardCharsets.UTF_8));
                return LocalTransactionState.valueOf(message.getUserProperty("checked"));
            }
        });
        return producer;
    }

    Object send(JSONObject a) throws Exception {
        DefaultMQProducer producer = running.get(a.getString("name"));
        List<Message> messages = new ArrayList<>();
        JSONArray given = a.getJSONArray("messages");
        for (int i = 0; i < given.size(); i++) {
            messages.add(Messages.of(given.getJSONObject(i)));
        }
        List<Object> results = new ArrayList<>();
        switch (a.getString("mode")) {
            case "sync":
                for (Message message : messages) {
                    results.add(Messages.describe(producer.send(message)));
                }
                break;
            case "queue":
                for (Message message : messages) {
                    MessageQueue queue = new MessageQueue(message.getTopic(), a.getString("broker"),
                        a.getIntValue("queueId"));
                    results.add(Messages.describe(producer.send(message, queue)));
                }
                break;
            case "ordered":
                for (int i = 0; i < messages.size(); i++) {
                    results.add(Messages.describe(producer.send(messages.get(i),
                        (queues, message, shard) -> queues.get((Integer) shard % queues.size()),
                        given.getJSONObject(i).getIntValue("shard"))));
                }
                break;
            case "batch":
                results.add(Messages.describe(producer.send(messages)));
                break;
            case "oneway":
                for (Message message : messages) {
                    producer.sendOneway(message);
                }
                break;
            case "async":
                results.addAll(sendAsync(producer, messages));
                break;
            default:
                throw new IllegalArgumentException("no such mode");
        }
        return results;
    }

    private static List<Object> sendAsync(DefaultMQProducer producer, List<Message> messages) throws Exception {
        Object[] results = new Object[messages.size()];
        CountDownLatch left = new CountDownLatch(messages.size());
        for (int i = 0; i < messages.size(); i++) {
            int number = i;
            producer.send(messages.get(i), new SendCallback() {
                @Override
                public void onSuccess(SendResult result) {
                    results[number] = Messages.describe(result);
                    left.countDown();
                }

                @Override
                public void onException(Throwable error) {
                    results[number] = Map.of("status", "ERROR", "error", Driver.describe(error));
                    left.countDown();
                }
            });
        }
        if (!left.await(30, TimeUnit.SECONDS)) {
            throw new IllegalStateException(left.getCount() + " sends got no answer");
        }
        return java.util.Arrays.asList(results);
    }

    Object transaction(JSONObject a) throws Exception {
        TransactionMQProducer producer = (TransactionMQProducer) running.get(a.getString("name"));
        return Messages.describe(producer.sendMessageInTransaction(Messages.of(a.getJSONObject("message")), null));
    }

    Object checks(JSONObject a) {
        List<String> checked = checks.get(a.getString("name"));
        synchronized (checked) {
            return new ArrayList<>(checked);
        }
    }

    /** Request and reply: the consumer's side is a push consumer started with "reply". */
    Object request(JSONObject a) throws Exception {
        Message reply = running.get(a.getString("name")).request(Messages.of(a.getJSONObject("message")),
            a.getLongValue("timeoutMs"));
        return new String(reply.getBody(), java.nio.charset.StandardCharsets.UTF_8);
    }

    Object stop(JSONObject a) {
        DefaultMQProducer producer = running.remove(a.getString("name"));
        producer.shutdown();
        return true;
    }
}
