//! `cellerator reproduce`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use ::reproduce::{
    Context, Experiment, Maker, ReproduceError, Reproduction, Step, Store, Where, all, chosen, fingerprint,
    html, in_words, lab_markdown, markdown,
};
use anyhow::{Context as _, Result, anyhow, bail};
use io::{Clock, Signals};
use lab::{Instance, Runner};
use scenario::results::MadeBy;

use crate::interruption::{self, Interruption};
use crate::output::Words;
use crate::progress::Line;
use crate::{error_line, writable};

/// Arguments of `cellerator reproduce`.
#[derive(clap::Args)]
pub struct Args {
    /// Experiments by name (--list shows them), or a paper by its key (`ma`)
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Run all experiments; says beforehand how long they take
    #[arg(long, conflicts_with = "names")]
    all: bool,
    /// List the experiments and how long each takes in the simulator and in the lab; run none
    #[arg(long)]
    list: bool,
    /// Use kernel TCP in namespaces, in real time, for the experiments that exist there, beside the same
    /// scenario files in virtual time (as root)
    #[arg(long)]
    lab: bool,
    /// Folder of the results: one JSON document per experiment (schemas/reproduction.schema.json), and the
    /// page
    #[arg(long, value_name = "DIR", default_value = "out/reproduction")]
    out: PathBuf,
    /// Keep results in --out that this program made of the same scenario files: continues after an
    /// interruption, experiment by experiment
    #[arg(long)]
    resume: bool,
    /// Run nothing. Make the pages again from the results in --out (with --lab the page of the lab)
    #[arg(long, conflicts_with_all = ["resume", "threads"])]
    pages: bool,
    /// Write the page to this file [default: reproduction.html in --out]
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write the Markdown page to this file, and its pictures to a folder of the same name. With --lab it
    /// is the page of the lab, otherwise that of the simulator [default: reproduction.md or
    /// reproduction-lab.md in --out]
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
    /// Also write the simulator's captures to this folder, one file per run and host, for `cellerator
    /// analyze`
    #[arg(long, value_name = "DIR", conflicts_with_all = ["lab", "pages"])]
    captures: Option<PathBuf>,
    /// Use the scenario files below this folder instead of the built-in ones
    #[arg(long, value_name = "DIR")]
    experiments: Option<PathBuf>,
    /// With --lab: take runs with several radios from the result files in this folder, which `cellerator lab
    /// multipath --json` wrote, and run the rest
    #[arg(long, value_name = "DIR", requires = "lab")]
    measured: Option<PathBuf>,
    /// Runs at the same time; does not change the results [default: the number of processors]
    #[arg(long)]
    threads: Option<usize>,
}

/// Runs `cellerator reproduce`; an error is one clear line: what, where, what to do.
pub fn main(args: &Args) -> Result<ExitCode> {
    let has_choice = args.all || args.list || args.pages || !args.names.is_empty();
    if !has_choice {
        bail!(
            "reproduce: name an experiment, a paper (ma, wa, mp, ev, dr) or --all; --list shows what there is"
        );
    }
    let wanted = if args.all || args.names.is_empty() { all() } else { chosen(&args.names)? };
    if args.list {
        print!("{}", list(&wanted, Words::default().columns())?);
        return Ok(ExitCode::SUCCESS);
    }
    try_outputs(args)?;
    let store = Store::open(&args.out)?;
    let interruption = if args.lab { Interruption::listen_once()? } else { Interruption::listen()? };
    let end = match (args.pages, args.lab) {
        (true, _) => None,
        (false, true) => in_lab(args, &wanted, &store, interruption)?,
        (false, false) => {
            let engine_of = |case: &scenario::Case| crate::sim::engine(case);
            let made_by = MadeBy { runner: "sim".to_owned(), ..MadeBy::default() };
            let place = Where::Sim { threads: threads(args), engine_of: &engine_of };
            run(args, &wanted, (&store, interruption), place, made_by)?
        }
    };
    if let Some(end) = end.as_ref().filter(|end| end.finished == 0) {
        eprintln!("cellerator: {}; --resume goes on with the results in --out", end.line());
        return Ok(interruption.code());
    }
    let line = end.as_ref().map(|end| format!("This was {}.", end.line()));
    let written = pages(args, &store, &wanted, line.as_deref())?;
    // A missed aim is a result, not a failure.
    println!("{} of {} aims reached", written.passed, written.aims);
    let Some(end) = end else { return Ok(ExitCode::SUCCESS) };
    interruption::tell(
        &format!("{}; --resume goes on", end.line()),
        written.files.iter().map(PathBuf::as_path),
    );
    Ok(interruption.code())
}

/// Progress of experiments that the user ended.
struct Ended {
    finished: usize,
    of: usize,
    experiment: &'static str,
}

impl Ended {
    fn line(&self) -> String {
        format!("interrupted after {} of {} experiments, in {}", self.finished, self.of, self.experiment)
    }
}

