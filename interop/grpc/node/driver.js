// The cases of docs/compatibility.md for the official Node.js client; prints one line for each: name, then what happened.
const { Producer, SimpleConsumer } = require('rocketmq-client-nodejs');

const endpoints = process.argv[2];

async function receive(consumerGroup, topic, count, expression) {
  const consumer = new SimpleConsumer({
    endpoints, consumerGroup, namespace: '', subscriptions: new Map().set(topic, expression), awaitDuration: 5000,
  });
  await consumer.startup();
  const found = [];
  for (const end = Date.now() + 60000; found.length < count && Date.now() < end;) {
    for (const view of await consumer.receive(16, 15000)) {
      found.push(view.body.toString());
      await consumer.ack(view);
    }
  }
  await consumer.shutdown();
  return found;
}

async function main() {
  const producer = new Producer({
    endpoints, namespace: '', topics: [ 'orders', 'fifo', 'later', 'money' ],
    checker: { async check(view) { return view.body.toString() === 'orphan' ? 1 : 0; } },
  });
  await producer.startup();
  for (let n = 0; n < 4; n++) {
    await producer.send({ topic: 'orders', tag: n % 2 ? 'node-odd' : 'node-even', body: Buffer.from(`j${n}`) });
  }
  console.log('normal by tag:', (await receive('node-tagged', 'orders', 2, 'node-even')).sort().join(' '));
  for (let n = 0; n < 5; n++) {
    await producer.send({ topic: 'fifo', messageGroup: 'one', body: Buffer.from(`f${n}`) });
  }
  console.log('order:', (await receive('ordered', 'fifo', 5, '*')).join(' '));
  await producer.send({ topic: 'later', delay: 2000, body: Buffer.from('soon') });
  console.log('delay:', (await receive('node-patient', 'later', 1, '*')).join(' '));
  for (const ending of [ 'committed', 'rolled back', 'orphan' ]) {
    const transaction = producer.beginTransaction();
    await producer.send({ topic: 'money', body: Buffer.from(ending) }, transaction);
    if (ending === 'committed') await transaction.commit();
    if (ending === 'rolled back') await transaction.rollback();
  }
  console.log('transactions:', (await receive('node-auditors', 'money', 2, '*')).sort().join(', '));
  await producer.shutdown();
  process.exit(0);
}

main().catch(error => { console.log('failed:', error); process.exit(1); });
