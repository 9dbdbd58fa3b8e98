use super::*;
use crate::all;

fn maker() -> Maker {
    let made_by = MadeBy { cellerator: "1.2.3".to_owned(), runner: "sim".to_owned(), ..MadeBy::default() };
    Maker { made_by, program: "abc".to_owned(), processor: None }
}

/// A result of the first experiment as the simulator's files of it are.
fn result() -> Reproduction {
    let maker = maker();
    let used = |file: &crate::BuiltIn| UsedScenario {
        file: file.path.to_owned(),
        hash: fingerprint(file.text.as_bytes()),
        seed: 1,
        description: String::new(),
        text: file.text.to_owned(),
    };
    Reproduction {
        schema: SCHEMA.to_owned(),
        experiment: all()[0].name.to_owned(),
        made_by: maker.made_by,
        program: maker.program,
        processor: None,
        took_s: None,
        scenarios: all()[0].files.iter().filter(|file| !file.path.contains("-lab")).map(used).collect(),
        links: Vec::new(),
        outcome: Outcome::default(),
        runs: Vec::new(),
    }
}

#[test]
fn a_result_is_current_until_program_version_or_scenario_change() {
    let (experiment, result) = (all()[0], result());
    assert!(result.is_current(experiment, None, &maker()).unwrap());
    let other_program = Maker { program: "abd".to_owned(), ..maker() };
    assert!(!result.is_current(experiment, None, &other_program).unwrap());
    let mut other_version = maker();
    other_version.made_by.cellerator = "1.2.4".to_owned();
    assert!(!result.is_current(experiment, None, &other_version).unwrap());
    // The same file from a folder, first as it is, then with one more comment.
    let folder = tempfile::tempdir().unwrap();
    for file in experiment.files {
        let path = folder.path().join(file.path.strip_prefix("experiments/").unwrap());
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, file.text).unwrap();
    }
    assert!(result.is_current(experiment, Some(folder.path()), &maker()).unwrap());
    let first = folder.path().join(experiment.files[0].path.strip_prefix("experiments/").unwrap());
    fs::write(&first, format!("{}# more\n", experiment.files[0].text)).unwrap();
    assert!(!result.is_current(experiment, Some(folder.path()), &maker()).unwrap());
    fs::remove_file(&first).unwrap();
    assert!(result.is_current(experiment, Some(folder.path()), &maker()).is_err());
}

/// The simulator never reads the lab's shorter files, nor the lab the longer ones: a result made of its
/// own is current.
#[test]
fn files_that_were_not_used_do_not_count() {
    let experiment = all()[0];
    let is_used = |file: &str| result().scenarios.iter().any(|used| used.file == file);
    assert!(experiment.files.iter().any(|file| !is_used(file.path)), "an experiment with a file for the lab");
    let mut result = result();
    assert!(result.is_current(experiment, None, &maker()).unwrap());
    // A file that the experiment no longer has.
    result.scenarios[0].file = "experiments/ma/gone.toml".to_owned();
    assert!(!result.is_current(experiment, None, &maker()).unwrap());
}

#[test]
fn what_is_stored_is_found_and_what_is_broken_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    let result = result();
    assert!(store.load(&result.experiment, false).unwrap().is_none());
    let path = store.save(&result).unwrap();
    assert_eq!(store.load(&result.experiment, false).unwrap().unwrap().scenarios, result.scenarios);
    assert!(store.load(&result.experiment, true).unwrap().is_none(), "the lab's is another");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace(SCHEMA, "cellerator/reproduction/0")).unwrap();
    let message = store.load(&result.experiment, false).unwrap_err().to_string();
    assert!(message.contains("reproduction/0") && message.contains("delete it"), "{message}");
    fs::write(&path, "{").unwrap();
    assert!(store.load(&result.experiment, false).is_err());
}

#[test]
fn fingerprints_differ() {
    assert_eq!(fingerprint(b""), "cbf29ce484222325");
    assert_ne!(fingerprint(b"a"), fingerprint(b"b"));
}

/// A run of the lab: what its goodput was there and in virtual time, and how late the emulator was.
fn lab_run(case: &str, goodput: Option<f64>, simulated: Option<f64>, late: Option<f64>) -> RunRecord {
    RunRecord {
        scenario: "s".to_owned(),
        case: case.to_owned(),
        seed: 1,
        goodput_mbps: goodput,
        simulated_goodput_mbps: simulated,
        utilisation: None,
        queue_p95_ms: None,
        log_hash: None,
        late_p99_us: late,
        late_p50_us: None,
        late_max_us: None,
        distrusted: None,
        repeated: None,
        skipped: None,
        problems: Vec::new(),
    }
}

#[test]
fn agreement_is_of_runs_that_have_both_values() {
    let mut result = result();
    result.runs = vec![
        lab_run("a", Some(3.0), Some(2.0), Some(10.0)),
        lab_run("b", Some(1.0), Some(2.0), Some(90.0)),
        lab_run("c", Some(1.0), None, Some(20.0)),
        lab_run("d", None, Some(1.0), None),
        lab_run("e", Some(1.0), Some(0.0), None),
    ];
    assert_eq!(result.agreement(), [0.5, 1.5]);
    assert!((result.latest_us() - 90.0).abs() < 1e-12);
}

#[test]
fn skipped_cases_are_gathered_by_their_reason() {
    let mut result = result();
    let skipped = |case: &str, why: &str| RunRecord {
        skipped: Some(why.to_owned()),
        ..lab_run(case, None, None, None)
    };
    result.runs =
        vec![skipped("a", "x"), skipped("b", "y"), lab_run("c", None, None, None), skipped("d", "x")];
    assert_eq!(result.skipped(), [("x", vec!["a", "d"]), ("y", vec!["b"])]);
}

