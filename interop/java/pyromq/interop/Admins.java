package pyromq.interop;

import com.alibaba.fastjson2.JSONObject;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.client.QueryResult;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.protocol.admin.ConsumeStats;
import org.apache.rocketmq.remoting.protocol.admin.TopicStatsTable;
import org.apache.rocketmq.remoting.protocol.subscription.SubscriptionGroupConfig;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/** The admin client by name. */
final class Admins {
    interface Call {
        Object run(DefaultMQAdminExt admin, JSONObject arguments) throws Exception;
    }

    private final Map<String, DefaultMQAdminExt> running = new ConcurrentHashMap<>();

    Map<String, Call> calls() {
        Map<String, Call> calls = new HashMap<>();
        calls.put("createTopic", (admin, a) -> {
            TopicConfig config = new TopicConfig(a.getString("topic"), a.getIntValue("queues"), a.getIntValue("queues"));
            admin.createAndUpdateTopicConfig(a.getString("broker"), config);
            return true;
        });
        calls.put("deleteTopic", (admin, a) -> {
            admin.deleteTopicInBroker(java.util.Set.of(a.getString("broker")), a.getString("topic"));
            admin.deleteTopicInNameServer(java.util.Set.of(a.getString("nameserver")), a.getString("topic"));
            return true;
        });
        calls.put("createGroup", (admin, a) -> {
            SubscriptionGroupConfig config = new SubscriptionGroupConfig();
            config.setGroupName(a.getString("group"));
            config.setRetryMaxTimes(a.getIntValue("retryMax", 16));
            admin.createAndUpdateSubscriptionGroupConfig(a.getString("broker"), config);
            return true;
        });
        calls.put("group", (admin, a) -> admin.examineSubscriptionGroupConfig(a.getString("broker"),
            a.getString("group")));
        calls.put("topics", (admin, a) -> admin.fetchAllTopicList().getTopicList());
        calls.put("topic", (admin, a) -> admin.examineTopicConfig(a.getString("broker"), a.getString("topic")));
        calls.put("topicStats", (admin, a) -> stats(admin.examineTopicStats(a.getString("topic"))));
        calls.put("route", (admin, a) -> admin.examineTopicRouteInfo(a.getString("topic")));
        calls.put("cluster", (admin, a) -> admin.examineBrokerClusterInfo());
        calls.put("runtime", (admin, a) -> new TreeMap<>(admin.fetchBrokerRuntimeStats(a.getString("broker")).getTable()));
        calls.put("brokerConfig", (admin, a) -> new TreeMap<>(admin.getBrokerConfig(a.getString("broker"))));
        calls.put("viewMessage", (admin, a) -> Messages.describe(
            admin.viewMessage(a.getString("topic"), a.getString("msgId"))));
        calls.put("queryByKey", (admin, a) -> found(admin.queryMessage(a.getString("topic"), a.getString("key"),
            a.getIntValue("count", 32), 0, Long.MAX_VALUE)));
        calls.put("queryByUniqueKey", (admin, a) -> found(admin.queryMessageByUniqKey(a.getString("cluster"),
            a.getString("topic"), a.getString("key"), a.getIntValue("count", 32), 0, Long.MAX_VALUE)));
        calls.put("progress", (admin, a) -> progress(admin.examineConsumeStats(a.getString("group"))));
        calls.put("consumers", (admin, a) -> admin.examineConsumerConnectionInfo(a.getString("group")));
        calls.put("producers", (admin, a) -> admin.examineProducerConnectionInfo(a.getString("group"),
            a.getString("topic")));
        calls.put("runningInfo", (admin, a) -> admin.getConsumerRunningInfo(a.getString("group"),
            a.getString("clientId"), false).getProperties());
        calls.put("whoConsumes", (admin, a) -> admin.queryTopicConsumeByWho(a.getString("topic")).getGroupList());
        calls.put("minOffset", (admin, a) -> admin.minOffset(queue(a)));
        calls.put("maxOffset", (admin, a) -> admin.maxOffset(queue(a)));
        calls.put("searchOffset", (admin, a) -> admin.searchOffset(queue(a), a.getLongValue("timestamp")));
        calls.put("earliest", (admin, a) -> admin.earliestMsgStoreTime(queue(a)));
        calls.put("resetOffset", (admin, a) -> {
            Map<String, Long> offsets = new TreeMap<>();
            admin.resetOffsetByTimestamp(a.getString("topic"), a.getString("group"), a.getLongValue("timestamp"), true)
                .forEach((queue, offset) -> offsets.put(String.valueOf(queue.getQueueId()), offset));
            return offsets;
        });
        calls.put("putKv", (admin, a) -> {
            admin.createAndUpdateKvConfig(a.getString("namespace"), a.getString("key"), a.getString("value"));
            return true;
        });
        calls.put("getKv", (admin, a) -> admin.getKVConfig(a.getString("namespace"), a.getString("key")));
        return calls;
    }

    Object start(JSONObject a) throws Exception {
        DefaultMQAdminExt admin = new DefaultMQAdminExt("interop-admin", Driver.PATIENCE_MS);
        Driver.place(admin, a, a.getString("name"));
        admin.setVipChannelEnabled(false);
        admin.start();
        running.put(a.getString("name"), admin);
        return true;
    }

    Object run(Call call, JSONObject arguments) throws Exception {
        return call.run(running.get(arguments.getString("name")), arguments);
    }

    Object stop(JSONObject a) {
        running.remove(a.getString("name")).shutdown();
        return true;
    }

    private static MessageQueue queue(JSONObject a) {
        return new MessageQueue(a.getString("topic"), a.getString("brokerName"), a.getIntValue("queueId"));
    }

    private static List<Object> found(QueryResult result) {
        List<Object> messages = new ArrayList<>();
        for (MessageExt message : result.getMessageList()) {
            messages.add(Messages.describe(message));
        }
        return messages;
    }

    private static Object stats(TopicStatsTable table) {
        Map<String, Object> queues = new TreeMap<>();
        table.getOffsetTable().forEach((queue, range) -> queues.put(String.valueOf(queue.getQueueId()), Map.of(
            "min", range.getMinOffset(), "max", range.getMaxOffset(), "updated", range.getLastUpdateTimestamp())));
        return queues;
    }

    private static Object progress(ConsumeStats stats) {
        Map<String, Object> queues = new TreeMap<>();
        stats.getOffsetTable().forEach((queue, offsets) -> queues.put(queue.getTopic() + "/" + queue.getQueueId(),
            Map.of("broker", offsets.getBrokerOffset(), "consumer", offsets.getConsumerOffset(),
                "pull", offsets.getPullOffset())));
        return queues;
    }
}
