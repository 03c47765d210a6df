package pyromq.interop;

import com.alibaba.fastjson2.JSONObject;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.remoting.protocol.heartbeat.MessageModel;

/** Push consumers by name; every message that reaches a listener is kept in order of arrival. */
final class PushConsumers {
    private static final class Running {
        DefaultMQPushConsumer consumer;
        DefaultMQProducer replier;
        final List<Map<String, Object>> seen = new ArrayList<>();
        int failTimes;
        long workMs;

        /** Notes a message; true when the listener shall take it. */
        boolean note(MessageExt message) {
            synchronized (seen) {
                Map<String, Object> fields = Messages.describe(message);
                fields.put("at", System.currentTimeMillis());
                seen.add(fields);
                seen.notifyAll();
            }
            work();
            return message.getReconsumeTimes() >= failTimes;
        }

        private void work() {
            try {
                Thread.sleep(workMs);
            } catch (InterruptedException interrupted) {
                Thread.currentThread().interrupt();
            }
        }
    }

    private final Map<String, Running> running = new ConcurrentHashMap<>();

    Object start(JSONObject a) throws Exception {
        Running each = new Running();
        each.failTimes = a.getIntValue("failTimes");
        each.workMs = a.getLongValue("workMs");
        DefaultMQPushConsumer consumer = each.consumer = new DefaultMQPushConsumer(a.getString("group"), Driver.hook(a));
        consumer.setEnableTrace(a.getBooleanValue("trace"));
        Driver.place(consumer, a, a.getString("name"));
        consumer.setVipChannelEnabled(a.getBooleanValue("vip"));
        consumer.setConsumeFromWhere(ConsumeFromWhere.valueOf(a.getString("from") == null
            ? "CONSUME_FROM_FIRST_OFFSET" : a.getString("from")));
        consumer.setMessageModel(a.getBooleanValue("broadcasting")
            ? MessageModel.BROADCASTING : MessageModel.CLUSTERING);
        consumer.setClientRebalance(!a.getBooleanValue("pop")); // pop: the broker assigns, messages are shared
        consumer.setPersistConsumerOffsetInterval(1000);
        // A rebalance that meets the first heartbeat of the timer leaves the broker with an outdated subscription
        // until the next one, which would be after 30 seconds.
        consumer.setHeartbeatBrokerInterval(3000);
        if (a.containsKey("maxAttempts")) {
            consumer.setMaxReconsumeTimes(a.getIntValue("maxAttempts"));
        }
        if (a.containsKey("sql")) {
            consumer.subscribe(a.getString("topic"), MessageSelector.bySql(a.getString("sql")));
        } else {
            consumer.subscribe(a.getString("topic"), a.getString("tags") == null ? "*" : a.getString("tags"));
        }
        if (a.getBooleanValue("reply")) {
            each.replier = new DefaultMQProducer(a.getString("group") + "-replier");
            Driver.place(each.replier, a, a.getString("name") + "-replier");
            each.replier.start();
        }
        if (a.getBooleanValue("orderly")) {
            consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
                boolean taken = true;
                for (MessageExt message : messages) {
                    taken &= each.note(message);
                }
                return taken ? ConsumeOrderlyStatus.SUCCESS : ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT;
            });
        } else {
            consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                boolean taken = true;
                for (MessageExt message : messages) {
                    taken &= each.note(message);
                    reply(each, message);
                }
                if (a.containsKey("delayLevel")) {
                    context.setDelayLevelWhenNextConsume(a.getIntValue("delayLevel"));
                }
                return taken ? ConsumeConcurrentlyStatus.CONSUME_SUCCESS : ConsumeConcurrentlyStatus.RECONSUME_LATER;
            });
        }
        consumer.start();
        running.put(a.getString("name"), each);
        return consumer.buildMQClientId();
    }

    private static void reply(Running each, MessageExt message) {
        if (each.replier == null) {
            return;
        }
        try {
            byte[] body = ("reply to " + new String(message.getBody())).getBytes();
            each.replier.send(MessageUtil.createReplyMessage(message, body), 3000);
        } catch (Exception error) {
            throw new IllegalStateException(error);
        }
    }

    /** Waits until so many messages were seen, or the time is over; answers all of them. */
    Object await(JSONObject a) throws Exception {
        Running each = running.get(a.getString("name"));
        long end = System.currentTimeMillis() + a.getLongValue("timeoutMs");
        synchronized (each.seen) {
            while (each.seen.size() < a.getIntValue("count")) {
                long left = end - System.currentTimeMillis();
                if (left <= 0) {
                    break;
                }
                each.seen.wait(left);
            }
            return new ArrayList<>(each.seen);
        }
    }

    Object stop(JSONObject a) {
        Running each = running.remove(a.getString("name"));
        each.consumer.shutdown();
        if (each.replier != null) {
            each.replier.shutdown();
        }
        return true;
    }
}
