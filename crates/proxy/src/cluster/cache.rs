//! Cache of topics, groups and brokers with expiry (`CacheBuilder` with `refreshAfterWrite` and `expireAfterAccess`).

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::spawn_local;

use crate::failure::Result;

/// Age at which a value is fetched again (`topicRouteServiceCacheRefreshSeconds`).
const REFRESH_MS: i64 = 20_000;

/// Age at which a missing value is fetched again, because it may have been created meanwhile.
const MISSING_MS: i64 = 1000;

/// Age up to which a value that could not be refreshed is used (`topicRouteServiceCacheExpiredSeconds`).
const EXPIRES_MS: i64 = 300_000;

/// Time between the begin or failure of an attempt to fetch a value and the next attempt.
const ATTEMPT_MS: i64 = 3000;

/// Most cached values. Further values are fetched each time (`topicRouteServiceCacheMaxNum`).
const VALUES_MAX: usize = 20_000;

/// The value of a name; `None` when the servers have none of that name.
pub type Lookup<T> = Result<Option<Arc<T>>>;

/// Values by name. An old value is served while it is fetched again.
pub struct Cache<T> {
    entries: Mutex<HashMap<String, Entry<T>>>,
    /// Time for which a value counts as missing.
    missing_ms: i64,
}

struct Entry<T> {
    /// `None`: there is none of that name.
    value: Option<Arc<T>>,
    fetched_ms: i64,
    /// Time at which the value is fetched again.
    refresh_ms: i64,
    /// Invariant: set if and only if no attempt had an answer; `value` is `None` then. The task of the attempt holds the sender.
    pending: Option<watch::Receiver<()>>,
}

impl<T> Default for Cache<T> {
    fn default() -> Self {
        Self { entries: Mutex::default(), missing_ms: MISSING_MS }
    }
}

impl<T> Cache<T> {
    /// Makes a cache that fetches missing values each time.
    pub fn without_missing() -> Self {
        Self { missing_ms: 0, ..Self::default() }
    }

    /// Returns the value of a name, or `None` if it does not exist. A value between 20 s and 300 s old is served
    /// while a task fetches it again.
    ///
    /// # Errors
    /// The error of `fetch`, if no value is young enough.
    pub async fn get<F>(self: &Arc<Self>, name: &str, fetch: impl FnOnce(String) -> F) -> Lookup<T>
    where
        T: 'static,
        F: Future<Output = Result<Option<T>>> + 'static,
    {
        let old = match self.known(name, client::now_ms()) {
            CacheState::Fresh(value) => return Ok(value),
            CacheState::Old(value) => {
                let old = Some(value.clone());
                spawn_local(self.clone().fetched(name.to_owned(), fetch(name.to_owned()), old));
                return Ok(Some(value));
            }
            CacheState::Forgotten(value) => Some(value),
            CacheState::Pending | CacheState::Nothing => None,
        };
        self.clone().fetched(name.to_owned(), fetch(name.to_owned()), old).await
    }

    /// The cached value of a name, without waiting: a task fetches an old or missing value.
    pub fn peek<F>(self: &Arc<Self>, name: &str, fetch: impl FnOnce(String) -> F) -> Option<Arc<T>>
    where
        T: 'static,
        F: Future<Output = Result<Option<T>>> + 'static,
    {
        let now_ms = client::now_ms();
        let old = match self.known(name, now_ms) {
            CacheState::Fresh(value) => return value,
            CacheState::Pending => return None,
            CacheState::Old(value) | CacheState::Forgotten(value) => Some(value),
            CacheState::Nothing => {
                self.begin(name, fetch(name.to_owned()), now_ms);
                return None;
            }
        };
        spawn_local(self.clone().fetched(name.to_owned(), fetch(name.to_owned()), old.clone()));
        old
    }

    /// Like [`Cache::peek`], but waits for the first answer until the attempt to fetch it is as old as `limit`. A failure is
    /// remembered for 3 s, in which no call waits.
    pub async fn peek_within<F>(
        self: &Arc<Self>,
        name: &str,
        limit: Duration,
        fetch: impl FnOnce(String) -> F,
    ) -> Option<Arc<T>>
    where
        T: 'static,
        F: Future<Output = Result<Option<T>>> + 'static,
    {
        if let Some(value) = self.peek(name, fetch) {
            return Some(value);
        }
        let attempt = |entry: &Entry<T>| Some((entry.pending.clone()?, entry.fetched_ms));
        let (mut pending, began_ms) = self.entries.lock().get(name).and_then(attempt)?;
        let passed_ms = u64::try_from(client::now_ms() - began_ms).unwrap_or(0);
        let left = limit.saturating_sub(Duration::from_millis(passed_ms));
        // The channel carries no values: the sender of an ended attempt is gone.
        let _ended = tokio::time::timeout(left, pending.changed()).await;
        self.entries.lock().get(name)?.value.clone()
    }

