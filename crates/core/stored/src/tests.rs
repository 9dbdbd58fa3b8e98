use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;

#[derive(Clone, PartialEq, Debug, Stored)]
struct Generic<T> {
    value: T,
    twice: [T; 2],
}

#[derive(Clone, PartialEq, Debug, Stored)]
struct Number(u32);

#[derive(Clone, PartialEq, Debug, Stored)]
#[stored(order(first, second, third))]
struct Ordered {
    third: u8,
    first: u16,
    #[stored(since(2, 9))]
    second: u8,
}

#[test]
fn an_order_is_the_formats() {
    let value = Ordered { third: 3, first: 1, second: 2 };
    assert_eq!(to_bytes(&value), [1, 0, 2, 3]);
    assert_eq!(from_bytes::<Ordered>(2, &[1, 0, 2, 3]), Ok(value));
    assert_eq!(from_bytes::<Ordered>(1, &[1, 0, 3]), Ok(Ordered { third: 3, first: 1, second: 9 }));
}

#[derive(Clone, PartialEq, Debug, Stored)]
enum Kind {
    Plain,
    Pair(Number, bool),
    #[stored(number = 7)]
    Named {
        at: u64,
        name: String,
    },
}

#[derive(Clone, PartialEq, Debug, Stored)]
struct Whole {
    kinds: Vec<Kind>,
    queue: VecDeque<(i32, u16)>,
    maybe: Option<Box<Generic<u8>>>,
    place: usize,
}

fn kind() -> impl Strategy<Value = Kind> {
    prop_oneof![
        Just(Kind::Plain),
        (any::<u32>(), any::<bool>()).prop_map(|(number, flag)| Kind::Pair(Number(number), flag)),
        (any::<u64>(), "\\PC{0,9}").prop_map(|(at, name)| Kind::Named { at, name }),
    ]
}

fn whole() -> impl Strategy<Value = Whole> {
    let kinds = proptest::collection::vec(kind(), 0..5);
    let queue = proptest::collection::vec(any::<(i32, u16)>(), 0..5);
    let maybe = proptest::option::of(any::<(u8, [u8; 2])>());
    (kinds, queue, maybe, any::<u32>()).prop_map(|(kinds, queue, maybe, place)| Whole {
        kinds,
        queue: queue.into(),
        maybe: maybe.map(|(value, twice)| Box::new(Generic { value, twice })),
        place: place as usize,
    })
}

proptest! {
    #[test]
    fn what_is_read_is_what_was_written(whole in whole()) {
        prop_assert_eq!(from_bytes::<Whole>(1, &to_bytes(&whole)), Ok(whole));
    }

    /// Cut short it is an error, wherever; with more behind it too.
    #[test]
    fn a_part_is_not_taken_for_the_whole(whole in whole(), cut in any::<prop::sample::Index>()) {
        let mut bytes = to_bytes(&whole);
        prop_assert!(from_bytes::<Whole>(1, &bytes[..cut.index(bytes.len())]).is_err());
        bytes.push(0);
        let end = bytes.len() - 1;
        prop_assert_eq!(from_bytes::<Whole>(1, &bytes), Err(StoredError::Rest { at: end, left: 1 }));
    }

    #[test]
    fn bytes_of_nobody_are_no_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = from_bytes::<Whole>(1, &bytes);
    }
}

#[test]
fn an_older_version_lacks_its_later_fields() {
    #[derive(PartialEq, Debug, Stored)]
    struct Before {
        a: u16,
        c: u16,
    }
    #[derive(PartialEq, Debug, Stored)]
    struct Now {
        a: u16,
        #[stored(since(2, 9))]
        b: u16,
        c: u16,
    }
    let old = to_bytes(&Before { a: 1, c: 3 });
    assert_eq!(from_bytes::<Now>(1, &old), Ok(Now { a: 1, b: 9, c: 3 }));
    let new = to_bytes(&Now { a: 1, b: 2, c: 3 });
    assert_eq!(from_bytes::<Now>(2, &new), Ok(Now { a: 1, b: 2, c: 3 }));
    assert!(from_bytes::<Now>(2, &old).is_err());
}

#[test]
fn errors_say_where() {
    let unknown = from_bytes::<Kind>(1, &[3]).unwrap_err();
    assert_eq!(unknown.to_string(), "byte 0 of the stored state makes no sense as Kind");
    let cut = from_bytes::<Kind>(1, &[1, 2, 0, 0]).unwrap_err();
    assert_eq!(cut.to_string(), "the stored state ends at byte 4, within u32");
    let long = from_bytes::<Vec<u8>>(1, &[255, 255, 255, 255, 1]).unwrap_err();
    assert_eq!(long.to_string(), "byte 0 of the stored state makes no sense as list");
}

#[test]
fn the_format_is_as_described() {
    let bytes = to_bytes(&(Kind::Pair(Number(0x0102), true), Some(vec![5u8])));
    assert_eq!(bytes, [1, 2, 1, 0, 0, 1, 1, 1, 0, 0, 0, 5]);
}

#[test]
fn surroundings_reach_who_asks_for_them() {
    let reader = Reader::new(1, &[]).within(&7u32);
    assert_eq!(reader.surroundings::<u32>(), Some(&7));
    assert_eq!(reader.surroundings::<u64>(), None);
}

#[test]
fn the_layout_is_told_once_for_each_type() {
    let layouts = Layouts::text_of::<Whole>();
    let kind = "Number\n  0: u32\nKind\n 0 Plain\n 1 Pair\n  0: Number\n  1: bool\n 7 Named\n  at: u64\n  name: String\n";
    let rest = "Generic\n  value: u8\n  twice: [u8; 2]\nWhole\n  kinds: Vec<Kind>\n  queue: VecDeque<(i32, u16)>\n  \
                maybe: Option<Box<Generic<u8>>>\n  place: usize\n";
    assert_eq!(layouts, format!("{kind}{rest}"));
}
