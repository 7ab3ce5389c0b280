//! The cost of the system of a run: `A=6900cny/mo`.

use std::str::FromStr;

/// The cost of the system of one of two runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Cost {
    /// Whether it is the cost of the first run's system.
    pub first: bool,
    /// Cost of thirty days.
    pub per_month: f64,
    /// Currency as it was typed.
    pub currency: String,
}

impl FromStr for Cost {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!("`{text}`: expected A=PRICE or B=PRICE with a currency and a time, such as A=6900cny/mo")
        };
        let (run, price) = text.split_once('=').ok_or_else(wrong)?;
        let first = match run {
            "A" | "a" => true,
            "B" | "b" => false,
            _ => return Err(wrong()),
        };
        let (amount, time) = price.split_once('/').ok_or_else(wrong)?;
        let letters = amount.find(|letter: char| letter.is_alphabetic()).ok_or_else(wrong)?;
        let (number, currency) = amount.split_at(letters);
        let number: f64 = number.parse().map_err(|_| wrong())?;
        let months = match time {
            "mo" | "month" => 1.0,
            "h" => 1.0 / 720.0,
            "d" | "day" => 1.0 / 30.0,
            "y" | "year" => 365.0 / 30.0,
            _ => return Err(wrong()),
        };
        Ok(Self { first, per_month: number / months, currency: currency.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prices_are_read() {
        let check = |text: &str, first: bool, per_month: f64, currency: &str| {
            let cost: Cost = text.parse().expect("a good price");
            assert!(
                cost.first == first && (cost.per_month - per_month).abs() < 1e-6 && cost.currency == currency,
                "{cost:?}"
            );
        };
        check("A=6900cny/mo", true, 6_900.0, "cny");
        check("B=1.5usd/h", false, 1_080.0, "usd");
        check("A=365eur/y", true, 30.0, "eur");
    }

    #[test]
    fn what_is_no_price_is_refused() {
        for text in ["6900", "C=1cny/mo", "A=cny/mo", "A=1cny", "A=1cny/fortnight", "A=1/mo"] {
            assert!(text.parse::<Cost>().is_err(), "{text}");
        }
    }
}