    /// Starts the task that fetches an unknown value.
    fn begin<F>(self: &Arc<Self>, name: &str, fetch: F, now_ms: i64)
    where
        T: 'static,
        F: Future<Output = Result<Option<T>>> + 'static,
    {
        let (sender, pending) = watch::channel(());
        self.insert(
            name,
            Entry {
                value: None,
                fetched_ms: now_ms,
                refresh_ms: now_ms + ATTEMPT_MS,
                pending: Some(pending),
            },
        );
        let (cache, name) = (self.clone(), name.to_owned());
        spawn_local(async move {
            let _sender = sender;
            let Err(failure) = cache.clone().fetched(name.clone(), fetch, None).await else { return };
            tracing::debug!(name, ?failure, "a value could not be fetched");
            if let Some(entry) = cache.entries.lock().get_mut(&name).filter(|entry| entry.pending.is_some()) {
                entry.refresh_ms = client::now_ms() + ATTEMPT_MS;
            }
        });
    }

    /// Returns the fetched value, or else the old value.
    async fn fetched(
        self: Arc<Self>,
        name: String,
        fetch: impl Future<Output = Result<Option<T>>>,
        old: Option<Arc<T>>,
    ) -> Lookup<T> {
        match (fetch.await, old) {
            (Ok(value), _) => Ok(self.put(&name, value.map(Arc::new), client::now_ms())),
            (Err(failure), Some(old)) => {
                tracing::warn!(
                    name,
                    ?failure,
                    "what is known of a topic, a group or brokers could not be refreshed"
                );
                Ok(Some(old))
            }
            (Err(failure), None) => Err(failure),
        }
    }

    /// Makes the next use of a value fetch the value again and wait for it. A value younger than a
    /// second is used until it is a second old.
    pub fn forget(&self, name: &str) {
        if let Some(entry) = self.entries.lock().get_mut(name) {
            entry.refresh_ms = entry.refresh_ms.min(entry.fetched_ms + MISSING_MS);
        }
    }

    fn known(&self, name: &str, now_ms: i64) -> CacheState<T> {
        match self.entries.lock().get_mut(name) {
            Some(Entry { pending: Some(pending), refresh_ms, .. }) => {
                let is_attempted = pending.has_changed().is_ok() || now_ms < *refresh_ms;
                if is_attempted { CacheState::Pending } else { CacheState::Nothing }
            }
            Some(entry) if now_ms < entry.refresh_ms => CacheState::Fresh(entry.value.clone()),
            Some(Entry { value: Some(value), fetched_ms, refresh_ms, .. })
                if now_ms < *fetched_ms + EXPIRES_MS =>
            {
                // `forget` alone moves the time of refreshing before the regular one.
                let is_forgotten = *refresh_ms < *fetched_ms + REFRESH_MS;
                *refresh_ms = now_ms + ATTEMPT_MS;
                let known = if is_forgotten { CacheState::Forgotten } else { CacheState::Old };
                known(value.clone())
            }
            _ => CacheState::Nothing,
        }
    }

    fn put(&self, name: &str, value: Option<Arc<T>>, now_ms: i64) -> Option<Arc<T>> {
        let keeps_ms = if value.is_some() { REFRESH_MS } else { self.missing_ms };
        let refresh_ms = now_ms + keeps_ms;
        self.insert(name, Entry { value: value.clone(), fetched_ms: now_ms, refresh_ms, pending: None });
        value
    }

    fn insert(&self, name: &str, entry: Entry<T>) {
        let mut entries = self.entries.lock();
        if entries.len() >= VALUES_MAX {
            entries.retain(|_, other| entry.fetched_ms < other.refresh_ms);
        }
        if entries.len() < VALUES_MAX || entries.contains_key(name) {
            entries.insert(name.to_owned(), entry);
        }
    }
}

/// State of a name in the cache.
enum CacheState<T> {
    Fresh(Option<Arc<T>>),
    /// Value to be fetched again without a wait of the caller.
    Old(Arc<T>),
    /// Value to be fetched again by the caller.
    Forgotten(Arc<T>),
    /// An attempt began or failed a short time ago, and there is no answer.
    Pending,
    Nothing,
}

#[cfg(test)]
mod tests {
    use grpc::messages::Code;

    use super::*;
    use crate::failure::Failure;

    fn check(cache: &Cache<i32>, now_ms: i64, expected: &str) {
        let text = |value: Option<Arc<i32>>| value.map_or("none".to_owned(), |value| value.to_string());
        let known = match cache.known("n", now_ms) {
            CacheState::Fresh(value) => format!("fresh {}", text(value)),
            CacheState::Old(value) => format!("old {value}"),
            CacheState::Forgotten(value) => format!("forgotten {value}"),
            CacheState::Pending => "pending".to_owned(),
            CacheState::Nothing => "nothing".to_owned(),
        };
        assert_eq!(known, expected, "at {now_ms}");
    }

