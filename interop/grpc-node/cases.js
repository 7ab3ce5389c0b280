// Scenarios on the official Node.js client of RocketMQ 5.x. Arguments: gRPC endpoint, name server, run id, scenario names; or `list`.
// Results go to standard output as "@ok NAME" or "@fail NAME REASON".
'use strict';
const assert = require('node:assert');
const { ConsumeResult, Producer, PushConsumer, SimpleConsumer, FilterExpression } = require('rocketmq-client-nodejs');

const quiet = { debug() {}, info() {}, warn() {}, error: console.error };
const pause = millis => new Promise(done => setTimeout(done, millis));
const [PATIENCE_MS, INVISIBLE_MS] = [240_000, 300_000];

/** A topic and a group for one scenario, which the runner made, and clients that are stopped at its end. */
class Stage {
  constructor(endpoints, scenario, run) {
    const name = `node_${scenario.replaceAll('-', '_')}_${run}`;
    this.topic = `T_${name}`;
    this.group = `G_${name}`;
    this.options = { endpoints, namespace: '', logger: quiet, requestTimeout: 60_000 };
    this.clients = [];
  }

  async started(client) {
    this.clients.push(client);
    await client.startup();
    return client;
  }

  producer(options = {}) {
    return this.started(new Producer({ ...this.options, topics: [this.topic], ...options }));
  }

  consumer(expression = '*') {
    const subscriptions = new Map([[this.topic, expression]]);
    return this.started(new SimpleConsumer({ ...this.options, consumerGroup: this.group, subscriptions, awaitDuration: 5000 }));
  }

  push(consume) {
    const subscriptions = new Map([[this.topic, '*']]);
    const listener = { consume };
    return this.started(new PushConsumer({ ...this.options, consumerGroup: this.group, subscriptions, messageListener: listener }));
  }

  message(body, fields = {}) {
    return { topic: this.topic, body: Buffer.from(body), ...fields };
  }

  async close() {
    for (const client of this.clients.reverse()) {
      await client.shutdown().catch(error => console.error('shutdown:', error));
    }
  }
}

/** Receives and acknowledges until `count` messages came. */
async function receive(consumer, count) {
  const found = [];
  for (const end = Date.now() + PATIENCE_MS; found.length < count && Date.now() < end;) {
    for (const message of await consumer.receive(32, INVISIBLE_MS)) {
      await consumer.ack(message);
      found.push(message);
    }
  }
  return found;
}

/** Waits until `holds` returns true; fails with the text of `what` if that never happens. */
async function until(holds, what) {
  for (const end = Date.now() + PATIENCE_MS; !holds(); await pause(100)) {
    assert(Date.now() < end, what());
  }
}

const bodies = messages => messages.map(message => message.body.toString()).sort();
/** A key has no spaces. */
const key = body => body.replace('body ', 'k');
const numbered = count => Array.from({ length: count }, (_, index) => `body ${index}`);

