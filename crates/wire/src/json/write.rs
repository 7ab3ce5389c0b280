//! The JSON writer: serde's data model to compact text in one of the two dialects.

use serde::Serialize;
use serde::ser::{
    Error as _, Impossible, SerializeMap, SerializeSeq, SerializeStruct, SerializeTuple, Serializer,
};

use super::{Dialect, JsonError};

impl serde::ser::Error for JsonError {
    fn custom<T: std::fmt::Display>(message: T) -> Self {
        Self { position: 0, reason: message.to_string() }
    }
}

/// A JSON text being written.
pub(super) struct Writer {
    text: Vec<u8>,
    dialect: Dialect,
    /// Whether the next value is a map key, so that integers may need quotes.
    at_key: bool,
}

impl Writer {
    pub(super) fn new(dialect: Dialect) -> Self {
        Self { text: Vec::new(), dialect, at_key: false }
    }

    pub(super) fn finish(self) -> Vec<u8> {
        self.text
    }

    fn integer(&mut self, value: impl itoa::Integer) {
        let quoted = self.at_key && self.dialect == Dialect::Standard;
        if quoted {
            self.text.push(b'"');
        }
        self.text.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
        if quoted {
            self.text.push(b'"');
        }
    }

    fn string(&mut self, value: &str) {
        self.text.push(b'"');
        let mut written = 0;
        for (at, character) in value.char_indices() {
            let is_plain = match character {
                '"' | '\\' | '\0'..='\u{1f}' => false,
                '\u{7f}'.. => self.dialect == Dialect::Plain,
                _ => true,
            };
            if is_plain {
                continue;
            }
            self.text.extend_from_slice(&value.as_bytes()[written..at]);
            written = at + character.len_utf8();
            self.escape(character);
        }
        self.text.extend_from_slice(&value.as_bytes()[written..]);
        self.text.push(b'"');
    }

    fn escape(&mut self, character: char) {
        let short = match character {
            '"' => b'"',
            '\\' => b'\\',
            '\u{8}' => b'b',
            '\u{c}' => b'f',
            '\n' => b'n',
            '\r' => b'r',
            '\t' => b't',
            _ => {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    self.text.extend_from_slice(format!("\\u{unit:04X}").as_bytes());
                }
                return;
            }
        };
        self.text.extend_from_slice(&[b'\\', short]);
    }

    fn open(&mut self, bracket: u8, close: &'static [u8]) -> Elements<'_> {
        self.at_key = false;
        self.text.push(bracket);
        Elements { start: self.text.len(), first: true, writer: self, close }
    }
}

macro_rules! integers {
    ($($method:ident: $type:ty),* $(,)?) => {$(
        fn $method(self, value: $type) -> Result<(), JsonError> {
            self.integer(value);
            Ok(())
        }
    )*};
}

impl<'a> Serializer for &'a mut Writer {
    type Ok = ();
    type Error = JsonError;
    type SerializeSeq = Elements<'a>;
    type SerializeTuple = Elements<'a>;
    type SerializeTupleStruct = Impossible<(), JsonError>;
    type SerializeTupleVariant = Impossible<(), JsonError>;
    type SerializeMap = Elements<'a>;
    type SerializeStruct = Elements<'a>;
    type SerializeStructVariant = Impossible<(), JsonError>;

    integers! {
        serialize_i8: i8, serialize_i16: i16, serialize_i32: i32, serialize_i64: i64,
        serialize_u8: u8, serialize_u16: u16, serialize_u32: u32, serialize_u64: u64,
    }

    fn serialize_bool(self, value: bool) -> Result<(), JsonError> {
        self.text.extend_from_slice(if value { b"true" } else { b"false" });
        Ok(())
    }

    fn serialize_f32(self, value: f32) -> Result<(), JsonError> {
        self.serialize_f64(f64::from(value))
    }

    fn serialize_f64(self, value: f64) -> Result<(), JsonError> {
        if !value.is_finite() {
            return self.serialize_unit();
        }
        self.text.extend_from_slice(format!("{value:?}").as_bytes());
        Ok(())
    }

    fn serialize_char(self, value: char) -> Result<(), JsonError> {
        self.string(value.encode_utf8(&mut [0; 4]));
        Ok(())
    }

    fn serialize_str(self, value: &str) -> Result<(), JsonError> {
        self.string(value);
        Ok(())
    }

    fn serialize_bytes(self, value: &[u8]) -> Result<(), JsonError> {
        value.serialize(self)
    }

