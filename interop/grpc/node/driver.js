// The official Node.js client, driven by lines of JSON: see interop/grpc/clients.py for the words. Plain text.
const readline = require('readline');
const { ConsumeResult, FilterExpression, Producer, PushConsumer, SimpleConsumer } = require('rocketmq-client-nodejs');

const COMMIT = 1, ROLLBACK = 2, TAG = 1, SQL = 2, REQUEST_MS = 20_000;
const running = new Map(), received = new Map(), seen = new Map();
const quiet = { info() {}, debug() {}, warn: console.error, error: console.error };

function shown(view) {
  const { messageId: id, keys, deliveryAttempt: attempt } = view;
  const properties = Object.fromEntries(view.properties);
  return { id, body: view.body.toString(), tag: view.tag ?? '', keys, properties, attempt, group: view.messageGroup ?? '' };
}

function message({ topic, body, tag, keys, properties, group, deliverAtMs, priority }) {
  return {
    topic, body: Buffer.from(body), tag, keys, priority, messageGroup: group,
    properties: properties && new Map(Object.entries(properties)),
    deliveryTimestamp: deliverAtMs && new Date(deliverAtMs),
  };
}

function consumerOptions({ endpoint, group, topic, expression, sql }) {
  const subscriptions = new Map().set(topic, new FilterExpression(expression, sql ? SQL : TAG));
  return { endpoints: endpoint, namespace: '', consumerGroup: group, subscriptions, logger: quiet, requestTimeout: REQUEST_MS };
}

async function started(name, client) {
  await client.startup();
  running.set(name, client);
  return null;
}

const ops = {
  'producer.start': asked => started(asked.name, new Producer({
    endpoints: asked.endpoint, namespace: '', topics: asked.topics, logger: quiet, requestTimeout: REQUEST_MS,
    checker: { async check(view) {
      const body = view.body.toString();
      return body.endsWith('commit') ? COMMIT : body.endsWith('rollback') ? ROLLBACK : 0;
    } },
  })),
  'producer.send': async asked => {
    const sent = await running.get(asked.name).send(message(asked.message));
    return { id: sent.messageId, handle: sent.recallHandle };
  },
  'producer.transaction': async asked => {
    const transaction = running.get(asked.name).beginTransaction();
    const sent = await running.get(asked.name).send(message(asked.message), transaction);
    if (asked.ending === 'commit') await transaction.commit();
    if (asked.ending === 'rollback') await transaction.rollback();
    return { id: sent.messageId };
  },
  'producer.recall': async asked => { await running.get(asked.name).recallMessage(asked.topic, asked.handle); return null; },
  'simple.start': asked => started(asked.name, new SimpleConsumer({ ...consumerOptions(asked), awaitDuration: asked.waitMs })),
  'simple.receive': async asked => {
    const views = await running.get(asked.name).receive(asked.count, asked.invisibleMs);
    for (const view of views) received.set(view.messageId, view);
    return views.map(shown);
  },
  'simple.ack': async asked => { await running.get(asked.name).ack(received.get(asked.id)); return null; },
  'simple.change': async asked => {
    await running.get(asked.name).changeInvisibleDuration(received.get(asked.id), asked.invisibleMs);
    return null;
  },
  'push.start': asked => {
    const views = [], times = new Map();
    seen.set(asked.name, views);
    return started(asked.name, new PushConsumer({
      ...consumerOptions(asked),
      messageListener: { async consume(view) {
        const found = shown(view);
        views.push(found);
        times.set(found.body, (times.get(found.body) ?? 0) + 1);
        return times.get(found.body) <= (asked.failures[found.body] ?? 0) ? ConsumeResult.FAILURE : ConsumeResult.SUCCESS;
      } },
    }));
  },
  'push.wait': async asked => {
    const views = seen.get(asked.name);
    for (const end = Date.now() + asked.timeoutMs; views.length < asked.count && Date.now() < end;) {
      await new Promise(done => setTimeout(done, 50));
    }
    return views;
  },
};

async function stop({ name }) {
  const client = running.get(name);
  running.delete(name);
  await client.shutdown();
  return null;
}

async function main() {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const asked = JSON.parse(line);
    let answer;
    try {
      answer = { ok: await (ops[asked.op] ?? stop)(asked) };
    } catch (error) {
      answer = { error: { type: error.name, message: String(error.message), code: error.code } };
    }
    process.stdout.write(JSON.stringify(answer) + '\n');
  }
  process.exit(0);
}

process.on('unhandledRejection', error => console.error('unhandled', error));
main();
