package pyromq.interop;

import com.alibaba.fastjson2.JSON;
import com.alibaba.fastjson2.JSONObject;
import com.alibaba.fastjson2.JSONWriter;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.TreeMap;

/**
 * RocketMQ's Java classes behind a line protocol: each line on stdin is a JSON object with "op" and its arguments,
 * each line on stdout the answer to it, {"ok":...} or {"error":{...}}. One at a time, in order.
 */
public final class Driver {
    static final int PATIENCE_MS = 20_000; // a busy machine is not a broken server
    private interface Op {
        Object run(JSONObject arguments) throws Exception;
    }

    private final Map<String, Op> ops = new HashMap<>();

    private Driver() {
        Producers producers = new Producers();
        PushConsumers pushes = new PushConsumers();
        LitePullConsumers pulls = new LitePullConsumers();
        Admins admins = new Admins();
        ops.put("version", a -> org.apache.rocketmq.common.MQVersion.getVersionDesc(
            org.apache.rocketmq.common.MQVersion.CURRENT_VERSION));
        ops.put("producer.start", producers::start);
        ops.put("producer.send", producers::send);
        ops.put("producer.transaction", producers::transaction);
        ops.put("producer.checks", producers::checks);
        ops.put("producer.request", producers::request);
        ops.put("producer.stop", producers::stop);
        ops.put("push.start", pushes::start);
        ops.put("push.wait", pushes::await);
        ops.put("push.stop", pushes::stop);
        ops.put("lite.start", pulls::start);
        ops.put("lite.poll", pulls::poll);
        ops.put("lite.seek", pulls::seek);
        ops.put("lite.commit", pulls::commit);
        ops.put("lite.stop", pulls::stop);
        ops.put("admin.start", admins::start);
        ops.put("admin.stop", admins::stop);
        for (Map.Entry<String, Admins.Call> call : admins.calls().entrySet()) {
            ops.put("admin." + call.getKey(), arguments -> admins.run(call.getValue(), arguments));
        }
    }

    /** Signs requests, if there are credentials; else null, which constructors take for none. */
    static org.apache.rocketmq.remoting.RPCHook hook(JSONObject a) {
        if (a.getString("accessKey") == null) {
            return null;
        }
        return new org.apache.rocketmq.acl.common.AclClientRPCHook(
            new org.apache.rocketmq.acl.common.SessionCredentials(a.getString("accessKey"), a.getString("secretKey")));
    }

    /**
     * Where a client connects, and by which name. A request of a JVM that has just begun loads hundreds of classes; on
     * a busy machine that took longer than the three seconds of the client, which closes the connection then.
     */
    static void place(org.apache.rocketmq.client.ClientConfig client, JSONObject a, String name) {
        client.setNamesrvAddr(a.getString("nameserver"));
        client.setInstanceName(name);
        client.setMqClientApiTimeout(PATIENCE_MS);
    }

    private String answer(String line) {
        Map<String, Object> answer = new TreeMap<>();
        try {
            JSONObject arguments = JSON.parseObject(line);
            Op op = ops.get(arguments.getString("op"));
            if (op == null) {
                throw new IllegalArgumentException("no such op");
            }
            answer.put("ok", op.run(arguments));
        } catch (Throwable error) {
            answer.put("error", describe(error));
        }
        return JSON.toJSONString(answer, JSONWriter.Feature.WriteMapNullValue, JSONWriter.Feature.BrowserCompatible);
    }

    static Map<String, Object> describe(Throwable error) {
        Map<String, Object> facts = new TreeMap<>();
        facts.put("type", error.getClass().getSimpleName());
        facts.put("message", String.valueOf(error.getMessage()));
        if (error instanceof org.apache.rocketmq.client.exception.MQBrokerException broker) {
            facts.put("code", broker.getResponseCode());
        }
        if (error instanceof org.apache.rocketmq.client.exception.MQClientException client) {
            facts.put("code", client.getResponseCode());
        }
        StringBuilder trace = new StringBuilder();
        for (Throwable each = error; each != null; each = each.getCause()) {
            trace.append(each).append('\n');
            for (int i = 0; i < Math.min(6, each.getStackTrace().length); i++) {
                trace.append("    ").append(each.getStackTrace()[i]).append('\n');
            }
        }
        facts.put("trace", trace.toString());
        return facts;
    }

    public static void main(String[] args) throws Exception {
        PrintStream out = System.out;
        System.setOut(System.err); // whatever the libraries print must not get between the answers
        Driver driver = new Driver();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            out.println(driver.answer(line));
            out.flush();
        }
        System.exit(0); // clients that were not stopped have threads
    }
}