    fn serialize_none(self) -> Result<(), JsonError> {
        self.serialize_unit()
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), JsonError> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<(), JsonError> {
        self.text.extend_from_slice(b"null");
        Ok(())
    }

    fn serialize_unit_struct(self, _name: &'static str) -> Result<(), JsonError> {
        self.serialize_unit()
    }

    fn serialize_unit_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
    ) -> Result<(), JsonError> {
        self.serialize_str(variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _name: &'static str,
        value: &T,
    ) -> Result<(), JsonError> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<(), JsonError> {
        let mut object = self.open(b'{', b"}");
        SerializeMap::serialize_entry(&mut object, variant, value)?;
        SerializeMap::end(object)
    }

    fn serialize_seq(self, _length: Option<usize>) -> Result<Elements<'a>, JsonError> {
        Ok(self.open(b'[', b"]"))
    }

    fn serialize_tuple(self, _length: usize) -> Result<Elements<'a>, JsonError> {
        Ok(self.open(b'[', b"]"))
    }

    fn serialize_tuple_struct(
        self,
        name: &'static str,
        _length: usize,
    ) -> Result<Self::SerializeTupleStruct, JsonError> {
        Err(JsonError::custom(format_args!("no body holds a tuple struct such as {name}")))
    }

    fn serialize_tuple_variant(
        self,
        name: &'static str,
        _index: u32,
        _variant: &'static str,
        _length: usize,
    ) -> Result<Self::SerializeTupleVariant, JsonError> {
        Err(JsonError::custom(format_args!("no body holds a tuple variant such as one of {name}")))
    }

    fn serialize_map(self, _length: Option<usize>) -> Result<Elements<'a>, JsonError> {
        Ok(self.open(b'{', b"}"))
    }

    fn serialize_struct(self, _name: &'static str, _length: usize) -> Result<Elements<'a>, JsonError> {
        Ok(self.open(b'{', b"}"))
    }

    fn serialize_struct_variant(
        self,
        name: &'static str,
        _index: u32,
        _variant: &'static str,
        _length: usize,
    ) -> Result<Self::SerializeStructVariant, JsonError> {
        Err(JsonError::custom(format_args!("no body holds a struct variant such as one of {name}")))
    }
}

/// An array or object being written. `start`: position where the current element begins, to remove it if it is null.
pub(super) struct Elements<'a> {
    writer: &'a mut Writer,
    close: &'static [u8],
    first: bool,
    start: usize,
}

impl Elements<'_> {
    fn comma(&mut self) {
        self.start = self.writer.text.len();
        if !self.first {
            self.writer.text.push(b',');
        }
    }

    fn close(self) -> Result<(), JsonError> {
        self.writer.text.extend_from_slice(self.close);
        Ok(())
    }
}

impl SerializeSeq for Elements<'_> {
    type Ok = ();
    type Error = JsonError;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), JsonError> {
        self.comma();
        self.first = false;
        value.serialize(&mut *self.writer)
    }

    fn end(self) -> Result<(), JsonError> {
        self.close()
    }
}

impl SerializeTuple for Elements<'_> {
    type Ok = ();
    type Error = JsonError;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), JsonError> {
        SerializeSeq::serialize_element(self, value)
    }

    fn end(self) -> Result<(), JsonError> {
        self.close()
    }
}

impl SerializeMap for Elements<'_> {
    type Ok = ();
    type Error = JsonError;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), JsonError> {
        self.comma();
        self.writer.at_key = true;
        key.serialize(&mut *self.writer)?;
        self.writer.at_key = false;
        self.writer.text.push(b':');
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), JsonError> {
        let value_start = self.writer.text.len();
        value.serialize(&mut *self.writer)?;
        if &self.writer.text[value_start..] == b"null" {
            self.writer.text.truncate(self.start);
        } else {
            self.first = false;
        }
        Ok(())
    }

    fn end(self) -> Result<(), JsonError> {
        self.close()
    }
}

impl SerializeStruct for Elements<'_> {
    type Ok = ();
    type Error = JsonError;

    fn serialize_field<T: Serialize + ?Sized>(
        &mut self,
        name: &'static str,
        value: &T,
    ) -> Result<(), JsonError> {
        SerializeMap::serialize_key(self, name)?;
        SerializeMap::serialize_value(self, value)
    }

    fn end(self) -> Result<(), JsonError> {
        self.close()
    }
}
