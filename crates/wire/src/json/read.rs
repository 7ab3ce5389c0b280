//! The JSON reader: serde's data model on a [`Cursor`], with fastjson's conversions between scalars.

use std::borrow::Cow;

use serde::de::value::CowStrDeserializer;
use serde::de::{DeserializeSeed, Deserializer, Error as _, IntoDeserializer, MapAccess, SeqAccess, Visitor};
use serde::forward_to_deserialize_any;

use super::JsonError;
use super::scan::{Cursor, NOWHERE, Scalar};

impl serde::de::Error for JsonError {
    fn custom<T: std::fmt::Display>(message: T) -> Self {
        Self { position: NOWHERE, reason: message.to_string() }
    }
}

/// Visits an integer, read from a number, from text that holds one, or from a boolean.
fn visit_integer<'de, V: Visitor<'de>>(cursor: &mut Cursor<'de>, visitor: V) -> Result<V::Value, JsonError> {
    let value = cursor.scalar("an integer")?;
    let text = match &value {
        Scalar::Null => return visitor.visit_i64(0),
        Scalar::Bool(value) => return visitor.visit_i64(i64::from(*value)),
        Scalar::Number(text) => text,
        Scalar::Text(text) if text.trim().is_empty() => return visitor.visit_i64(0),
        Scalar::Text(text) => text.trim(),
    };
    match parse_number(text) {
        Some(Number::Signed(value)) => visitor.visit_i64(value),
        Some(Number::Unsigned(value)) => visitor.visit_u64(value),
        // The digits behind the point are cut off, as fastjson does.
        Some(Number::Float(value)) if value.abs() < 9e15 => visitor.visit_i64(value as i64),
        _ => Err(JsonError::custom(format_args!("expected an integer, found `{text}`"))),
    }
}

fn visit_float<'de, V: Visitor<'de>>(cursor: &mut Cursor<'de>, visitor: V) -> Result<V::Value, JsonError> {
    let value = cursor.scalar("a number")?;
    let text = match &value {
        Scalar::Null => return visitor.visit_f64(0.0),
        Scalar::Bool(value) => return visitor.visit_f64(f64::from(u8::from(*value))),
        Scalar::Number(text) => text,
        Scalar::Text(text) => text.trim(),
    };
    match text.parse() {
        Ok(value) => visitor.visit_f64(value),
        Err(_) => Err(JsonError::custom(format_args!("expected a number, found `{text}`"))),
    }
}

fn visit_text<'de, V: Visitor<'de>>(cursor: &mut Cursor<'de>, visitor: V) -> Result<V::Value, JsonError> {
    if matches!(cursor.peek(), Some(b'{' | b'[')) {
        return visitor.visit_borrowed_str(cursor.raw()?);
    }
    match text(cursor.scalar("text")?) {
        Cow::Borrowed(text) => visitor.visit_borrowed_str(text),
        Cow::Owned(text) => visitor.visit_string(text),
    }
}

fn text(value: Scalar<'_>) -> Cow<'_, str> {
    match value {
        Scalar::Text(text) => text,
        Scalar::Number(text) => Cow::Borrowed(text),
        Scalar::Null => Cow::Borrowed(""),
        Scalar::Bool(value) => Cow::Borrowed(if value { "true" } else { "false" }),
    }
}

/// Visits an object: of a struct with members of these names, else of a map.
fn visit_object<'de, V: Visitor<'de>>(
    cursor: &mut Cursor<'de>,
    names: &'static [&'static str],
    visitor: V,
) -> Result<V::Value, JsonError> {
    if cursor.null()? {
        return visitor.visit_map(Elements { cursor, names, first: false, absent: true });
    }
    if cursor.peek() != Some(b'{') {
        return Err(cursor.wrong("an object"));
    }
    let depth = cursor.enter()?;
    let value = visitor.visit_map(Elements { cursor, names, first: true, absent: false })?;
    cursor.left(depth).map(|()| value)
}

/// Returns the member that a key means. fastjson 1 ignores case, `_` and `-`, and brokers up to 5.3 read clients'
/// text with it (`TypeUtils.fnv1a_64_lower`). Some clients write `ClientID` for `clientID`.
fn member<'a>(key: Cow<'a, str>, names: &[&'static str]) -> Cow<'a, str> {
    if names.contains(&&*key) {
        return key;
    }
    names.iter().find(|name| letters(name).eq(letters(&key))).map_or(key, |name| Cow::Borrowed(*name))
}

fn letters(name: &str) -> impl Iterator<Item = u8> + '_ {
    name.bytes().filter(|byte| !matches!(byte, b'_' | b'-')).map(|byte| byte.to_ascii_lowercase())
}

enum Number {
    Signed(i64),
    Unsigned(u64),
    Float(f64),
}

fn parse_number(text: &str) -> Option<Number> {
    if let Ok(value) = text.parse() {
        return Some(Number::Signed(value));
    }
    if let Ok(value) = text.parse() {
        return Some(Number::Unsigned(value));
    }
    text.parse().ok().map(Number::Float)
}

