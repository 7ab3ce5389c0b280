//! Tables of lite topics.