/// Refuses at once what could not be written in the end.
fn try_outputs(args: &Args) -> Result<()> {
    writable::folder(&args.out)
        .map_err(|error| anyhow!("{}; choose another folder by --out", error_line(&error)))?;
    let pages = [&args.html, &args.markdown].into_iter().flatten();
    pages.map(PathBuf::as_path).try_for_each(writable::file)?;
    writable::folder(&pictures_of(&markdown_of(args)))?;
    args.captures.as_deref().map(writable::folder).transpose()?;
    Ok(())
}

/// Path of the Markdown page.
fn markdown_of(args: &Args) -> PathBuf {
    let name = if args.lab { "reproduction-lab.md" } else { "reproduction.md" };
    args.markdown.clone().unwrap_or_else(|| args.out.join(name))
}

/// The folder of a Markdown page's pictures.
fn pictures_of(markdown: &Path) -> PathBuf {
    markdown.with_file_name(markdown.file_stem().unwrap_or_else(|| "reproduction".as_ref()))
}

fn threads(args: &Args) -> usize {
    args.threads.unwrap_or_else(io::sched::cpu_count).max(1)
}

/// A line for each; what it shows stands behind where that fits.
fn list(experiments: &[&Experiment], columns: usize) -> Result<String> {
    let line =
        |name: &str, place: &str, sim: &str, lab: &str| format!("{name:<23} {place:<27} {sim:>7} {lab:>7}");
    let heading = line("experiment", "paper", "sim", "lab");
    let titles = experiments.iter().map(|e| Ok(e.prose()?.title)).collect::<Result<Vec<_>>>()?;
    let longest = titles.iter().map(|title| title.chars().count()).max().unwrap_or(0);
    let has_titles = heading.chars().count() + 2 + longest <= columns;
    let titled =
        |line: String, title: &str| if has_titles { format!("{line}  {title}\n") } else { line + "\n" };
    let mut lines = titled(heading, "what it shows");
    for (e, title) in experiments.iter().zip(&titles) {
        let lab = e.lab.seconds().map_or("–".to_owned(), in_words);
        let place = format!("[{}] {}", e.paper.key(), e.part);
        lines += &titled(line(e.name, &place, &in_words(e.seconds), &lab), title);
    }
    let lab = experiments.iter().filter_map(|e| e.lab.seconds()).sum();
    let sim = in_words(experiments.iter().map(|e| e.seconds).sum());
    let all = format!("{} experiments", experiments.len());
    lines += &titled(line("all", &all, &sim, &in_words(lab)), "");
    if !has_titles {
        lines += "(not shown for want of width: what each shows)\n";
    }
    Ok(lines)
}

