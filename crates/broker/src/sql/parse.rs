//! The parser: from tokens to the expression tree, with the checks Java makes when it builds its tree.

use super::token::{Keyword, Token, Tokens};
use super::{Expr, Order, Part, Sense, SqlError};

/// Deepest nesting of an expression. Deeper nesting is refused, so that it cannot exhaust the stack.
const DEPTH_MAX: usize = 200;
/// Most operators in an expression.
const NODES_MAX: usize = 10_000;

struct Parser<'a> {
    tokens: Tokens<'a>,
    depth: usize,
    nodes: usize,
}

pub(super) fn parse(text: &str) -> Result<Expr, SqlError> {
    let mut parser = Parser { tokens: Tokens::new(text), depth: 0, nodes: 0 };
    let at = parser.tokens;
    let expr = parser.or()?;
    // Java reads the next token to decide that the expression is complete, so an invalid token is an error.
    parser.tokens.peek()?;
    condition(expr, at)
}

/// Makes an operand a condition. The operand must be a condition, or a property, which is cast. `at` is the position
/// of the operand (`SelectorParser.asBooleanExpression`).
fn condition(expr: Expr, at: Tokens<'_>) -> Result<Expr, SqlError> {
    match expr {
        Expr::Property(_) => Ok(Expr::Cast(Box::new(expr))),
        expr if is_boolean(&expr) => Ok(expr),
        _ => Err(at.error("expected a condition, found a number or text")),
    }
}

/// Whether Java's class for the expression is a `BooleanExpression`, which that of NULL is too.
fn is_boolean(expr: &Expr) -> bool {
    use Expr::{Affix, And, Bool, Cast, Compare, Equal, In, IsNull, Not, Null, Or};
    matches!(
        expr,
        Null | Bool(_)
            | Cast(_)
            | Not(_)
            | And(_)
            | Or(_)
            | Equal(..)
            | IsNull(_)
            | Compare(..)
            | In(..)
            | Affix(..)
    )
}

fn is_constant(expr: &Expr) -> bool {
    use Expr::{Bool, Double, Int, Long, Null, Text};
    matches!(expr, Null | Bool(_) | Int(_) | Long(_) | Double(_) | Text(_))
}

fn constant_number(expr: &Expr) -> Option<f64> {
    match expr {
        Expr::Int(value) => Some(f64::from(*value)),
        #[allow(clippy::cast_precision_loss)]
        Expr::Long(value) => Some(*value as f64),
        Expr::Double(value) => Some(*value),
        _ => None,
    }
}

