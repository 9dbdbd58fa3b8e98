//! What is written is read again, whole or not at all.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use proptest::prelude::*;
use tables::{
    Column, Format, ROW_GROUP_ROWS, Shards, TableReader, TableSchema, TableWriter, TablesError, Value,
};

fn schema() -> TableSchema {
    TableSchema::new("runs", 1)
        .with(Column::int("seed").required().meaning("Seed of the run"))
        .with(Column::bool("is_lost"))
        .with(Column::float("goodput_bps").unit("bit/s"))
        .with(Column::text("scheme"))
        .with(Column::time("start"))
}

fn parquet(rows: &[Vec<Value>]) -> Vec<u8> {
    let mut writer = TableWriter::new(Vec::new(), &schema(), Format::Parquet, &[("seeds", "1..9")]).unwrap();
    rows.iter().for_each(|row| writer.push(row.clone()).unwrap());
    writer.finish().unwrap()
}

fn read(bytes: Vec<u8>) -> Vec<Vec<Value>> {
    TableReader::from_bytes(bytes).unwrap().rows().unwrap().map(Result::unwrap).collect()
}

fn row() -> impl Strategy<Value = Vec<Value>> {
    (any::<i64>(), any::<Option<bool>>(), any::<Option<f64>>(), any::<Option<String>>(), any::<Option<i64>>())
        .prop_map(|(a, b, c, d, e)| vec![a.into(), b.into(), c.into(), d.into(), e.into()])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn parquet_gives_the_rows_back(rows in prop::collection::vec(row(), 0..40)) {
        prop_assert_eq!(read(parquet(&rows)), rows);
    }

    #[test]
    fn a_broken_file_is_an_error_and_no_panic(
        rows in prop::collection::vec(row(), 1..5), at in any::<prop::sample::Index>(), cut in any::<bool>(), byte in any::<u8>(),
    ) {
        let mut bytes = parquet(&rows);
        let at = at.index(bytes.len());
        if cut { bytes.truncate(at) } else { bytes[at] = byte }
        if let Ok(reader) = TableReader::from_bytes(bytes) {
            prop_assert!(!cut, "a cut file is not whole");
            if let Ok(rows) = reader.rows() {
                rows.take(100).for_each(drop);
            }
        }
    }
}

#[test]
fn units_meanings_and_notes_travel_along() {
    let reader = TableReader::from_bytes(parquet(&[])).unwrap();
    assert_eq!(reader.schema(), &schema());
    assert_eq!(reader.note("seeds"), Some("1..9"));
    assert!(reader.is_empty());
}

#[test]
fn a_long_table_is_written_in_groups() {
    let schema = TableSchema::new("numbers", 1).with(Column::int("n").required());
    let mut writer = TableWriter::new(Vec::new(), &schema, Format::Parquet, &[]).unwrap();
    let rows = ROW_GROUP_ROWS as i64 * 2 + 10;
    (0..rows).for_each(|n| writer.push(vec![n.into()]).unwrap());
    let reader = TableReader::from_bytes(writer.finish().unwrap()).unwrap();
    assert_eq!(reader.len(), rows as u64);
    let all_there = reader.rows().unwrap().zip(0..).all(|(row, n)| row.unwrap() == [Value::Int(n)]);
    assert!(all_there);
}

#[test]
fn rows_that_do_not_fit_are_refused() {
    let mut writer = TableWriter::new(Vec::new(), &schema(), Format::Csv, &[]).unwrap();
    assert!(matches!(writer.push(vec![1.into()]), Err(TablesError::Width { expected: 5, found: 1, .. })));
    let null = || Value::Null;
    let wrong = writer.push(vec![1.into(), "yes".into(), null(), null(), null()]).unwrap_err();
    assert_eq!(wrong.to_string(), "table runs, column is_lost: text where Bool is needed");
    let missing = writer.push(vec![null(), null(), null(), null(), null()]).unwrap_err();
    assert_eq!(missing.to_string(), "table runs, column seed: nothing where Int is needed");
}

#[test]
fn parts_appear_whole_and_are_found_again() {
    let folder = tempfile::tempdir().unwrap();
    let shards = Shards::open(folder.path(), &schema()).unwrap();
    let path = |name: &str| folder.path().join(format!("part-{name}.parquet"));
    let row = |seed: i64| vec![seed.into(), true.into(), 1.5.into(), "cubic".into(), Value::Null];
    for name in ["b", "a"] {
        let mut part = shards.write(name, &[]).unwrap();
        part.push(row(if name == "a" { 1 } else { 2 })).unwrap();
        assert!(!path(name).exists());
        part.finish().unwrap();
        assert!(path(name).exists());
    }
    // One that is given up leaves nothing.
    let mut given_up = shards.write("c", &[]).unwrap();
    given_up.push(row(3)).unwrap();
    drop(given_up);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);

    // Another program goes on where this one stopped.
    Shards::open(folder.path(), &schema()).unwrap();
    let seeds = ["a", "b"].map(|name| {
        let part = TableReader::open(&path(name)).unwrap();
        part.rows().unwrap().next().unwrap().unwrap()[0].as_int().unwrap()
    });
    assert_eq!(seeds, [1, 2]);
}

#[test]
fn a_folder_of_another_table_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let other = TableSchema::new("flows", 2).with(Column::int("id").required());
    Shards::open(folder.path(), &other).unwrap().write("a", &[]).unwrap().finish().unwrap();
    let error = Shards::open(folder.path(), &schema()).unwrap_err().to_string();
    assert!(error.contains("holds table flows version 2, not runs version 1"), "{error}");
}
