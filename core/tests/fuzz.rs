//! Bytes at random, and ordinary ones with damage: nothing panics, and what is found lies inside of what was given.
//!
//!     cargo test --release -- --ignored        ten million inputs each

use pyromq_core::records::{put_record, Own, Shared, TopicField};
use pyromq_core::{batch, copied, header, properties, pull_header};

const HEADER: &str = concat!(
    r#"{"code":310,"extFields":{"a":"g","b":"orders","c":"TBW102","d":"4","e":"2","f":"0","g":"1700000000000","#,
    r#""h":"-1","i":"KEYS\u0001\u00e4\"\u0002UNIQ_KEY\u0001AB12\u0002TAGS\u0001x\u0002","j":"0","k":"false","#,
    r#""m":"false","n":"broker-a"},"flag":0,"language":"JAVA","opaque":7,"serializeTypeCurrentRPC":"JSON","version":401}"#
);

const PULL: &str = concat!(
    r#"{"code":11,"extFields":{"consumerGroup":"g","topic":"orders","queueId":"2","queueOffset":"32","maxMsgNums":"16","#,
    r#""sysFlag":"7","commitOffset":"-1","suspendTimeoutMillis":"15000","subscription":"a || ä","subVersion":"17","#,
    r#""expressionType":"TAG","maxMsgBytes":"9"},"flag":0,"language":"JAVA","opaque":7,"version":401}"#
);

/// Splitmix64: the same numbers on every machine.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    /// Some bytes changed, cut out or doubled.
    fn damage(&mut self, text: &mut Vec<u8>) {
        for _ in 0..self.below(4) {
            if text.is_empty() {
                return;
            }
            let at = self.below(text.len());
            match self.below(4) {
                0 => text[at] = self.next() as u8,
                1 => text[at] = b"\"\\{}:,u\x01\x020-"[self.below(11)],
                2 => drop(text.drain(at..(at + 1 + self.below(8)).min(text.len()))),
                _ => {
                    let again = text[at..(at + 1 + self.below(8)).min(text.len())].to_vec();
                    text.splice(at..at, again);
                }
            }
        }
    }
}

fn headers(inputs: usize) -> usize {
    let (mut chance, mut plain, mut text) = (Chance(1), 0, Vec::new());
    for _ in 0..inputs {
        text.clear();
        text.extend_from_slice(HEADER.as_bytes());
        chance.damage(&mut text);
        if let Some(found) = header::read::<true>(&text) {
            let mut properties = Vec::new();
            if header::unescape(found.properties, &mut properties).is_some() {
                plain += usize::from(std::str::from_utf8(&properties).is_ok());
                if let Some(facts) = properties::look(&properties) {
                    assert!(properties::keys(&facts).all(|key| !key.is_empty() && key.len() <= properties.len()));
                }
            }
        }
    }
    plain
}

fn pulls(inputs: usize) -> usize {
    let (mut chance, mut plain, mut text) = (Chance(3), 0, Vec::new());
    let whole = PULL.replace("\\u00e4", "ä");
    for _ in 0..inputs {
        text.clear();
        text.extend_from_slice(whole.as_bytes());
        chance.damage(&mut text);
        if let Some(found) = pull_header::read(&text) {
            let texts = [found.group, found.topic, found.subscription.unwrap_or_default()];
            assert!(texts.iter().all(|each| each.len() < text.len() && std::str::from_utf8(each).is_ok()));
            plain += 1;
        }
    }
    plain
}

fn batches(inputs: usize) -> usize {
    let (mut chance, mut items, mut data) = (Chance(2), 0, Vec::new());
    for _ in 0..inputs {
        data.clear();
        for _ in 0..1 + chance.below(3) {
            let (body, properties) = (chance.below(30), chance.below(20));
            for word in [22 + body + properties, 0, 0, chance.below(9), body] {
                data.extend_from_slice(&(word as i32).to_be_bytes());
            }
            data.resize(data.len() + body, 7);
            data.extend_from_slice(&(properties as u16).to_be_bytes());
            data.resize(data.len() + properties, b'K');
        }
        chance.damage(&mut data);
        let mut at = 0;
        while at < data.len() {
            let Some(item) = batch::item_at(&data, at) else { break };
            assert!(item.body.end + 2 == item.properties.start && item.properties.end <= data.len());
            assert!(item.properties.end > at);
            at = item.properties.end;
            items += 1;
        }
    }
    items
}

fn copies(inputs: usize) -> usize {
    let topic = TopicField::new(b"orders");
    let (queue_id, hosts) = (2, [0; 8]);
    let shared = Shared {
        topic: &topic,
        queue_id,
        sys_flag: 0,
        born_ms: 1,
        born_host: hosts,
        stored_ms: 2,
        store_host: hosts,
        attempts: 0,
    };
    let own = Own { flag: 0, body: b"a body", properties: b"KEYS\x01a b\x02TAGS\x01t\x02", added: b"" };
    let (mut chance, mut records, mut data) = (Chance(3), 0, Vec::new());
    for _ in 0..inputs {
        data.clear();
        for offset in 0..1 + chance.below(3) as i64 {
            let position = data.len() as i64;
            put_record(&mut data, &shared, &own, offset, position, own.record_bytes(&topic));
        }
        chance.damage(&mut data);
        let room = if chance.below(4) == 0 { chance.below(600) } else { 1 << 20 };
        let found = copied::scan(&data, 0, room, 5);
        assert!(found.size <= data.len().min(room));
        assert_eq!(found.queues.iter().map(|queue| queue.entries.len() / 20).sum::<usize>(), found.records);
        records += found.records;
    }
    records
}

#[test]
fn damaged_headers_batches_and_records_are_read_or_left() {
    assert!(headers(100_000) > 20_000);
    assert!(batches(100_000) > 50_000);
    assert!(pulls(100_000) > 20_000);
    assert!(copies(100_000) > 50_000);
}

#[test]
#[ignore = "seconds: for a change of the scanners"]
fn ten_million_of_each() {
    assert!(headers(10_000_000) > 2_000_000);
    assert!(batches(10_000_000) > 5_000_000);
    assert!(pulls(10_000_000) > 2_000_000);
    assert!(copies(10_000_000) > 5_000_000);
}
