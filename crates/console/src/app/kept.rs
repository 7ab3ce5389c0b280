//! Answers that are kept for a while, because several visitors look at the same page, and a page is looked at again.

use admin::Answer;
use serde_json::Value;
use std::collections::HashMap;
use std::sync::Arc;

/// Age from which on no page takes a kept answer, ms.
const AGE_MS_MAX: i64 = 60_000;
/// Most answers that are kept.
const ANSWERS_MAX: usize = 1000;
/// Most values of all kept answers together, some ten megabytes: numbers, texts, lists and objects, and one more for each 32 bytes of
/// a text. An answer with more values is not kept. If there is no room for an answer, all others are dropped.
const VALUES_MAX: usize = 200_000;

/// Kept answers by their question: operation and arguments.
#[derive(Default)]
pub(super) struct KeptAnswers {
    answers: HashMap<String, KeptAnswer>,
    values: usize,
}

/// An answer that is to be kept.
pub(super) struct KeptAnswer {
    /// When it was asked for.
    at_ms: i64,
    values: usize,
    answer: Arc<dyn Answer>,
}

impl KeptAnswer {
    /// An answer with its size; `None` if the answer is too large to be kept.
    pub fn new(at_ms: i64, answer: Arc<dyn Answer>) -> Option<Self> {
        let values = count(&answer.value());
        (values <= VALUES_MAX).then_some(Self { at_ms, values, answer })
    }
}

impl KeptAnswers {
    /// An answer that is not older than `fresh_ms`.
    pub fn get(&self, now_ms: i64, asked: &str, fresh_ms: i64) -> Option<Arc<dyn Answer>> {
        let kept = self.answers.get(asked).filter(|kept| now_ms - kept.at_ms < fresh_ms)?;
        Some(kept.answer.clone())
    }

    /// Keeps an answer in place of an earlier answer to the same question. Drops answers that are too old. Drops all
    /// others if there is no room.
    pub fn insert(&mut self, asked: String, answer: KeptAnswer) {
        self.answers.retain(|other, kept| *other != asked && answer.at_ms - kept.at_ms < AGE_MS_MAX);
        self.values = self.answers.values().map(|kept| kept.values).sum();
        if self.values + answer.values > VALUES_MAX || self.answers.len() >= ANSWERS_MAX {
            self.clear();
        }
        self.values += answer.values;
        self.answers.insert(asked, answer);
    }

    /// Drops all answers, because something was changed.
    pub fn clear(&mut self) {
        *self = Self::default();
    }
}

/// Number of values in a value, including the value itself, in the unit of [`VALUES_MAX`].
fn count(value: &Value) -> usize {
    let inner: usize = match value {
        Value::Array(items) => items.iter().map(count).sum(),
        Value::Object(members) => members.values().map(count).sum(),
        Value::String(text) => text.len() / 32,
        _ => 0,
    };
    inner + 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use admin::Arguments;
    use serde_json::json;

    /// An answer of some values.
    struct Values(Value);

    impl Answer for Values {
        fn value(&self) -> Value {
            self.0.clone()
        }

        fn mqadmin(&self, _: &Arguments) -> String {
            String::new()
        }

        fn missing(&self, _: &Arguments) -> Option<String> {
            None
        }

        fn redact(&mut self, _: bool) {}
    }

    fn answer(value: &Value) -> Arc<dyn Answer> {
        Arc::new(Values(value.clone()))
    }

    fn insert(kept: &mut KeptAnswers, now_ms: i64, asked: &str, value: &Value) {
        kept.insert(asked.to_owned(), KeptAnswer::new(now_ms, answer(value)).unwrap());
    }

    fn get(kept: &KeptAnswers, now_ms: i64, asked: &str, fresh_ms: i64) -> Option<Value> {
        kept.get(now_ms, asked, fresh_ms).map(|answer| answer.value())
    }

    #[test]
    fn answers_are_kept_while_they_are_fresh() {
        let mut kept = KeptAnswers::default();
        insert(&mut kept, 1000, "topic list", &json!(["A"]));
        assert_eq!(get(&kept, 1999, "topic list", 1000), Some(json!(["A"])));
        assert_eq!(get(&kept, 2000, "topic list", 1000), None);
        assert_eq!(get(&kept, 1000, "group names", 1000), None);
        insert(&mut kept, 1000 + AGE_MS_MAX, "group names", &json!(["g"]));
        assert_eq!((kept.answers.len(), kept.values), (1, 2), "what nobody takes any more is dropped");
        insert(&mut kept, 1000 + AGE_MS_MAX, "group names", &json!(["g", "h"]));
        assert_eq!((kept.answers.len(), kept.values), (1, 3), "the answer before is replaced");
    }

    #[test]
    fn kept_answers_are_bounded() {
        let mut kept = KeptAnswers::default();
        let large = Value::from(vec![0; VALUES_MAX / 2]);
        for asked in ["a", "b", "c"] {
            insert(&mut kept, 0, asked, &large);
            assert!(kept.values <= VALUES_MAX && kept.get(0, asked, 1).is_some(), "{asked}: {}", kept.values);
        }
        assert!(KeptAnswer::new(0, answer(&Value::from(vec![0; VALUES_MAX]))).is_none());
        for number in 0..2 * ANSWERS_MAX {
            insert(&mut kept, 0, &number.to_string(), &Value::Null);
            assert!(kept.answers.len() <= ANSWERS_MAX);
        }
        assert_eq!(count(&json!([{"a": 1, "b": [2, 3]}])), 6);
        assert_eq!(count(&Value::from("x".repeat(3200))), 101);
    }
}