fn in_lab(
    args: &Args,
    wanted: &[&'static Experiment],
    store: &Store,
    interruption: &Interruption,
) -> Result<Option<Ended>> {
    let there: Vec<&'static Experiment> =
        wanted.iter().copied().filter(|experiment| experiment.lab.seconds().is_some()).collect();
    for experiment in wanted {
        if experiment.lab.seconds().is_none() {
            let why = experiment.prose()?.not_in_lab.unwrap_or_default();
            eprintln!("  {} is the simulator's alone: {why}", experiment.name);
        }
    }
    if there.is_empty() {
        return Ok(None);
    }
    let signals = Signals::terminating()?;
    let instance = Instance::register(None, "reproduce")?;
    let program = program()?;
    let made_by = lab::made_by(env!("CARGO_PKG_VERSION"), "");
    let (traces, captures) = (PathBuf::from("."), None);
    let runner = Runner { instance: &instance, signals: &signals, program, traces, captures };
    let engine_of = |case: &scenario::Case| crate::sim::engine(case);
    let measured = args.measured.as_deref();
    let place = Where::Lab { runner: &runner, threads: threads(args), engine_of: &engine_of, measured };
    run(args, &there, (store, interruption), place, made_by)
}

fn program() -> Result<PathBuf> {
    std::env::current_exe().context("cannot find this program's own file")
}

fn run(
    args: &Args,
    wanted: &[&'static Experiment],
    (store, interruption): (&Store, &Interruption),
    place: Where<'_>,
    made_by: MadeBy,
) -> Result<Option<Ended>> {
    let path = program()?;
    let own = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let cellerator = env!("CARGO_PKG_VERSION").to_owned();
    let is_lab = args.lab;
    let processor = is_lab.then(|| bench::Machine::here().processor);
    let mut maker =
        Maker { made_by: MadeBy { cellerator, ..made_by }, program: fingerprint(&own), processor };
    let folder = args.experiments.as_deref();
    let mut left = Vec::new();
    for experiment in wanted {
        let kept = if args.resume { store.load(experiment.name, is_lab)? } else { None };
        let is_current = kept.map(|result| result.is_current(experiment, folder, &maker)).transpose()?;
        if is_current == Some(true) {
            eprintln!("  {} is there already", experiment.name);
        } else {
            left.push(*experiment);
        }
    }
    let seconds = |e: &Experiment| if is_lab { e.lab.seconds().unwrap_or(0) } else { e.seconds };
    let total: u32 = left.iter().map(|e| seconds(e)).sum();
    let began = Clock::now();
    if left.is_empty() {
        return Ok(None);
    }
    let noun = if left.len() == 1 { "experiment" } else { "experiments" };
    eprintln!("{} {noun}, about {}", left.len(), in_words(total));
    for (number, experiment) in left.iter().enumerate() {
        eprintln!(
            "[{}/{}] {}: [{}] {}, {} (about {})",
            number + 1,
            left.len(),
            experiment.name,
            experiment.paper.key(),
            experiment.part,
            experiment.prose()?.title,
            in_words(seconds(experiment))
        );
        let line = Line::of_words();
        let show = |step: &Step| line.say(format!("{} of {} runs: {}", step.done, step.of, step.case));
        let context = Context::new(experiment, place, folder, &show)
            .with_captures(args.captures.as_deref())
            .until(interruption.flag());
        maker.made_by.command =
            format!("cellerator reproduce {}{}", experiment.name, if is_lab { " --lab" } else { "" });
        let experiment_began = Clock::now();
        let made = Reproduction::make(experiment, context, &maker);
        drop(line);
        if let Err(ReproduceError::Interrupted { .. }) = made {
            let (finished, of) = (wanted.len() - left.len() + number, wanted.len());
            return Ok(Some(Ended { finished, of, experiment: experiment.name }));
        }
        let mut result = made?;
        // What virtual time takes belongs to no result: it would differ from run to run.
        let took = Clock::now().saturating_since(experiment_began);
        result.took_s = is_lab.then(|| took.as_secs() as u32);
        tell(&result);
        store.save(&result)?;
    }
    eprintln!("  took {}", in_words(Clock::now().saturating_since(began).as_secs() as u32));
    Ok(None)
}

/// Prints the outcome of an experiment on the terminal.
fn tell(result: &Reproduction) {
    println!("{}: {}", result.experiment, result.outcome.we_see);
    for check in &result.outcome.checks {
        println!("  {} {}: {}", if check.passed { "✓" } else { "✗" }, check.claim, check.numbers());
    }
    for run in &result.runs {
        for problem in run.problems.iter().chain(&run.distrusted) {
            println!("  {}, case {}, seed {}: {problem}", run.scenario, run.case, run.seed);
        }
    }
}

/// Pages over all stored results.
struct Pages {
    files: [PathBuf; 2],
    /// Aims of the wanted experiments that were reached.
    passed: usize,
    /// All of them.
    aims: usize,
}

/// Writes the pages over all stored results, with the line `interrupted` if there is one.
fn pages(
    args: &Args,
    store: &Store,
    wanted: &[&'static Experiment],
    interrupted: Option<&str>,
) -> Result<Pages> {
    let experiments = all();
    let mut results = Vec::new();
    for experiment in &experiments {
        for is_lab in [false, true] {
            results.extend(store.told(experiment, is_lab)?);
        }
    }
    if results.is_empty() {
        bail!("{}: there are no results yet: run an experiment first", args.out.display());
    }
    let is_there = |experiment: &&Experiment| results.iter().any(|r| r.experiment == experiment.name);
    if let Some(missing) =
        wanted.iter().filter(|_| args.pages && !args.names.is_empty()).find(|e| !is_there(e))
    {
        let (out, name) = (args.out.display(), missing.name);
        bail!("{out}: there is no result of {name}: run `cellerator reproduce {name}` first");
    }
    let page = args.html.clone().unwrap_or_else(|| args.out.join("reproduction.html"));
    write(&page, &html(&experiments, &results, interrupted)?)?;
    let path = markdown_of(args);
    let folder = pictures_of(&path);
    let stem = folder.file_name().map_or_else(|| "reproduction".into(), |name| name.to_string_lossy());
    let write_page = if args.lab { lab_markdown } else { markdown };
    let document = write_page(&experiments, &results, &stem, interrupted)?;
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    for (name, picture) in &document.pictures {
        let path = folder.join(name);
        fs::write(&path, picture).with_context(|| format!("cannot write {}", path.display()))?;
    }
    write(&path, &document.text)?;
    let own = |result: &&Reproduction| wanted.iter().any(|e| e.name == result.experiment);
    let (passed, aims) = results
        .iter()
        .filter(own)
        .map(Reproduction::score)
        .fold((0, 0), |(passed, all), (own_passed, own_all)| (passed + own_passed, all + own_all));
    Ok(Pages { files: [page, path], passed, aims })
}

fn write(path: &Path, text: &str) -> Result<()> {
    let parent = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::create_dir_all(parent).with_context(|| format!("cannot create {}", parent.display()))?;
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
    eprintln!("  wrote {}", path.display());
    Ok(())
}