/// Forwards every integer width to [`visit_integer`]; the target type's visitor checks the range.
macro_rules! integers {
    ($($method:ident)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, JsonError> {
            visit_integer(self, visitor)
        }
    )*};
}

impl<'de> Deserializer<'de> for &mut Cursor<'de> {
    type Error = JsonError;

    integers! { deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64 }

    forward_to_deserialize_any! { i128 u128 bytes byte_buf }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, JsonError> {
        if self.at_key {
            return visit_text(self, visitor);
        }
        match self.peek() {
            Some(b'{') => return self.deserialize_map(visitor),
            Some(b'[') => return self.deserialize_seq(visitor),
            _ => {}
        }
        match self.scalar("a value")? {
            Scalar::Null => visitor.visit_unit(),
            Scalar::Bool(value) => visitor.visit_bool(value),
            Scalar::Text(Cow::Borrowed(text)) => visitor.visit_borrowed_str(text),
            Scalar::Text(Cow::Owned(text)) => visitor.visit_string(text),
            Scalar::Number(text) => match parse_number(text) {
                Some(Number::Signed(value)) => visitor.visit_i64(value),
                Some(Number::Unsigned(value)) => visitor.visit_u64(value),
                Some(Number::Float(value)) => visitor.visit_f64(value),
                None => Err(JsonError::custom(format_args!("expected a number, found `{text}`"))),
            },
        }
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, JsonError> {
        let value = match self.scalar("a boolean")? {
            Scalar::Null => false,
            Scalar::Bool(value) => value,
            Scalar::Number(text) => text != "0",
            Scalar::Text(text) => text.eq_ignore_ascii_case("true") || text == "1",
        };
        visitor.visit_bool(value)
    }

    fn deserialize_f32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, JsonError> {
        visit_float(self, visitor)
    }

    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, JsonError> {
        visit_float(self, visitor)
    }

    fn deserialize_char<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, JsonError> {
        visit_text(self, visitor)
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, JsonError> {
        visit_text(self, visitor)
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, JsonError> {
        visit_text(self, visitor)
    }

    fn deserialize_identifier<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, JsonError> {
        visit_text(self, visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, JsonError> {
        if self.null()? { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, JsonError> {
        self.raw()?;
        visitor.visit_unit()
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, JsonError> {
        self.deserialize_unit(visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, JsonError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, JsonError> {
        if self.null()? {
            return visitor.visit_seq(Elements { cursor: self, names: &[], first: false, absent: true });
        }
        // Encoders of Lua and PHP write an empty list like an empty table.
        if self.take(b'{') {
            if !self.take(b'}') {
                return Err(self.wrong("the end of an empty list"));
            }
            return visitor.visit_seq(Elements { cursor: self, names: &[], first: false, absent: true });
        }
        if self.peek() != Some(b'[') {
            return Err(self.wrong("an array"));
        }
        let depth = self.enter()?;
        let value = visitor.visit_seq(Elements { cursor: self, names: &[], first: true, absent: false })?;
        self.leave_array(depth).map(|()| value)
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, _length: usize, visitor: V) -> Result<V::Value, JsonError> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _length: usize,
        visitor: V,
    ) -> Result<V::Value, JsonError> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, JsonError> {
        visit_object(self, &[], visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, JsonError> {
        visit_object(self, fields, visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, JsonError> {
        let value = text(self.scalar("a name")?);
        // A number, quoted or not, is a place in the order of Java's enum, in which ours are declared.
        let place = value.parse().ok().and_then(|place: usize| variants.get(place));
        let name = place.map_or(value, |name| Cow::Borrowed(*name));
        let name: CowStrDeserializer<'_, JsonError> = name.into_deserializer();
        visitor.visit_enum(name)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, JsonError> {
        self.raw()?;
        visitor.visit_unit()
    }
}

/// The remaining elements of an array or object. `absent`: the value was null and has no elements.
struct Elements<'a, 'de> {
    cursor: &'a mut Cursor<'de>,
    /// Names of the members that a struct has.
    names: &'static [&'static str],
    first: bool,
    absent: bool,
}

impl<'de> SeqAccess<'de> for Elements<'_, 'de> {
    type Error = JsonError;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, JsonError> {
        if self.absent || !self.cursor.next_element(&mut self.first, b']')? {
            return Ok(None);
        }
        self.cursor.count()?;
        seed.deserialize(&mut *self.cursor).map(Some)
    }
}

impl<'de> MapAccess<'de> for Elements<'_, 'de> {
    type Error = JsonError;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, JsonError> {
        if self.absent || !self.cursor.next_element(&mut self.first, b'}')? {
            return Ok(None);
        }
        self.cursor.at_key = true;
        let key = if self.names.is_empty() {
            self.cursor.count()?;
            seed.deserialize(&mut *self.cursor)?
        } else {
            let name: CowStrDeserializer<'_, JsonError> =
                member(text(self.cursor.scalar("text")?), self.names).into_deserializer();
            seed.deserialize(name)?
        };
        self.cursor.at_key = false;
        Ok(Some(key))
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, JsonError> {
        self.cursor.colon()?;
        seed.deserialize(&mut *self.cursor)
    }
}