impl Parser<'_> {
    fn count(&mut self) -> Result<(), SqlError> {
        self.nodes += 1;
        if self.nodes > NODES_MAX {
            return Err(self.tokens.error(format!("more than {NODES_MAX} operators")));
        }
        Ok(())
    }

    fn or(&mut self) -> Result<Expr, SqlError> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(self.tokens.error(format!("nested deeper than {DEPTH_MAX}")));
        }
        let expr = self.series(Keyword::Or, Self::and, Expr::Or);
        self.depth -= 1;
        expr
    }

    fn and(&mut self) -> Result<Expr, SqlError> {
        self.series(Keyword::And, Self::equality, Expr::And)
    }

    /// Parses operands separated by the operator `word`.
    fn series(
        &mut self,
        word: Keyword,
        operand: fn(&mut Self) -> Result<Expr, SqlError>,
        join: fn(Vec<Expr>) -> Expr,
    ) -> Result<Expr, SqlError> {
        let at = self.tokens;
        let first = operand(self)?;
        if self.tokens.peek()? != Token::Word(word) {
            return Ok(first);
        }
        let mut operands = vec![condition(first, at)?];
        while self.tokens.peek()? == Token::Word(word) {
            self.count()?;
            self.tokens.next()?;
            let at = self.tokens;
            operands.push(condition(operand(self)?, at)?);
        }
        Ok(join(operands))
    }

    fn equality(&mut self) -> Result<Expr, SqlError> {
        let mut left = self.comparison()?;
        // A chain of comparisons nests to the left, so its length is bounded like the depth.
        for _ in 0..DEPTH_MAX {
            let at = self.tokens;
            left = match self.tokens.peek()? {
                Token::Equal => {
                    self.tokens.next()?;
                    let right = self.comparison()?;
                    equal(left, right).map_err(|what| at.error(what))?
                }
                Token::NotEqual => {
                    self.tokens.next()?;
                    let right = self.comparison()?;
                    Expr::Not(Box::new(equal(left, right).map_err(|what| at.error(what))?))
                }
                Token::Word(Keyword::Is) => self.is_null(left)?,
                _ => return Ok(left),
            };
            self.count()?;
        }
        Err(self.tokens.error(format!("more than {DEPTH_MAX} comparisons in a row")))
    }

    fn is_null(&mut self, left: Expr) -> Result<Expr, SqlError> {
        self.tokens.next()?;
        let is_null = Expr::IsNull(Box::new(left));
        match self.tokens.next()? {
            Token::Word(Keyword::Null) => Ok(is_null),
            Token::Word(Keyword::Not) if self.tokens.next()? == Token::Word(Keyword::Null) => {
                Ok(Expr::Not(Box::new(is_null)))
            }
            _ => Err(self.tokens.error("expected NULL or NOT NULL after IS")),
        }
    }

    fn comparison(&mut self) -> Result<Expr, SqlError> {
        let mut left = self.unary()?;
        for _ in 0..DEPTH_MAX {
            let order = match self.tokens.peek()? {
                Token::Less => Order::Less,
                Token::LessOrEqual => Order::LessOrEqual,
                Token::Greater => Order::Greater,
                Token::GreaterOrEqual => Order::GreaterOrEqual,
                Token::Word(Keyword::Not) => match self.tokens.peek_second()? {
                    Token::Word(word) if is_operator(word) => {
                        self.tokens.next()?;
                        left = self.word_operator(left, Sense::Not)?;
                        continue;
                    }
                    // Java takes the NOT as the beginning of a comparison, unlike other text behind an operand, which is ignored.
                    _ => {
                        let what = "expected CONTAINS, STARTSWITH, ENDSWITH, BETWEEN or IN after NOT";
                        return Err(self.tokens.error(what));
                    }
                },
                Token::Word(word) if is_operator(word) => {
                    left = self.word_operator(left, Sense::Plain)?;
                    continue;
                }
                _ => return Ok(left),
            };
            self.count()?;
            let at = self.tokens;
            self.tokens.next()?;
            let right = self.unary()?;
            left = compare(left, order, right).map_err(|what| at.error(what))?;
        }
        Err(self.tokens.error(format!("more than {DEPTH_MAX} comparisons in a row")))
    }

    /// Parses the operator `CONTAINS`, `STARTSWITH`, `ENDSWITH`, `BETWEEN` or `IN`, which comes next, and its operands.
    fn word_operator(&mut self, left: Expr, sense: Sense) -> Result<Expr, SqlError> {
        self.count()?;
        let at = self.tokens;
        let part = match self.tokens.next()? {
            Token::Word(Keyword::Between) => return self.between(left, sense),
            Token::Word(Keyword::In) => {
                let Expr::Property(name) = left else {
                    return Err(at.error("IN needs a property on its left"));
                };
                let listed = Expr::In(name, self.texts()?);
                return Ok(if sense == Sense::Not { Expr::Not(Box::new(listed)) } else { listed });
            }
            Token::Word(Keyword::StartsWith) => Part::StartsWith,
            Token::Word(Keyword::EndsWith) => Part::EndsWith,
            _ => Part::Contains,
        };
        match self.tokens.next()? {
            Token::Text(text) => Ok(Expr::Affix(Box::new(left), part, text, sense)),
            _ => Err(at.error("expected a text in quotes on the right")),
        }
    }

    fn between(&mut self, value: Expr, sense: Sense) -> Result<Expr, SqlError> {
        let at = self.tokens;
        let low = self.unary()?;
        if self.tokens.next()? != Token::Word(Keyword::And) {
            return Err(at.error("expected AND between the bounds of BETWEEN"));
        }
        let high = self.unary()?;
        // With the bounds reversed NOT BETWEEN always holds; Java allows that (`ComparisonExpression.createNotBetween`).
        if let (Some(low), Some(high)) = (constant_number(&low), constant_number(&high))
            && sense == Sense::Plain
            && low > high
        {
            return Err(at.error(format!("BETWEEN {low} AND {high} can never hold")));
        }
        let (first, last, join): (_, _, fn(Vec<Expr>) -> Expr) = match sense {
            Sense::Plain => (Order::GreaterOrEqual, Order::LessOrEqual, Expr::And),
            Sense::Not => (Order::Less, Order::Greater, Expr::Or),
        };
        let low = compare(value.clone(), first, low);
        let high = compare(value, last, high);
        Ok(join(vec![low.map_err(|what| at.error(what))?, high.map_err(|what| at.error(what))?]))
    }

    fn texts(&mut self) -> Result<Vec<Box<str>>, SqlError> {
        let at = self.tokens;
        let mut texts = Vec::new();
        let mut expected = Token::Open;
        loop {
            if self.tokens.next()? != expected {
                return Err(at.error("expected ('text', 'text') after IN"));
            }
            match self.tokens.next()? {
                Token::Text(text) => texts.push(text),
                _ => return Err(at.error("IN takes texts in quotes only")),
            }
            self.count()?;
            if self.tokens.peek()? == Token::Close {
                self.tokens.next()?;
                return Ok(texts);
            }
            expected = Token::Comma;
        }
    }

    fn unary(&mut self) -> Result<Expr, SqlError> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(self.tokens.error(format!("nested deeper than {DEPTH_MAX}")));
        }
        let expr = match self.tokens.peek()? {
            Token::Plus => {
                self.tokens.next()?;
                self.unary()
            }
            Token::Minus => {
                self.tokens.next()?;
                self.unary().map(|operand| Expr::Negated(Box::new(operand)))
            }
            Token::Word(Keyword::Not) => {
                self.tokens.next()?;
                let at = self.tokens;
                let operand = self.unary()?;
                condition(operand, at).map(|operand| Expr::Not(Box::new(operand)))
            }
            _ => self.primary(),
        };
        self.depth -= 1;
        expr
    }

    fn primary(&mut self) -> Result<Expr, SqlError> {
        let at = self.tokens;
        Ok(match self.tokens.next()? {
            Token::Text(text) => Expr::Text(text),
            Token::Whole(digits) => match digits.parse::<i64>() {
                Ok(value) => i32::try_from(value).map_or(Expr::Long(value), Expr::Int),
                Err(_) => return Err(at.error(format!("{digits} is too large a number"))),
            },
            Token::Float(digits) => match digits.parse::<f64>() {
                Ok(value) if value > 0.0 && value.is_finite() => Expr::Double(value),
                _ => return Err(at.error(format!("{digits} is too small or too large a number"))),
            },
            Token::Word(Keyword::True) => Expr::Bool(true),
            Token::Word(Keyword::False) => Expr::Bool(false),
            Token::Word(Keyword::Null) => Expr::Null,
            Token::Name(name) => Expr::Property(name),
            Token::Open => {
                let inner = self.or()?;
                if self.tokens.next()? != Token::Close {
                    return Err(at.error("a parenthesis is not closed"));
                }
                inner
            }
            Token::End => return Err(at.error("the expression ends where a value is expected")),
            _ => return Err(at.error("expected a property, a text in quotes, a number, TRUE, FALSE or NULL")),
        })
    }
}

fn is_operator(word: Keyword) -> bool {
    use Keyword::{Between, Contains, EndsWith, In, StartsWith};
    matches!(word, Between | In | Contains | StartsWith | EndsWith)
}

fn equal(left: Expr, right: Expr) -> Result<Expr, String> {
    if left == Expr::Null || right == Expr::Null {
        return Err("NULL equals nothing: write IS NULL or IS NOT NULL".to_owned());
    }
    if matches!(left, Expr::Bool(_)) && is_constant(&right) && !matches!(right, Expr::Bool(_)) {
        return Err("TRUE and FALSE cannot be compared with a number or text".to_owned());
    }
    Ok(Expr::Equal(Box::new(left), Box::new(right)))
}

fn compare(left: Expr, order: Order, right: Expr) -> Result<Expr, String> {
    for operand in [&left, &right] {
        if is_constant(operand) && constant_number(operand).is_none() {
            return Err("only numbers and properties can be compared by size".to_owned());
        }
        if is_boolean(operand) {
            return Err(
                "a condition cannot be compared by size; NOT binds tighter: write NOT (...)".to_owned()
            );
        }
    }
    Ok(Expr::Compare(Box::new(left), order, Box::new(right)))
}
