//! Bugs that can be switched on to test the tests: a checker that misses them is worthless. They exist only in builds with
//! the feature `planted-bugs`; without it [`is`] is false at compile time.

/// A bug to switch on. The name of each in the environment variable is given in backticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bug {
    /// `answer-before-flush`: a caller that waits for a flush is answered at once.
    AnswerBeforeFlush,
    /// `retry-flush`: a failed flush is repeated, and its second result counts.
    RetryFlush,
    /// `skip-crc`: recovery accepts records with missing bytes.
    SkipCrc,
    /// `reuse-offset`: some messages get the queue offset of another message.
    ReuseOffset,
    /// `serve-damaged`: some reads return a wrong byte.
    ServeDamaged,
    /// `wrong-tags`: an append indexes a tags code that differs from the code that recovery computes.
    WrongTags,
}

/// Whether `bug` is switched on.
#[cfg(not(feature = "planted-bugs"))]
#[inline(always)]
pub(crate) const fn is(_bug: Bug) -> bool {
    false
}

/// Whether `bug` is switched on.
#[cfg(feature = "planted-bugs")]
pub(crate) fn is(bug: Bug) -> bool {
    static CHOSEN: std::sync::OnceLock<Option<Bug>> = std::sync::OnceLock::new();
    let chosen = CHOSEN.get_or_init(|| {
        let name = std::env::var("VOSTOK_PLANTED").ok()?;
        let bug = match name.as_str() {
            "answer-before-flush" => Bug::AnswerBeforeFlush,
            "retry-flush" => Bug::RetryFlush,
            "skip-crc" => Bug::SkipCrc,
            "reuse-offset" => Bug::ReuseOffset,
            "serve-damaged" => Bug::ServeDamaged,
            "wrong-tags" => Bug::WrongTags,
            _ => panic!("VOSTOK_PLANTED={name}: there is no such bug"),
        };
        tracing::warn!(name, "this store has a planted bug");
        Some(bug)
    });
    *chosen == Some(bug)
}
