//! `cellerator-query`: SQL over captures and over the datasets of `cellerator analyze --parquet`.
//!
//! Captures are analyzed by the `cellerator` command into a dataset that is removed in the end;
//! queries run in this process with DataFusion. Nothing is fetched from anywhere.

mod tables;

use std::ffi::OsStr;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};

use clap::{Parser, ValueEnum};
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::csv::WriterBuilder;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::json::LineDelimitedWriter;
use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::error::DataFusionError;
use datafusion::prelude::SessionContext;
use tokio::process::Command;
use tokio::signal::unix::{SignalKind, signal};

/// SQL over captures, and over the Parquet tables of `cellerator analyze`.
#[derive(Parser)]
#[command(version)]
struct Args {
    /// The query; `-` reads it from standard input. `SHOW TABLES` lists the tables,
    /// `DESCRIBE flows` the columns of one
    sql: String,
    /// Captures, Parquet files, datasets of `cellerator analyze --parquet`, or folders of captures
    #[arg(required = true, value_name = "FILE")]
    sources: Vec<PathBuf>,
    /// How the result is printed
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
    /// The program that analyzes captures [default: `cellerator` beside this one, else in the path]
    #[arg(long, value_name = "PROGRAM")]
    cellerator: Option<PathBuf>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Format {
    /// For people
    Table,
    /// Comma separated, with a header line
    Csv,
    /// One object per line
    Json,
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("cellerator-query: {message}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<(), String> {
    let sql = match args.sql.as_str() {
        "-" => {
            let mut text = String::new();
            io::stdin().read_to_string(&mut text).map_err(|error| format!("standard input: {error}"))?;
            text
        }
        sql => sql.to_owned(),
    };
    if let Some(missing) = args.sources.iter().find(|source| !source.exists()) {
        return Err(format!(
            "{}: no such file: name a capture, a Parquet file or a dataset",
            missing.display()
        ));
    }
    let runtime = tokio::runtime::Runtime::new().map_err(|error| format!("no threads: {error}"))?;
    let answer = runtime.block_on(async {
        let (mut interrupt, mut end) = signals()?;
        // Removed when it goes, also after a failure or a signal.
        let made =
            tempfile::tempdir().map_err(|error| format!("no folder for tables can be made: {error}"))?;
        // What loses the race is dropped, and a program that it started with it.
        tokio::select! {
            answer = answer(args, &sql, made.path()) => answer,
            _ = interrupt.recv() => Err("interrupted".to_owned()),
            _ = end.recv() => Err("ended by a signal".to_owned()),
        }
    });
    runtime.shutdown_background();
    let (batches, schema) = answer?;
    print(args.format, &batches, &schema)
}

fn signals() -> Result<(tokio::signal::unix::Signal, tokio::signal::unix::Signal), String> {
    let both = || Ok((signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?));
    both().map_err(|error: io::Error| format!("signals cannot be awaited: {error}"))
}

/// The rows that the query finds, and their columns; `folder` gets the tables of captures.
async fn answer(args: &Args, sql: &str, folder: &Path) -> Result<(Vec<RecordBatch>, SchemaRef), String> {
    let (stored, captures): (Vec<&PathBuf>, Vec<&PathBuf>) =
        args.sources.iter().partition(|source| tables::is_stored(source));
    let mut folders: Vec<PathBuf> = stored.into_iter().cloned().collect();
    if !captures.is_empty() {
        analyze(&program(args), &captures, folder).await?;
        folders.push(folder.to_owned());
    }
    let context = tables::context(&folders).await?;
    query(&context, sql).await
}

/// The result and its columns; also a result without rows has them.
async fn query(context: &SessionContext, sql: &str) -> Result<(Vec<RecordBatch>, SchemaRef), String> {
    let frame = context.sql(sql).await.map_err(said)?;
    let schema = std::sync::Arc::new(frame.schema().as_arrow().clone());
    Ok((frame.collect().await.map_err(said)?, schema))
}

/// One line; of an unknown column's error the rest are the names of all others.
fn said(error: DataFusionError) -> String {
    let text = error.strip_backtrace();
    match text.split_once("\nValid fields are ") {
        Some((first, _)) => format!("{first} `DESCRIBE TABLE` lists the columns of a table"),
        None => text.replace('\n', " "),
    }
}

/// The analyzing program: beside this one, if it is there.
fn program(args: &Args) -> PathBuf {
    let beside = || {
        let own = std::env::current_exe().ok()?;
        Some(own.with_file_name("cellerator")).filter(|program| program.exists())
    };
    args.cellerator.clone().or_else(beside).unwrap_or_else(|| "cellerator".into())
}

/// Puts the tables of the captures into `folder`.
async fn analyze(program: &Path, captures: &[&PathBuf], folder: &Path) -> Result<(), String> {
    let mut command = Command::new(program);
    command.args(["analyze", "--csv", "/dev/null", "--parquet"]).arg(folder).arg("--").args(captures);
    // What it says of broken files is for the user.
    let ended = command.stdin(Stdio::null()).stdout(Stdio::null()).kill_on_drop(true).status().await;
    let ended = ended.map_err(|error| {
        format!(
            "{}: cannot be run to analyze captures ({error}): build it, or name it with --cellerator",
            program.display()
        )
    })?;
    match ended.success() {
        true => Ok(()),
        false => Err(format!("{} could not analyze the captures", program.display())),
    }
}

fn print(format: Format, batches: &[RecordBatch], schema: &SchemaRef) -> Result<(), String> {
    let mut text = Vec::new();
    // No rows still have columns.
    let empty = [RecordBatch::new_empty(schema.clone())];
    let shown = if batches.is_empty() { &empty } else { batches };
    match format {
        Format::Table => {
            let table = pretty_format_batches(shown).map_err(|error| error.to_string())?;
            text.extend(format!("{table}\n").into_bytes());
        }
        Format::Csv => {
            let mut writer = WriterBuilder::new().with_header(true).build(&mut text);
            for batch in shown {
                writer.write(batch).map_err(|error| error.to_string())?;
            }
        }
        Format::Json => {
            let mut writer = LineDelimitedWriter::new(&mut text);
            for batch in batches {
                writer.write(batch).map_err(|error| error.to_string())?;
            }
            writer.finish().map_err(|error| error.to_string())?;
        }
    }
    let mut out = io::stdout().lock();
    match out.write_all(&text).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(format!("writing failed: {error}")),
        _ => Ok(()),
    }
}

/// True for names that end in `ending`.
fn ends_in(path: &Path, ending: &str) -> bool {
    path.extension().and_then(OsStr::to_str).is_some_and(|found| found.eq_ignore_ascii_case(ending))
}
