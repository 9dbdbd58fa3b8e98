use super::*;

static NEVER: AtomicBool = AtomicBool::new(false);

const SPEC: &str = r#"
traces = ["4g-lte", "3g-hspa"]
schemes = ["accel:rate"]
seconds = 2
seeds = [1, 2]
[parameters]
alpha = ["20 ms", "40 ms"]
k_segments = [100]
"#;

fn sweep(out: PathBuf, shard: Shard, resume: bool) -> Sweep {
    let spec: SweepSpec = toml::from_str(SPEC).unwrap();
    Sweep { spec, shard, threads: 2, out, resume, notes: Vec::new() }
}

fn rows(file: &Path) -> Vec<Vec<Value>> {
    let reader = TableReader::open(file).unwrap();
    reader.rows().unwrap().map(|row| row.unwrap()).collect()
}

#[test]
fn shards_put_together_are_the_whole() {
    let folder = tempfile::tempdir().unwrap();
    let whole = folder.path().join("whole.parquet");
    let (summary, _) = sweep(whole.clone(), Shard::WHOLE, false).run(&|_| {}, &NEVER).unwrap();
    assert!(summary.contains("2 combinations"), "{summary}");
    let parts: Vec<PathBuf> = (0..3).map(|i| folder.path().join(format!("part-{i}.parquet"))).collect();
    for (index, part) in parts.iter().enumerate() {
        let done = Mutex::new(0);
        let shard = Shard { index, of: 3 };
        let count = &|p: Progress<'_>| *done.lock().unwrap() = p.done;
        sweep(part.clone(), shard, false).run(count, &NEVER).unwrap();
        assert_eq!(*done.lock().unwrap(), if index == 2 { 2 } else { 3 });
    }
    let merged = folder.path().join("merged.parquet");
    merge(&parts, &merged).unwrap();
    assert_eq!(rows(&merged), rows(&whole));
    assert_eq!(rows(&whole).len(), 8);
    let nowhere = merge(&[folder.path().join("nowhere.parquet")], &merged).unwrap_err().to_string();
    assert!(nowhere.contains("no such table") && nowhere.matches("nowhere").count() == 1, "{nowhere}");
    let missing = merge(&parts[..2], &merged).unwrap_err().to_string();
    assert!(missing.contains("6 of 8 cells"), "{missing}");
    let twice = merge(&[parts[0].clone(), parts[0].clone()], &merged).unwrap_err().to_string();
    assert!(twice.contains("cell 0 is in two"), "{twice}");
}

/// Two of eight cells, then the user wants no more: they are in the table, which says so, and the rest is
/// made from there.
#[test]
fn an_interrupted_sweep_leaves_its_cells_and_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let (whole, part) = (folder.path().join("whole.parquet"), folder.path().join("part.parquet"));
    sweep(whole.clone(), Shard::WHOLE, false).run(&|_| {}, &NEVER).unwrap();
    let is_over = AtomicBool::new(false);
    let stop = |p: Progress<'_>| is_over.store(p.done == 2, Ordering::Relaxed);
    let first = Sweep { threads: 1, ..sweep(part.clone(), Shard::WHOLE, false) };
    let (_, interrupted) = first.run(&stop, &is_over).unwrap();
    assert_eq!(interrupted, Some(Interrupted { finished: 2, of: 8 }));
    assert_eq!(rows(&part), rows(&whole)[..2]);
    let reader = TableReader::open(&part).unwrap();
    assert_eq!(reader.note("interrupted"), Some("interrupted after 2 of 8 runs"));
    let refused =
        merge(core::slice::from_ref(&part), &folder.path().join("merged.parquet")).unwrap_err().to_string();
    assert!(refused.contains("2 of 8 cells"), "{refused}");
    let (_, interrupted) = sweep(part.clone(), Shard::WHOLE, true).run(&|_| {}, &NEVER).unwrap();
    assert_eq!((interrupted, rows(&part)), (None, rows(&whole)));
}

#[test]
fn seeds_draw_other_traces() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("seeds.parquet");
    sweep(out.clone(), Shard::WHOLE, false).run(&|_| {}, &NEVER).unwrap();
    let schema = TableReader::open(&out).unwrap().schema().clone();
    let at = |name: &str| schema.position(name).unwrap();
    let of = |seed: i64| -> Vec<Value> {
        let is_it = |row: &Vec<Value>| row[at("seed")].as_int() == Some(seed);
        rows(&out).into_iter().filter(is_it).map(|row| row[at("offset_p95_ms")].clone()).collect()
    };
    assert!(of(1).len() == 4 && of(1) != of(2), "{:?} {:?}", of(1), of(2));
}