#[test]
fn a_record_says_which_runner_made_it() {
    let scenario = "name = \"s\"\n[[case]]\nname = \"a\"\n";
    let scenario = scenario::Scenario::from_toml("s.toml", scenario).unwrap();
    let runs = crate::given::runs(&scenario, &|_, _, _| Some(crate::given::Made::transfer(5.0, 20.0)));
    let mut result = runs[0].result.clone();
    let lab = RunRecord::of("s", &result);
    assert_eq!((lab.goodput_mbps, lab.queue_p95_ms, lab.late_p99_us), (Some(5.0), Some(20.0), Some(0.0)));
    assert_eq!((lab.log_hash, lab.distrusted), (None, None));
    result.doubts = vec!["late".to_owned(), "later".to_owned()];
    let simulation = scenario::results::Simulation { log_hash: "abc".to_owned(), ..Default::default() };
    result.simulation = Some(simulation);
    let simulated = RunRecord::of("s", &result);
    assert_eq!((simulated.log_hash.as_deref(), simulated.late_p99_us), (Some("abc"), None));
    assert_eq!(simulated.distrusted.as_deref(), Some("late; later"));
}

/// The experiment's first files with a download of 100 KB in place of what they have, below a folder.
fn small_figure_2() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let text = all()[1].files[0].text.replace("15 MB", "100 KB");
    fs::create_dir_all(folder.path().join("ma")).unwrap();
    fs::write(folder.path().join("ma/figure-2.toml"), text).unwrap();
    folder
}

/// A whole experiment in virtual time, without an accelerator: run, told, stored, read back and told again.
#[test]
fn an_experiment_is_made_told_and_stored() {
    let experiment = all()[1];
    assert_eq!(experiment.name, "ma-figure-2");
    let folder = small_figure_2();
    let place = crate::Where::Sim { threads: 1, engine_of: &|_| Ok(None) };
    let steps = std::sync::Mutex::new(Vec::new());
    let note = |step: &crate::Step| steps.lock().unwrap().push((step.done, step.of, step.case.clone()));
    let context = Context::new(experiment, place, Some(folder.path()), &note);
    let mut made = Reproduction::make(experiment, context, &maker()).unwrap();
    let wanted =
        [(1, 3, "CUBIC".to_owned()), (2, 3, "accelerated".to_owned()), (3, 3, "adaptive".to_owned())];
    assert_eq!(*steps.lock().unwrap(), wanted);
    assert_eq!((made.runs.len(), made.scenarios.len(), made.links.len()), (3, 1, 1));
    assert!(made.runs.iter().all(|run| run.problems.is_empty() && run.log_hash.is_some()));
    // Without an accelerator all three are the same: no gain, and adaptive is as good.
    assert_eq!(made.score(), (1, 2));
    assert!(made.outcome.we_see.contains("a factor of 1.0"), "{}", made.outcome.we_see);
    assert_eq!(made.outcome.figures[0].title, experiment_title(experiment));
    let store = Store::open(&folder.path().join("out")).unwrap();
    store.save(&made).unwrap();
    let told = store.told(experiment, false).unwrap().unwrap();
    assert_eq!(told.outcome, made.outcome);
    // What it says comes from its facts, not from what it said before.
    made.outcome.we_see = "Something else.".to_owned();
    made.tell(experiment).unwrap();
    assert_eq!(told.outcome, made.outcome);
}

/// The title of an experiment's first figure, as its text has it.
fn experiment_title(experiment: &Experiment) -> String {
    let heading = experiment.prose.text.lines().find(|line| line.starts_with("## Figure "));
    heading.and_then(|line| line.split_once(": ")).map_or(String::new(), |(_, title)| title.to_owned())
}

#[test]
fn results_do_not_depend_on_how_many_run_at_the_same_time() {
    let folder = small_figure_2();
    let made = |threads| {
        let place = crate::Where::Sim { threads, engine_of: &|_| Ok(None) };
        let context = Context::new(all()[1], place, Some(folder.path()), &|_| {});
        let made = Reproduction::make(all()[1], context, &maker()).unwrap();
        serde_json::to_string(&made).unwrap()
    };
    assert_eq!(made(1), made(2));
}

#[test]
fn what_is_interrupted_is_said_to_be() {
    let folder = small_figure_2();
    let place = crate::Where::Sim { threads: 1, engine_of: &|_| Ok(None) };
    let is_over = std::sync::atomic::AtomicBool::new(true);
    let context = Context::new(all()[1], place, Some(folder.path()), &|_| {}).until(&is_over);
    let error = Reproduction::make(all()[1], context, &maker()).unwrap_err();
    assert_eq!(error.to_string(), "ma-figure-2: interrupted");
}

#[test]
fn an_engine_that_cannot_be_made_names_its_case() {
    let folder = small_figure_2();
    let place = crate::Where::Sim { threads: 1, engine_of: &|case| Err(format!("no {}", case.name)) };
    let context = Context::new(all()[1], place, Some(folder.path()), &|_| {});
    let said = Reproduction::make(all()[1], context, &maker()).unwrap_err().to_string();
    assert_eq!(said, "ma-figure-2: case `CUBIC`: no CUBIC");
}

#[test]
fn a_result_without_a_value_that_its_text_has_a_place_for_is_of_another_version() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    let mut older = result();
    older.experiment = "ma-figure-2".to_owned();
    older.made_by.runner = "lab".to_owned();
    store.save(&older).unwrap();
    let said = store.told(all()[1], true).unwrap_err().to_string();
    assert!(said.starts_with(&store.path("ma-figure-2", true).display().to_string()), "{said}");
    assert!(said.contains("run `cellerator reproduce ma-figure-2 --lab` again"), "{said}");
    assert!(store.told(all()[1], false).unwrap().is_none());
}
