package pyromq.interop;

import com.alibaba.fastjson2.JSONObject;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** Lite pull consumers by name: subscribed, or with all queues of a topic assigned. */
final class LitePullConsumers {
    private final Map<String, DefaultLitePullConsumer> running = new ConcurrentHashMap<>();

    Object start(JSONObject a) throws Exception {
        DefaultLitePullConsumer consumer = new DefaultLitePullConsumer(a.getString("group"), Driver.hook(a));
        Driver.place(consumer, a, a.getString("name"));
        consumer.setVipChannelEnabled(a.getBooleanValue("vip"));
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setAutoCommit(a.getBooleanValue("autoCommit"));
        boolean assigned = a.getBooleanValue("assign");
        if (!assigned) {
            consumer.subscribe(a.getString("topic"), a.getString("tags") == null ? "*" : a.getString("tags"));
        }
        consumer.start();
        running.put(a.getString("name"), consumer);
        if (assigned) {
            consumer.assign(consumer.fetchMessageQueues(a.getString("topic")));
        }
        return consumer.buildMQClientId();
    }

    /** Polls until so many messages came, or the time is over. */
    Object poll(JSONObject a) {
        DefaultLitePullConsumer consumer = running.get(a.getString("name"));
        long end = System.currentTimeMillis() + a.getLongValue("timeoutMs");
        List<Object> seen = new ArrayList<>();
        while (seen.size() < a.getIntValue("count") && System.currentTimeMillis() < end) {
            for (MessageExt message : consumer.poll(200)) {
                seen.add(Messages.describe(message));
            }
        }
        return seen;
    }

    Object seek(JSONObject a) throws Exception {
        DefaultLitePullConsumer consumer = running.get(a.getString("name"));
        Collection<MessageQueue> queues = consumer.fetchMessageQueues(a.getString("topic"));
        for (MessageQueue queue : queues) {
            if (!a.containsKey("queueId")) {
                consumer.seekToBegin(queue);
            } else if (queue.getQueueId() == a.getIntValue("queueId")) {
                consumer.seek(queue, a.getLongValue("offset"));
            }
        }
        return queues.size();
    }

    Object commit(JSONObject a) throws Exception {
        DefaultLitePullConsumer consumer = running.get(a.getString("name"));
        consumer.commit();
        return true;
    }

    Object stop(JSONObject a) {
        running.remove(a.getString("name")).shutdown();
        return true;
    }
}