#[test]
fn a_stopped_sweep_goes_on_where_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let (whole, again) = (folder.path().join("whole.csv"), folder.path().join("again.csv"));
    sweep(whole.clone(), Shard::WHOLE, false).run(&|_| {}, &NEVER).unwrap();
    // A journal as a killed run leaves it: two cells and a half.
    let noted = Mutex::new(String::new());
    let journal = folder.path().join("again.csv.journal");
    let stop = sweep(again.clone(), Shard::WHOLE, false);
    let note = |p: Progress<'_>| {
        if p.done == 2 {
            *noted.lock().unwrap() = std::fs::read_to_string(&journal).unwrap();
            let beside =
                sweep(again.clone(), Shard::WHOLE, true).run(&|_| {}, &NEVER).unwrap_err().to_string();
            assert!(beside.contains("another sweep is writing"), "{beside}");
        }
    };
    stop.run(&note, &NEVER).unwrap();
    let mut text = noted.into_inner().unwrap();
    assert_eq!(text.lines().count(), 3);
    text.push_str("[7,[7,\"4g-l");
    std::fs::remove_file(&again).unwrap();
    std::fs::write(&journal, text).unwrap();

    let refused = sweep(again.clone(), Shard::WHOLE, false).run(&|_| {}, &NEVER).unwrap_err().to_string();
    assert!(refused.contains("--resume"), "{refused}");
    let other =
        sweep(again.clone(), Shard { index: 0, of: 2 }, true).run(&|_| {}, &NEVER).unwrap_err().to_string();
    assert!(other.contains("of another shard"), "{other}");
    let made = Mutex::new(0);
    sweep(again.clone(), Shard::WHOLE, true).run(&|_| *made.lock().unwrap() += 1, &NEVER).unwrap();
    assert_eq!(made.into_inner().unwrap(), 6);
    assert_eq!(std::fs::read_to_string(&again).unwrap(), std::fs::read_to_string(&whole).unwrap());
    assert!(!journal.exists());
}

#[test]
fn mistakes_in_a_specification_are_named() {
    let prepare = |text: &str| {
        let spec: Result<SweepSpec, _> = toml::from_str(text);
        spec.map_err(|e| e.to_string()).and_then(|s| s.prepare().map(|_| ()).map_err(|e| e.to_string()))
    };
    let wrong = |text: &str| prepare(text).unwrap_err();
    assert!(wrong("traces = []\nschemes = [\"accel:rate\"]").contains("traces: must not be empty"));
    assert!(wrong("traces = [\"4g-lte\"]\nschemes = [\"accel:rate\"]\nseed = 1").contains("seed"));
    let base = "traces = [\"4g-lte\"]\nschemes = [\"accel:rate\"]\n[parameters]\n";
    assert!(wrong(&format!("{base}gamma = [1]")).contains("no parameter `gamma`"));
    assert!(wrong(&format!("{base}alpha = []")).contains("must be a list of values"));
    let base = "traces = [\"4g-lte\"]\nschemes = [\"accel:rate\"]\n";
    assert!(wrong(&format!("{base}wan_rate = \"0 bit/s\"")).contains("wan-rate: must be above zero"));
    assert!(wrong(&format!("{base}window_scale = 15")).contains("window_scale: must be at most 14"));
    assert!("3/3".parse::<Shard>().unwrap_err().to_string().contains("0 to n-1"));
    assert_eq!("2/3".parse(), Ok(Shard { index: 2, of: 3 }));
    assert!(table_format(Path::new("a.txt")).unwrap_err().to_string().contains(".parquet"));
}

#[test]
fn with_a_stride_each_seed_begins_later_in_a_measured_trace() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("drive.down");
    // One opportunity in the first second, two in the second, three in the third.
    std::fs::write(&file, "500\n1250\n1750\n2100\n2500\n2900\n3000\n").unwrap();
    let text = SPEC.replace(r#""4g-lte", "3g-hspa""#, &format!("{:?}", file.display().to_string()));
    let mut spec: SweepSpec = toml::from_str(&format!("stride = \"1 s\"\n{text}")).unwrap();
    let prepared = spec.prepare().unwrap();
    let first_second = |seed| {
        let (_, trace) = prepared.source(0, seed);
        trace.down.busy_ms().filter(|(ms, _)| *ms <= 1_000).map(|(_, count)| count).sum::<u64>()
    };
    assert_eq!([0, 1].map(first_second), [1, 2]);
    let with = prepared.identity.clone();
    spec.stride = None;
    assert_ne!(spec.prepare().unwrap().identity, with, "a journal of one is not continued with the other");
}
