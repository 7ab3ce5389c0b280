//! Bugs that tests of the tests switch on: a checker that does not notice them is worth nothing. Only a build with the
//! feature `planted-bugs` has them; without it [`is`] is false at compile time.

/// One bug each. The name in the environment variable is the one beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bug {
    /// `answer-before-flush`: who waits for the disk is told at once that it has the message.
    AnswerBeforeFlush,
    /// `retry-flush`: a failed flush is tried again, and believed the second time.
    RetryFlush,
    /// `skip-crc`: recovery takes records whose bytes are not all there.
    SkipCrc,
    /// `reuse-offset`: now and then two messages get the same queue offset.
    ReuseOffset,
    /// `serve-damaged`: now and then a byte is wrong in what is read.
    ServeDamaged,
    /// `wrong-tags`: an append indexes another tags code than recovery does.
    WrongTags,
}

/// Whether this bug is switched on.
#[cfg(not(feature = "planted-bugs"))]
#[inline(always)]
pub(crate) const fn is(_bug: Bug) -> bool {
    false
}

/// Whether this bug is switched on.
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
