//! Bytes at random, and ordinary ones with damage: nothing panics, and what is found lies inside of what was given.
//!
//!     cargo test --release -- --ignored        ten million inputs each

use pyromq_core::records::{put_record, Own, Shared, TopicField};
use pyromq_core::{arrow, batch, client, copied, header, json, layout, properties, pull_header};

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
            if json::unescape(found.properties, &mut properties).is_some() {
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
        if let Some(found) = pull_header::read::<true>(&text) {
            let texts = [found.group, found.topic, found.subscription.unwrap_or_default()];
            assert!(texts.iter().all(|each| each.len() < text.len() && std::str::from_utf8(each).is_ok()));
            let covered: usize = found.fields.iter().map(|(name, value)| name.len() + value.raw.len()).sum();
            assert!(found.fields.len() >= 9 && covered < text.len());
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

const SENT: &str = concat!(
    r#"{"code":0,"extFields":{"MSG_REGION":"DefaultRegion","ON_DISK":"true","TRACE_ON":"true","msgId":"7F01","#,
    r#""queueId":"3","queueOffset":"70000000000","transactionId":"AB12"},"flag":1,"language":"PYTHON","opaque":7,"#,
    r#""serializeTypeCurrentRPC":"JSON","version":401}"#
);

fn responses(inputs: usize) -> usize {
    let (mut chance, mut plain, mut data) = (Chance(3), 0, Vec::new());
    for _ in 0..inputs {
        data.clear();
        for _ in 0..1 + chance.below(2) {
            let mut text = SENT.as_bytes().to_vec();
            chance.damage(&mut text);
            data.extend_from_slice(&((text.len() + 4) as u32).to_be_bytes());
            data.extend_from_slice(&(text.len() as u32).to_be_bytes());
            data.extend_from_slice(&text);
        }
        if chance.below(4) == 0 {
            chance.damage(&mut data);
        }
        let mut at = 0;
        while let Some((sent, size)) = client::sent_at(&data[at..], 1 << 24) {
            assert!(size > 8 && at + size <= data.len());
            assert!(sent.message_id.len() + sent.region.len() + sent.transaction_id.len() < size);
            at += size;
            plain += 1;
        }
    }
    plain
}

fn record(chance: &mut Chance, into: &mut Vec<u8>) {
    let start = into.len();
    let sys_flag = [0, 0, 0, 0x10, 0x20, 0x30, 1][chance.below(7)];
    let fixed = 88 + [0, 12, 12, 24][sys_flag >> 4];
    let (is_long, body) = (chance.below(4) == 0, chance.below(40));
    into.resize(start + fixed, 1);
    into[start + 4..start + 8].copy_from_slice(if is_long { b"\xDA\xA3\x20\xAB" } else { b"\xDA\xA3\x20\xA7" });
    into[start + 20..start + 28].copy_from_slice(&chance.next().to_be_bytes());
    into[start + 36..start + 40].copy_from_slice(&(sys_flag as u32).to_be_bytes());
    into[start + fixed - 4..start + fixed].copy_from_slice(&(body as u32).to_be_bytes());
    into.resize(into.len() + body, 7);
    into.extend_from_slice(if is_long { &b"\0\x02to"[..] } else { &b"\x02to"[..] });
    let mut properties = "KEYS\u{1}\u{e4} b\u{2}UNIQ_KEY\u{1}AB12\u{2}TAGS\u{1}x\u{2}".as_bytes().to_vec();
    chance.damage(&mut properties);
    into.extend_from_slice(&(properties.len() as u16).to_be_bytes());
    into.extend_from_slice(&properties);
    let size = ((into.len() - start) as u32).to_be_bytes();
    into[start..start + 4].copy_from_slice(&size);
}

/// Records found one by one, and rows of columns.
fn records(inputs: usize) -> (usize, usize) {
    let (mut chance, mut found, mut rows, mut data) = (Chance(4), 0, 0, Vec::new());
    let asked = arrow::Asked {
        bodies: true,
        message_ids: true,
        offset_ids: true,
        tags: true,
        keys: true,
        born_hosts: true,
        store_hosts: true,
        maps: true,
        texts: true,
    };
    let tags = [b"x".to_vec()];
    for _ in 0..inputs {
        data.clear();
        for _ in 0..1 + chance.below(3) {
            record(&mut chance, &mut data);
        }
        if chance.below(2) == 0 {
            chance.damage(&mut data);
        }
        let (mut at, mut count) = (0, 0);
        while let Some(places) = layout::record_at(&data, at) {
            assert!(at < places.body.start && places.body.end < places.properties.start);
            assert!(places.properties.end == places.end && places.end <= data.len());
            let value = client::last_value(&data[places.properties.clone()], b"TAGS");
            assert!(value.is_none_or(|value| !value.is_empty() && value.len() < places.end - at));
            at = places.end;
            count += 1;
        }
        found += count;
        let wanted =
            arrow::Wanted { first: i64::MIN, end: i64::MAX, tags: if chance.below(4) == 0 { &tags } else { &[] } };
        if let Some(columns) = arrow::columns(&data, asked, &wanted) {
            assert!(at == data.len() && columns.queue_ids.len() <= count);
            rows += check(&columns);
        } else {
            assert!(at < data.len() || !wanted.tags.is_empty());
        }
    }
    (found, rows)
}

/// Columns have the same length, and what they hold is what their offsets say.
fn check(columns: &arrow::Columns) -> usize {
    let rows = columns.queue_ids.len();
    for values in [
        &columns.message_ids,
        &columns.offset_ids,
        &columns.tags,
        &columns.keys,
        &columns.born_hosts,
        &columns.store_hosts,
        &columns.texts,
    ]
    .into_iter()
    .flatten()
    {
        assert_eq!(values.count(), rows);
        assert!(values.ends.windows(2).all(|pair| pair[0] <= pair[1]));
        assert_eq!(*values.ends.last().unwrap() as usize, values.data.len());
        assert!(values.valid.len() == rows.div_ceil(8) && values.nulls <= rows);
        assert!(std::str::from_utf8(&values.data).is_ok());
    }
    if let Some(names) = &columns.map_names {
        assert_eq!((columns.map_ends.len(), names.count()), (rows + 1, columns.map_values.count()));
    }
    assert!(columns.bodies.as_ref().is_none_or(|bodies| bodies.len() == rows));
    rows
}

#[test]
fn damaged_headers_batches_and_records_are_read_or_left() {
    assert!(headers(100_000) > 20_000);
    assert!(batches(100_000) > 50_000);
    assert!(pulls(100_000) > 20_000);
    assert!(copies(100_000) > 50_000);
}

#[test]
fn damaged_responses_and_records_are_read_or_left() {
    assert!(responses(100_000) > 20_000);
    let (found, rows) = records(100_000);
    assert!(found > 100_000 && rows > 50_000, "{found} {rows}");
}

#[test]
#[ignore = "seconds: for a change of the scanners"]
fn ten_million_of_each() {
    assert!(headers(10_000_000) > 2_000_000);
    assert!(batches(10_000_000) > 5_000_000);
    assert!(pulls(10_000_000) > 2_000_000);
    assert!(copies(10_000_000) > 5_000_000);
    assert!(responses(10_000_000) > 2_000_000);
    let (found, rows) = records(10_000_000);
    assert!(found > 10_000_000 && rows > 5_000_000, "{found} {rows}");
}
