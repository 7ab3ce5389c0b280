//! The voice of the texts that people read: first words, sentence length and phrases that the house style forbids.

mod comments;
mod help;
mod pages;
mod rules;