    #[test]
    fn an_old_value_is_fetched_once_at_a_time() {
        let cache = Cache::default();
        check(&cache, 0, "nothing");
        cache.put("n", Some(Arc::new(1)), 0);
        check(&cache, 19_999, "fresh 1");
        check(&cache, 20_000, "old 1");
        check(&cache, 20_001, "fresh 1");
        check(&cache, 299_999, "old 1");
        check(&cache, 400_000, "nothing");
    }

    #[test]
    fn what_is_missing_is_asked_for_again_soon() {
        let cache = Cache::default();
        cache.put("n", None, 0);
        check(&cache, 999, "fresh none");
        check(&cache, 1000, "nothing");
    }

    #[test]
    fn a_cache_of_what_is_there_asks_each_time_for_what_is_missing() {
        let cache = Cache::without_missing();
        cache.put("n", None, 0);
        check(&cache, 0, "nothing");
        cache.put("n", Some(Arc::new(1)), 1);
        check(&cache, 1, "fresh 1");
    }

    #[test]
    fn a_forgotten_value_is_asked_for_once_a_second() {
        let cache = Cache::default();
        cache.put("n", Some(Arc::new(1)), 0);
        cache.forget("n");
        check(&cache, 999, "fresh 1");
        check(&cache, 1000, "forgotten 1");
        check(&cache, 1001, "fresh 1");
        check(&cache, 4000, "forgotten 1");
    }

    #[test]
    fn nobody_waits_for_a_value_that_is_old_only() {
        let cache = Arc::new(Cache::default());
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let get = async |outcome: Result<i32, Code>| {
            cache.put("n", Some(Arc::new(1)), client::now_ms() - REFRESH_MS);
            let fetch = |_| async move {
                tokio::task::yield_now().await;
                outcome.map(Some).map_err(|code| Failure::new(code, ""))
            };
            let before = cache.get("n", fetch).await.unwrap();
            for _ in 0..9 {
                tokio::task::yield_now().await;
            }
            (before.as_deref().copied(), cache.entries.lock()["n"].value.as_deref().copied())
        };
        tokio::task::LocalSet::new().block_on(&runtime, async {
            assert_eq!(get(Ok(2)).await, (Some(1), Some(2)));
            assert_eq!(get(Err(Code::ProxyTimeout)).await, (Some(1), Some(1)));
        });
    }

    fn run<T>(future: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        tokio::task::LocalSet::new().block_on(&runtime, future)
    }

    #[test]
    fn a_value_that_is_being_fetched_does_not_count_as_missing() {
        run(async {
            let cache = Arc::new(Cache::default());
            let (answer, answered) = tokio::sync::oneshot::channel();
            let fetch = |_| async move { Ok(answered.await.ok()) };
            assert_eq!(cache.peek("n", fetch), None);
            // `get` asks itself while the task of `peek` waits for its answer.
            assert_eq!(cache.get("n", async |_| Ok(Some(1))).await, Ok(Some(Arc::new(1))));
            answer.send(2).unwrap();
            while cache.peek("n", async |_| Ok(None)) != Some(Arc::new(2)) {
                tokio::task::yield_now().await;
            }
        });
    }

    #[test]
    fn all_callers_wait_for_one_attempt() {
        run(async {
            let cache = Arc::new(Cache::default());
            let (answer, answered) = tokio::sync::oneshot::channel();
            assert_eq!(cache.peek("n", |_| async move { Ok(answered.await.ok()) }), None);
            let again = async |_| panic!("there is a second attempt");
            let limit = Duration::from_secs(3600);
            let (first, second, ()) = tokio::join!(
                cache.peek_within("n", limit, again),
                cache.peek_within("n", limit, again),
                async { answer.send(1).unwrap() },
            );
            assert_eq!([first, second], [Some(Arc::new(1)), Some(Arc::new(1))]);
        });
    }

    #[test]
    fn nobody_waits_for_a_value_that_could_not_be_fetched() {
        run(async {
            let cache = Arc::new(Cache::<i32>::default());
            let limit = Duration::from_secs(3600);
            let fetch = async |_| Err(Failure::new(Code::ProxyTimeout, ""));
            assert_eq!(cache.peek_within("n", limit, fetch).await, None);
            let again = async |_| panic!("there is a second attempt");
            assert_eq!(cache.peek_within("n", limit, again).await, None);
            check(&cache, client::now_ms(), "pending");
            check(&cache, client::now_ms() + ATTEMPT_MS, "nothing");
        });
    }

    #[test]
    fn the_limit_of_a_wait_counts_from_the_begin_of_the_attempt_which_goes_on() {
        run(async {
            let cache = Arc::new(Cache::default());
            let (answer, answered) = tokio::sync::oneshot::channel();
            let fetch = |_| async move { Ok(answered.await.ok()) };
            assert_eq!(cache.peek_within("n", Duration::ZERO, fetch).await, None);
            check(&cache, i64::MAX, "pending");
            answer.send(1).unwrap();
            let again = async |_| panic!("there is a second attempt");
            assert_eq!(cache.peek_within("n", Duration::from_secs(3600), again).await, Some(Arc::new(1)));
        });
    }
}
