//! The official Rust client, driven by lines of JSON: see interop/grpc/clients.py for the words. Plain text, as it comes.
use std::collections::HashMap;
use std::time::Duration;

use rocketmq::conf::{ClientOption, ProducerOption, SimpleConsumerOption};
use rocketmq::error::ClientError;
use rocketmq::model::common::{FilterExpression, FilterType};
use rocketmq::model::message::{MessageBuilder, MessageView};
use rocketmq::model::transaction::{Transaction, TransactionResolution};
use rocketmq::{Producer, SimpleConsumer};
use serde_json::{json, Value};
use tokio::io::{AsyncBufReadExt, BufReader};

struct Simple {
    consumer: SimpleConsumer,
    topic: String,
    expression: FilterExpression,
}

#[derive(Default)]
struct Driver {
    producers: HashMap<String, Producer>,
    simples: HashMap<String, Simple>,
    received: HashMap<String, MessageView>,
}

fn text(asked: &Value, field: &str) -> String {
    asked[field].as_str().unwrap_or("").to_string()
}

fn builder(asked: &Value) -> MessageBuilder {
    let mut made = MessageBuilder::builder()
        .set_topic(text(asked, "topic"))
        .set_body(text(asked, "body").into_bytes());
    if asked["tag"].is_string() {
        made = made.set_tag(text(asked, "tag"));
    }
    if let Some(keys) = asked["keys"].as_array() {
        made = made.set_keys(keys.iter().map(|key| key.as_str().unwrap()).collect());
    }
    if let Some(properties) = asked["properties"].as_object() {
        let found = properties.iter().map(|(key, value)| (key.as_str(), value.as_str().unwrap()));
        made = made.set_properties(found.collect::<HashMap<_, _>>());
    }
    if asked["group"].is_string() {
        made = made.set_message_group(text(asked, "group"));
    }
    if let Some(at_ms) = asked["deliverAtMs"].as_i64() {
        made = made.set_delivery_timestamp((at_ms + 999) / 1000);
    }
    made
}

fn shown(view: &MessageView) -> Value {
    json!({
        "id": view.message_id(),
        "body": String::from_utf8_lossy(view.body()),
        "tag": view.tag().unwrap_or(""),
        "keys": view.keys(),
        "properties": view.properties(),
        "attempt": view.delivery_attempt(),
        "group": view.message_group().unwrap_or(""),
    })
}

fn options(asked: &Value) -> ClientOption {
    let mut made = ClientOption::default();
    made.set_access_url(text(asked, "endpoint"));
    made.set_timeout(Duration::from_secs(20));
    if let Some(wait_ms) = asked["waitMs"].as_u64() {
        made.set_long_polling_timeout(Duration::from_millis(wait_ms));
    }
    made
}

impl Driver {
    async fn answer(&mut self, asked: &Value) -> Result<Value, ClientError> {
        let name = text(asked, "name");
        match text(asked, "op").as_str() {
            "producer.start" => self.start_producer(name, asked).await,
            "producer.send" => {
                let sent = self.producers[&name].send(builder(&asked["message"]).build()?).await?;
                Ok(json!({"id": sent.message_id()}))
            }
            "producer.transaction" => self.transaction(&self.producers[&name], asked).await,
            "simple.start" => self.start_simple(name, asked).await,
            "simple.receive" => self.receive(name, asked).await,
            "simple.ack" => {
                let view = &self.received[&text(asked, "id")];
                self.simples[&name].consumer.ack(view).await?;
                Ok(Value::Null)
            }
            _ => {
                if let Some(producer) = self.producers.remove(&name) {
                    producer.shutdown().await?;
                } else if let Some(simple) = self.simples.remove(&name) {
                    simple.consumer.shutdown().await?;
                }
                Ok(Value::Null)
            }
        }
    }

    async fn start_producer(&mut self, name: String, asked: &Value) -> Result<Value, ClientError> {
        let mut option = ProducerOption::default();
        let topics = asked["topics"].as_array().unwrap();
        option.set_topics(topics.iter().map(|topic| topic.as_str().unwrap()).collect());
        let checker = |_: String, view: MessageView| match String::from_utf8_lossy(view.body()) {
            body if body.ends_with("commit") => TransactionResolution::COMMIT,
            body if body.ends_with("rollback") => TransactionResolution::ROLLBACK,
            _ => TransactionResolution::UNKNOWN,
        };
        let mut producer = Producer::new_transaction_producer(option, options(asked), Box::new(checker))?;
        producer.start().await?;
        self.producers.insert(name, producer);
        Ok(Value::Null)
    }

    async fn transaction(&self, producer: &Producer, asked: &Value) -> Result<Value, ClientError> {
        let message = builder(&asked["message"]).enable_transaction().build()?;
        let begun = producer.send_transaction_message(message).await?;
        let id = begun.message_id().to_string();
        match text(asked, "ending").as_str() {
            "commit" => begun.commit().await?,
            "rollback" => begun.rollback().await?,
            _ => (),
        }
        Ok(json!({"id": id}))
    }

    async fn start_simple(&mut self, name: String, asked: &Value) -> Result<Value, ClientError> {
        let mut option = SimpleConsumerOption::default();
        option.set_consumer_group(text(asked, "group"));
        option.set_topics(vec![text(asked, "topic")]);
        let kind = if asked["sql"].as_bool().unwrap() { FilterType::Sql } else { FilterType::Tag };
        let mut consumer = SimpleConsumer::new(option, options(asked))?;
        consumer.start().await?;
        let expression = FilterExpression::new(kind, text(asked, "expression"));
        self.simples.insert(name, Simple { consumer, topic: text(asked, "topic"), expression });
        Ok(Value::Null)
    }

    async fn receive(&mut self, name: String, asked: &Value) -> Result<Value, ClientError> {
        let simple = &self.simples[&name];
        let count = asked["count"].as_i64().unwrap() as i32;
        let invisible = Duration::from_millis(asked["invisibleMs"].as_u64().unwrap());
        let views = simple.consumer.receive_with(&simple.topic, &simple.expression, count, invisible).await?;
        let found = views.iter().map(shown).collect();
        for view in views {
            self.received.insert(view.message_id().to_string(), view);
        }
        Ok(Value::Array(found))
    }
}

#[tokio::main]
async fn main() {
    let mut driver = Driver::default();
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Some(line) = lines.next_line().await.unwrap() {
        let asked: Value = serde_json::from_str(&line).unwrap();
        let answer = match driver.answer(&asked).await {
            Ok(found) => json!({"ok": found}),
            Err(error) => json!({"error": {"type": error.kind().to_string(), "message": error.to_string()}}),
        };
        println!("{answer}");
    }
}
