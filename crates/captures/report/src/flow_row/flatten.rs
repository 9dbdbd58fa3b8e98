//! A serializer that puts the figures of a report into their columns.

use std::fmt::{self, Display, Write as _};

use serde::Serialize;
use serde::ser::{self, Impossible, SerializeMap, SerializeSeq, SerializeStruct, SerializeTuple};
use serde_json::Value as Json;
use tables::Value;

use super::Place;

/// A report that has no place for one of its figures.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct Misplaced(String);

impl ser::Error for Misplaced {
    fn custom<T: Display>(message: T) -> Self {
        Self(message.to_string())
    }
}

/// Puts a value where `place` says.
pub(super) struct Flattener<'a> {
    place: &'a Place,
    row: &'a mut [Value],
}

impl<'a> Flattener<'a> {
    pub(super) fn new(place: &'a Place, row: &'a mut [Value]) -> Self {
        Self { place, row }
    }

    fn put(self, value: Value) -> Result<(), Misplaced> {
        if let Place::Column(index) = self.place
            && let Some(cell) = self.row.get_mut(*index)
        {
            *cell = value;
        }
        Ok(())
    }

    fn nowhere<T>(what: &str) -> Result<T, Misplaced> {
        Err(Misplaced(format!("a row has no place for {what}")))
    }
}

/// Fields of an object.
pub(super) struct Fields<'a> {
    fields: &'a [(String, Place)],
    row: &'a mut [Value],
    /// Fields come in this order; where they do not, they are looked for.
    next: usize,
}

impl Fields<'_> {
    fn put<T: Serialize + ?Sized>(&mut self, key: &str, value: &T) -> Result<(), Misplaced> {
        let is_here = |at: &usize| self.fields.get(*at).is_some_and(|(name, _)| name == key);
        let found =
            Some(self.next).filter(is_here).or_else(|| self.fields.iter().position(|(name, _)| name == key));
        let Some(at) = found else { return Ok(()) };
        self.next = at + 1;
        value.serialize(Flattener::new(&self.fields[at].1, self.row))
    }
}

impl SerializeStruct for Fields<'_> {
    type Ok = ();
    type Error = Misplaced;

    fn serialize_field<T: Serialize + ?Sized>(
        &mut self,
        key: &'static str,
        value: &T,
    ) -> Result<(), Misplaced> {
        self.put(key, value)
    }

    fn end(self) -> Result<(), Misplaced> {
        Ok(())
    }
}

/// An object whose parts are written beside each other comes as a map.
impl<'a> SerializeMap for MapFields<'a> {
    type Ok = ();
    type Error = Misplaced;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Misplaced> {
        self.key.clear();
        write!(self.key, "{}", Name(key)).map_err(ser::Error::custom)
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Misplaced> {
        self.fields.put(&self.key, value)
    }

    fn end(self) -> Result<(), Misplaced> {
        Ok(())
    }
}

/// The name of a field, which is text.
struct Name<'a, T: ?Sized>(&'a T);

impl<T: Serialize + ?Sized> Display for Name<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.serialize(f)
    }
}

/// Fields of an object that comes as a map.
pub(super) struct MapFields<'a> {
    fields: Fields<'a>,
    key: String,
}

/// Items of an array: one for each direction, or several that share a column.
pub(super) struct Items<'a> {
    place: &'a Place,
    row: &'a mut [Value],
    count: usize,
    said: String,
}

impl Items<'_> {
    fn item<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Misplaced> {
        let index = self.count;
        self.count += 1;
        if let Place::Directions(places) = self.place {
            let Some(place) = places.get(index) else { return Ok(()) };
            return value.serialize(Flattener::new(place, self.row));
        }
        let item = serde_json::to_value(value).map_err(ser::Error::custom)?;
        if index > 0 {
            self.said.push_str("; ");
        }
        match (item["kind"].as_str(), item["evidence"].as_str()) {
            (Some(kind), Some(evidence)) => self.said.push_str(&format!("{kind}: {evidence}")),
            _ => self.said.push_str(&Json::to_string(&item)),
        }
        Ok(())
    }

    fn close(self) -> Result<(), Misplaced> {
        // A list without items is no text, which a database can count.
        let value = if self.said.is_empty() { Value::Null } else { Value::Text(self.said) };
        Flattener::new(self.place, self.row).put(value)
    }
}