const scenarios = {
  async simple(stage) {
    const [producer, consumer] = [await stage.producer(), await stage.consumer()];
    const ids = new Map();
    for (const body of numbered(20)) {
      const fields = { tag: 'A', keys: [key(body)], properties: new Map([['color', 'red']]) };
      ids.set((await producer.send(stage.message(body, fields))).messageId, body);
    }
    const found = await receive(consumer, 20);
    assert.deepStrictEqual(new Map(found.map(one => [one.messageId, one.body.toString()]).sort()), new Map([...ids].sort()));
    for (const one of found) {
      assert.deepStrictEqual([one.tag, one.keys, one.properties.get('color'), one.deliveryAttempt], ['A', [key(one.body.toString())], 'red', 1]);
    }
    assert.deepStrictEqual(await consumer.receive(32, INVISIBLE_MS), [], 'after all were acknowledged');
  },

  async push(stage) {
    const seen = [];
    let refused = false;
    await stage.push(async message => {
      if (message.body.toString() === 'body 3' && !refused) {
        refused = true;
        return ConsumeResult.FAILURE;
      }
      seen.push(message);
      return ConsumeResult.SUCCESS;
    });
    const producer = await stage.producer();
    for (const body of numbered(20)) {
      await producer.send(stage.message(body));
    }
    await until(() => seen.length >= 20, () => `${seen.length} of 20 messages`);
    assert.deepStrictEqual(bodies(seen), numbered(20).sort());
    assert.strictEqual(seen.find(message => message.body.toString() === 'body 3').deliveryAttempt, 2, 'attempt of the refused one');
  },

  async fifo(stage) {
    const producer = await stage.producer();
    for (const body of numbered(30)) {
      await producer.send(stage.message(body, { messageGroup: `g${body.split(' ')[1] % 3}` }));
    }
    const seen = { g0: [], g1: [], g2: [] };
    const count = () => Object.values(seen).flat().length;
    await stage.push(async message => {
      seen[message.messageGroup].push(Number(message.body.toString().split(' ')[1]));
      return ConsumeResult.SUCCESS;
    });
    await until(() => count() >= 30, () => `${count()} of 30 messages`);
    for (const [group, order] of Object.entries(seen)) {
      assert.deepStrictEqual(order, Array.from({ length: 10 }, (_, index) => index * 3 + Number(group[1])), group);
    }
  },

  /** The recalled message would come before the other one. */
  async delay(stage) {
    const [producer, consumer] = [await stage.producer(), await stage.consumer()];
    const sent = Date.now();
    const recalled = await producer.send(stage.message('recalled', { delay: 30_000 }));
    await producer.send(stage.message('late', { delay: 30_000 }));
    await producer.recallMessage(stage.topic, recalled.recallHandle);
    const [late, ...more] = await receive(consumer, 1);
    assert.deepStrictEqual([late?.body.toString(), more], ['late', []]);
    assert(Date.now() - sent >= 29_900, `after ${Date.now() - sent} ms`);
  },

  async transactions(stage) {
    // A second decision would deliver a message twice: 1 commits, 0 leaves a message undecided.
    const checker = { async check(message) { return message.body.toString() === 'asked' ? 1 : 0; } };
    const [producer, consumer] = [await stage.producer({ checker }), await stage.consumer()];
    for (const body of ['committed', 'rolled back', 'asked']) {
      const transaction = producer.beginTransaction();
      await producer.send(stage.message(body), transaction);
      if (body === 'committed') await transaction.commit();
      if (body === 'rolled back') await transaction.rollback();
    }
    assert.deepStrictEqual(bodies(await receive(consumer, 2)), ['asked', 'committed']);
    assert.deepStrictEqual(await consumer.receive(32, INVISIBLE_MS), [], 'the message that was rolled back');
  },

  async tags(stage) {
    const producer = await stage.producer();
    for (const body of numbered(9)) {
      await producer.send(stage.message(body, { tag: 'ABC'[body.split(' ')[1] % 3] }));
    }
    const consumer = await stage.consumer(new FilterExpression('A || C'));
    assert.deepStrictEqual(bodies(await receive(consumer, 6)), [0, 2, 3, 5, 6, 8].map(index => `body ${index}`));
  },

  async 'large-bodies'(stage) {
    const [producer, consumer] = [await stage.producer(), await stage.consumer()];
    // This client receives calls of at most 4 MiB, the message's other fields included.
    const [large, tooLarge] = [4 * 1024 * 1024 - 1024, 4 * 1024 * 1024 + 1].map(length => 'x'.repeat(length));
    await producer.send(stage.message(large));
    assert.strictEqual((await receive(consumer, 1))[0].body.length, large.length);
    await assert.rejects(producer.send(stage.message(tooLarge)), /exceed|too large|limit/i);
  },
};

async function main([endpoints, , run, ...names]) {
  if (endpoints === 'list') {
    return console.log(Object.keys(scenarios).join('\n'));
  }
  await Promise.all(names.map(async name => {
    const stage = new Stage(endpoints, name, run);
    try {
      await scenarios[name](stage);
      console.log(`@ok ${name}`);
    } catch (error) {
      console.error(name, error);
      console.log(`@fail ${name} ${String(error.message).replaceAll('\n', ' ').slice(0, 300)}`);
    }
    await stage.close();
  }));
  process.exit(0);
}

main(process.argv.slice(2));
