package pyromq.interop;

import com.alibaba.fastjson2.JSONObject;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.TreeMap;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageClientExt;
import org.apache.rocketmq.common.message.MessageExt;

/** Messages and send results to and from JSON. Bodies are text. */
final class Messages {
    private Messages() {
    }

    static Message of(JSONObject fields) {
        Message message = new Message(fields.getString("topic"),
            fields.getString("body").getBytes(StandardCharsets.UTF_8));
        if (fields.containsKey("tags")) {
            message.setTags(fields.getString("tags"));
        }
        if (fields.containsKey("keys")) {
            message.setKeys(fields.getString("keys"));
        }
        if (fields.containsKey("delayLevel")) {
            message.setDelayTimeLevel(fields.getIntValue("delayLevel"));
        }
        if (fields.containsKey("delayMs")) {
            message.setDelayTimeMs(fields.getLongValue("delayMs"));
        }
        if (fields.containsKey("deliverAtMs")) {
            message.setDeliverTimeMs(fields.getLongValue("deliverAtMs"));
        }
        if (fields.containsKey("properties")) {
            fields.getJSONObject("properties").forEach((name, value) -> message.putUserProperty(name, value.toString()));
        }
        return message;
    }

    static Map<String, Object> describe(MessageExt message) {
        Map<String, Object> fields = new TreeMap<>();
        fields.put("topic", message.getTopic());
        fields.put("broker", message.getBrokerName());
        fields.put("queueId", message.getQueueId());
        fields.put("offset", message.getQueueOffset());
        fields.put("position", message.getCommitLogOffset());
        fields.put("msgId", message.getMsgId());
        fields.put("offsetMsgId", message instanceof MessageClientExt ext ? ext.getOffsetMsgId() : message.getMsgId());
        fields.put("keys", message.getKeys());
        fields.put("tags", message.getTags());
        fields.put("body", message.getBody() == null ? null : new String(message.getBody(), StandardCharsets.UTF_8));
        fields.put("reconsumeTimes", message.getReconsumeTimes());
        fields.put("bornTimestamp", message.getBornTimestamp());
        fields.put("storeTimestamp", message.getStoreTimestamp());
        fields.put("properties", new TreeMap<>(message.getProperties()));
        return fields;
    }

    static Map<String, Object> describe(SendResult result) {
        Map<String, Object> fields = new TreeMap<>();
        fields.put("status", result.getSendStatus().name());
        fields.put("msgId", result.getMsgId());
        fields.put("offsetMsgId", result.getOffsetMsgId());
        fields.put("broker", result.getMessageQueue().getBrokerName());
        fields.put("queueId", result.getMessageQueue().getQueueId());
        fields.put("offset", result.getQueueOffset());
        fields.put("transactionId", result.getTransactionId());
        fields.put("regionId", result.getRegionId());
        return fields;
    }
}
