//! The tokenizer: from characters to tokens.

use super::SqlError;

/// A token of an expression.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
    Word(Keyword),
    Name(Box<str>),
    Text(Box<str>),
    /// The digits of a whole number, without the suffix `L`.
    Whole(Box<str>),
    Float(Box<str>),
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Open,
    Close,
    Comma,
    Plus,
    Minus,
    End,
}

/// The reserved words, which are recognised in upper and lower case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keyword {
    Not,
    And,
    Or,
    Between,
    In,
    True,
    False,
    Null,
    Is,
    Contains,
    StartsWith,
    EndsWith,
}

const KEYWORDS: [(&str, Keyword); 12] = [
    ("NOT", Keyword::Not),
    ("AND", Keyword::And),
    ("OR", Keyword::Or),
    ("BETWEEN", Keyword::Between),
    ("IN", Keyword::In),
    ("TRUE", Keyword::True),
    ("FALSE", Keyword::False),
    ("NULL", Keyword::Null),
    ("IS", Keyword::Is),
    ("CONTAINS", Keyword::Contains),
    ("STARTSWITH", Keyword::StartsWith),
    ("ENDSWITH", Keyword::EndsWith),
];

/// Tokens of a text, read singly. Unread text is not checked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tokens<'a> {
    text: &'a str,
    /// Byte position of the next token, or of the blanks before it.
    at: usize,
}

impl<'a> Tokens<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    /// An error at the position of the next token.
    pub(super) fn error(mut self, what: impl Into<String>) -> SqlError {
        self.skip();
        let before = self.text.get(..self.at).unwrap_or_default();
        SqlError { at: before.chars().count() + 1, what: what.into() }
    }

    /// The next token, without consuming it.
    pub(super) fn peek(&self) -> Result<Token, SqlError> {
        let mut ahead = *self;
        ahead.next()
    }

    /// Returns the token after the next token, without consuming any.
    pub(super) fn peek_second(&self) -> Result<Token, SqlError> {
        let mut ahead = *self;
        ahead.next()?;
        ahead.next()
    }

    /// Consumes and returns the next token.
    pub(super) fn next(&mut self) -> Result<Token, SqlError> {
        self.skip();
        let rest = &self.text[self.at..];
        let Some(first) = rest.chars().next() else { return Ok(Token::End) };
        let (token, length) = match first {
            '=' => (Token::Equal, 1),
            '<' if rest.starts_with("<>") => (Token::NotEqual, 2),
            '<' if rest.starts_with("<=") => (Token::LessOrEqual, 2),
            '<' => (Token::Less, 1),
            '>' if rest.starts_with(">=") => (Token::GreaterOrEqual, 2),
            '>' => (Token::Greater, 1),
            '(' => (Token::Open, 1),
            ')' => (Token::Close, 1),
            ',' => (Token::Comma, 1),
            '+' => (Token::Plus, 1),
            '-' => (Token::Minus, 1),
            '\'' => return self.text(rest),
            '.' | '0'..='9' => match number(rest) {
                Some(found) => found,
                None => return Err(self.error("a point without digits")),
            },
            'a'..='z' | 'A'..='Z' | '_' | '$' => word(rest),
            other => return Err(self.error(format!("{other:?} cannot stand in an expression"))),
        };
        self.at += length;
        Ok(token)
    }

    fn text(&mut self, rest: &str) -> Result<Token, SqlError> {
        let mut value = String::new();
        let mut from = 1;
        while let Some(length) = rest[from..].find('\'') {
            value.push_str(&rest[from..from + length]);
            from += length + 1;
            if !rest[from..].starts_with('\'') {
                self.at += from;
                return Ok(Token::Text(value.into()));
            }
            value.push('\'');
            from += 1;
        }
        Err(self.error("a text without its closing quote"))
    }

    /// Skips blanks and comments. Text that only begins like a comment is not skipped.
    fn skip(&mut self) {
        loop {
            let rest = &self.text[self.at..];
            let blanks = rest.len() - rest.trim_start_matches([' ', '\t', '\r', '\n', '\x0c']).len();
            let rest = &rest[blanks..];
            self.at += blanks;
            let comment = if rest.starts_with("--") {
                rest.find(['\n', '\r']).map(|end| end + 1)
            } else {
                rest.strip_prefix("/*").and_then(|inside| inside.find("*/")).map(|end| end + 4)
            };
            match comment {
                Some(length) => self.at += length,
                None => return,
            }
        }
    }
}

fn word(rest: &str) -> (Token, usize) {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '$');
    let length = rest.find(|letter| !is_part(letter)).unwrap_or(rest.len());
    let name = &rest[..length];
    let keyword = KEYWORDS.iter().find(|(word, _)| word.eq_ignore_ascii_case(name));
    (keyword.map_or_else(|| Token::Name(name.into()), |(_, keyword)| Token::Word(*keyword)), length)
}

/// The longest number at the start of a text that begins with a digit or a point.
fn number(rest: &str) -> Option<(Token, usize)> {
    let digits = |from: usize| {
        let tail = rest.get(from..).unwrap_or_default();
        tail.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(tail.len())
    };
    let whole = digits(0);
    let after = |from: usize| rest.as_bytes().get(from).copied();
    let has_point = after(whole) == Some(b'.');
    let mut length = whole;
    if has_point {
        length += 1 + digits(whole + 1);
        if length == 1 {
            return None;
        }
    }
    let mut is_float = has_point;
    if matches!(after(length), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(after(length + 1), Some(b'+' | b'-')));
        let exponent = digits(length + 1 + sign);
        if exponent > 0 {
            length += 1 + sign + exponent;
            is_float = true;
        }
    }
    if is_float {
        return Some((Token::Float(rest[..length].into()), length));
    }
    // A whole number that begins with 0 ends there.
    let whole = if rest.starts_with('0') { 1 } else { whole };
    let suffix = usize::from(matches!(after(whole), Some(b'l' | b'L')));
    Some((Token::Whole(rest[..whole].into()), whole + suffix))
}
