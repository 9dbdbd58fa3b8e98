use super::*;
use crate::all;

fn maker() -> Maker {
    let made_by = MadeBy { cellerator: "1.2.3".to_owned(), runner: "sim".to_owned(), ..MadeBy::default() };
    Maker { made_by, program: "abc".to_owned(), processor: None }
}

/// A result of the first experiment as the simulator's files of it are.
fn result() -> Reproduction {
    let maker = maker();
    let used = |file: &crate::ScenarioFile| UsedScenario {
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

fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("cellerator-reproduce-{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    folder
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
    let folder = folder("current");
    for file in experiment.files {
        let path = folder.join(file.path.strip_prefix("experiments/").unwrap());
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, file.text).unwrap();
    }
    assert!(result.is_current(experiment, Some(&folder), &maker()).unwrap());
    let first = folder.join(experiment.files[0].path.strip_prefix("experiments/").unwrap());
    fs::write(&first, format!("{}# more\n", experiment.files[0].text)).unwrap();
    assert!(!result.is_current(experiment, Some(&folder), &maker()).unwrap());
    fs::remove_file(&first).unwrap();
    assert!(result.is_current(experiment, Some(&folder), &maker()).is_err());
    fs::remove_dir_all(folder).unwrap();
}

/// The simulator never reads the lab's shorter files, nor the lab the longer ones: a result made of its own is current.
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
    let folder = folder("store");
    let store = Store::open(&folder).unwrap();
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
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn fingerprints_differ() {
    assert_eq!(fingerprint(b""), "cbf29ce484222325");
    assert_ne!(fingerprint(b"a"), fingerprint(b"b"));
}