impl SerializeSeq for Items<'_> {
    type Ok = ();
    type Error = Misplaced;
    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Misplaced> {
        self.item(value)
    }
    fn end(self) -> Result<(), Misplaced> {
        self.close()
    }
}

impl SerializeTuple for Items<'_> {
    type Ok = ();
    type Error = Misplaced;
    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Misplaced> {
        self.item(value)
    }
    fn end(self) -> Result<(), Misplaced> {
        self.close()
    }
}

macro_rules! put {
    ($($method:ident: $kind:ty),*) => {
        $(fn $method(self, value: $kind) -> Result<(), Misplaced> {
            self.put(Value::from(value))
        })*
    };
}

impl<'a> ser::Serializer for Flattener<'a> {
    type Ok = ();
    type Error = Misplaced;
    type SerializeSeq = Items<'a>;
    type SerializeTuple = Items<'a>;
    type SerializeStruct = Fields<'a>;
    type SerializeTupleStruct = Impossible<(), Misplaced>;
    type SerializeTupleVariant = Impossible<(), Misplaced>;
    type SerializeMap = MapFields<'a>;
    type SerializeStructVariant = Impossible<(), Misplaced>;

    put!(serialize_bool: bool, serialize_i32: i32, serialize_i64: i64, serialize_u8: u8, serialize_u16: u16,
         serialize_u32: u32, serialize_u64: u64, serialize_f64: f64, serialize_str: &str);

    fn serialize_i8(self, value: i8) -> Result<(), Misplaced> {
        self.put(Value::from(i64::from(value)))
    }
    fn serialize_i16(self, value: i16) -> Result<(), Misplaced> {
        self.put(Value::from(i64::from(value)))
    }
    fn serialize_f32(self, value: f32) -> Result<(), Misplaced> {
        self.put(Value::from(f64::from(value)))
    }
    fn serialize_char(self, value: char) -> Result<(), Misplaced> {
        self.put(Value::from(value.to_string()))
    }
    fn serialize_bytes(self, _value: &[u8]) -> Result<(), Misplaced> {
        Self::nowhere("bytes")
    }
    fn serialize_none(self) -> Result<(), Misplaced> {
        Ok(())
    }
    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), Misplaced> {
        value.serialize(self)
    }
    fn serialize_unit(self) -> Result<(), Misplaced> {
        Ok(())
    }
    fn serialize_unit_struct(self, _name: &'static str) -> Result<(), Misplaced> {
        Ok(())
    }
    fn serialize_unit_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
    ) -> Result<(), Misplaced> {
        self.put(Value::from(variant))
    }
    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _name: &'static str,
        value: &T,
    ) -> Result<(), Misplaced> {
        value.serialize(self)
    }
    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        _value: &T,
    ) -> Result<(), Misplaced> {
        Self::nowhere(variant)
    }
    fn serialize_seq(self, _len: Option<usize>) -> Result<Items<'a>, Misplaced> {
        Ok(Items { place: self.place, row: self.row, count: 0, said: String::new() })
    }
    fn serialize_tuple(self, len: usize) -> Result<Items<'a>, Misplaced> {
        self.serialize_seq(Some(len))
    }
    fn serialize_tuple_struct(
        self,
        name: &'static str,
        _len: usize,
    ) -> Result<Self::SerializeTupleStruct, Misplaced> {
        Self::nowhere(name)
    }
    fn serialize_tuple_variant(
        self,
        name: &'static str,
        _index: u32,
        _variant: &'static str,
        _len: usize,
    ) -> Result<Self::SerializeTupleVariant, Misplaced> {
        Self::nowhere(name)
    }
    fn serialize_map(self, _len: Option<usize>) -> Result<Self::SerializeMap, Misplaced> {
        let fields = self.serialize_struct("a map", 0)?;
        Ok(MapFields { fields, key: String::new() })
    }
    fn serialize_struct(self, name: &'static str, _len: usize) -> Result<Fields<'a>, Misplaced> {
        match self.place {
            Place::Object(fields) => Ok(Fields { fields, row: self.row, next: 0 }),
            _ => Self::nowhere(name),
        }
    }
    fn serialize_struct_variant(
        self,
        name: &'static str,
        _index: u32,
        _variant: &'static str,
        _len: usize,
    ) -> Result<Self::SerializeStructVariant, Misplaced> {
        Self::nowhere(name)
    }
}
