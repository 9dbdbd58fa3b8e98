//! `cellerator trace`: capacity traces from and to files.

use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Error, Result, bail};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Subcommand, ValueEnum};
use figures::chart::{Chart, Width};
use link::{
    CsvColumns, Distribution, LinkDirection, Preset, PresetFit, RateProcess, RateUnit, Replay, Trace,
    TraceStats,
};
use scenario::Quantity;
use units::{Duration, Rate};

/// Arguments of `cellerator trace`.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Make a synthetic trace of a kind of cellular link, in Mahimahi's format
    Generate(Generate),
    /// Show the figures of each preset beside its intended ranges
    Presets(Presets),
    /// Show the figures of traces in Mahimahi's format
    Info(Info),
    /// Draw a trace in Mahimahi's format as an SVG
    Plot(Plot),
    /// Convert a trace from one format to another
    Convert(Convert),
    /// Replay traces through the link model in virtual time, and show how exactly it follows them
    Replay(ReplayArgs),
}

#[derive(clap::Args)]
struct Generate {
    /// Kind of link; leave it out with --redraw or --arma
    #[arg(value_parser = presets(), required_unless_present = "process")]
    preset: Option<Preset>,
    #[command(flatten)]
    process: ProcessArgs,
    #[command(flatten)]
    draw: Draw,
    /// Direction of the data
    #[arg(long, value_enum, default_value = "down")]
    direction: Way,
    /// File to write; `-` is standard output
    #[arg(short, long, default_value = "-", value_name = "FILE")]
    output: String,
}

/// A rate that is drawn anew at a fixed distance, instead of a kind of link.
#[derive(clap::Args)]
#[group(id = "process")]
struct ProcessArgs {
    /// Draw a new rate at every --every, evenly from LOW to HIGH, such as `1 Mbit/s..2 Mbit/s`
    #[arg(long, value_name = "LOW..HIGH", value_parser = low_high, group = "process", conflicts_with = "arma")]
    redraw: Option<(Rate, Rate)>,
    /// An ARMA process around this rate
    #[arg(long, value_name = "MEAN", group = "process")]
    arma: Option<Quantity<Rate>>,
    /// Time from draw to draw
    #[arg(long, value_name = "TIME", default_value = "200 ms")]
    every: Quantity<Duration>,
    /// Standard deviation of the ARMA process's noise [default: a tenth of its mean]
    #[arg(long, requires = "arma", value_name = "RATE")]
    deviation: Option<Quantity<Rate>>,
    /// Coefficients α₁,α₂,… of the ARMA process, in thousandths
    #[arg(long, requires = "arma", value_delimiter = ',', value_name = "N,N…", allow_hyphen_values = true)]
    alpha_permille: Vec<i32>,
    /// Coefficients β₁,β₂,… of the ARMA process, in thousandths
    #[arg(long, requires = "arma", value_delimiter = ',', value_name = "N,N…", allow_hyphen_values = true)]
    beta_permille: Vec<i32>,
    /// Highest rate of the ARMA process [default: twice its mean]
    #[arg(long, requires = "arma", value_name = "RATE")]
    peak: Option<Quantity<Rate>>,
}

impl ProcessArgs {
    fn process(&self) -> Option<RateProcess> {
        let every = self.every.0;
        if let Some((low, high)) = self.redraw {
            return Some(RateProcess::Redraw { every, from: Distribution::Uniform(low, high) });
        }
        let Quantity(mean) = self.arma?;
        let ppm = |values: &[i32]| values.iter().map(|value| i64::from(*value) * 1_000).collect();
        Some(RateProcess::Arma {
            every,
            mean,
            deviation: self.deviation.map_or(mean.mul_ratio(1, 10), |rate| rate.0),
            alphas_ppm: ppm(&self.alpha_permille),
            betas_ppm: ppm(&self.beta_permille),
            peak: self.peak.map_or(mean.mul_ratio(2, 1), |rate| rate.0),
        })
    }
}

fn low_high(text: &str) -> Result<(Rate, Rate)> {
    let (low, high) = text.split_once("..").context("expected LOW..HIGH, as 1 Mbit/s..2 Mbit/s")?;
    let [Quantity(low), Quantity(high)] = [low.trim().parse()?, high.trim().parse()?];
    Ok((low, high))
}

#[derive(clap::Args)]
struct Draw {
    /// Length of the trace in seconds, after which it repeats (1 to 86400)
    #[arg(long, default_value_t = 300, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    seconds: u64,
    /// Seed: the same seed gives the same trace everywhere
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

#[derive(clap::Args)]
struct Presets {
    /// Only this kind of link
    #[arg(value_parser = presets())]
    preset: Option<Preset>,
    #[command(flatten)]
    draw: Draw,
}

#[derive(clap::Args)]
struct Info {
    /// Files in Mahimahi's format; `-` is standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<String>,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
struct Plot {
    /// File in Mahimahi's format; `-` is standard input
    file: String,
    /// Heading of the plot [default: the file's name]
    #[arg(long)]
    title: Option<String>,
    /// SVG file to write; `-` is standard output
    #[arg(short, long, default_value = "-", value_name = "FILE")]
    output: String,
}

#[derive(clap::Args)]
struct Convert {
    /// File to read; `-` is standard input
    input: String,
    /// Format of the input
    #[arg(long, value_enum)]
    from: Format,
    /// Format of the output
    #[arg(long, value_enum, default_value = "mahimahi")]
    to: Format,
    /// CSV input: heading or number of the column with the time. Without it, rows are 1 s apart
    #[arg(long, value_name = "COLUMN")]
    time_column: Option<String>,
    /// CSV input: heading or number of the column with the rate
    #[arg(long, value_name = "COLUMN", required_if_eq("from", "csv"))]
    rate_column: Option<String>,
    /// CSV input: unit of the rate
    #[arg(long, value_enum, default_value = "mbps")]
    unit: Unit,
    /// Output as rates or CSV: width of a bin in ms
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=60_000), value_name = "MS")]
    bin: u64,
    /// File to write; `-` is standard output
    #[arg(short, long, default_value = "-", value_name = "FILE")]
    output: String,
}

#[derive(clap::Args)]
struct ReplayArgs {
    /// Files in Mahimahi's format; `-` is standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<String>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Way {
    /// Base station to client
    Down,
    /// Client to base station
    Up,
}

#[derive(Clone, Copy, ValueEnum)]
enum Format {
    /// A millisecond per line; each line is an opportunity for 1500 bytes
    Mahimahi,
    /// Lines of seconds and Mbit/s
    Rates,
    /// A line of headings, then a row per time
    Csv,
}

#[derive(Clone, Copy, ValueEnum)]
enum Unit {
    Bps,
    Kbps,
    Mbps,
    Gbps,
}

fn presets() -> impl TypedValueParser<Value = Preset> {
    PossibleValuesParser::new(Preset::ALL.map(Preset::name))
        .try_map(|name| Preset::from_name(&name).ok_or("no such preset"))
}

/// Largest deviation of a replay that counts as exact.
const REPLAY_ERROR_MAX: f64 = 0.002;

/// Runs `cellerator trace`; an error is one clear line: what, where, what to do.
pub fn main(args: Args) -> Result<ExitCode> {
    match args.command {
        Command::Generate(args) => generate(&args),
        Command::Presets(args) => show_presets(&args),
        Command::Info(args) => info(&args),
        Command::Plot(args) => plot(&args),
        Command::Convert(args) => convert(&args),
        Command::Replay(args) => replay(&args),
    }
}

fn generate(args: &Generate) -> Result<ExitCode> {
    let direction = match args.direction {
        Way::Down => LinkDirection::Down,
        Way::Up => LinkDirection::Up,
    };
    let trace = match (args.process.process(), args.preset) {
        (Some(_), Some(preset)) => {
            let preset = preset.name();
            bail!(
                "trace generate: {preset} and --redraw or --arma exclude each other: leave one of them out"
            );
        }
        (Some(process), None) => {
            process.trace(Duration::from_secs(args.draw.seconds), args.draw.seed).context("trace generate")?
        }
        (None, Some(preset)) => make(preset, direction, &args.draw)?,
        (None, None) => {
            bail!("trace generate: name a kind of link, or give --redraw or --arma");
        }
    };
    write_to(&args.output, &|out| trace.write_mahimahi(out))
}

fn make(preset: Preset, direction: LinkDirection, draw: &Draw) -> Result<Trace> {
    Ok(preset.generate(direction, Duration::from_secs(draw.seconds), draw.seed)?)
}

fn show_presets(args: &Presets) -> Result<ExitCode> {
    let mut text = String::new();
    for preset in Preset::ALL.into_iter().filter(|preset| args.preset.is_none_or(|only| only == *preset)) {
        let compare = |direction| {
            let stats = TraceStats::of(&make(preset, direction, &args.draw)?);
            Ok::<_, Error>(preset.compare(direction, &stats))
        };
        let (down, up) = (compare(LinkDirection::Down)?, compare(LinkDirection::Up)?);
        text += &format!(
            "{:28}{:>14}{:>10}{:>18}{:>10}\n",
            preset.name(),
            "down: range",
            "is",
            "up: range",
            "is"
        );
        for (down, up) in down.iter().zip(&up) {
            let (range, is) = cells(down);
            let (range_up, is_up) = cells(up);
            text += &format!("  {:26}{range:>14}{is:>10}{range_up:>18}{is_up:>10}\n", down.name);
        }
        text.push('\n');
    }
    text += "`–`: too few outages to tell.  `!`: out of range.\n";
    write_to("-", &|out| out.write_all(text.as_bytes()))
}

fn cells(row: &PresetFit) -> (String, String) {
    let value = row.value.map_or("–".to_owned(), |value| format!("{value:.2}"));
    let mark = if row.is_met() { " " } else { "!" };
    (format!("{}–{}", row.target.start(), row.target.end()), format!("{value}{mark}"))
}

fn info(args: &Info) -> Result<ExitCode> {
    let mut text = String::new();
    let mut rows = Vec::new();
    for file in &args.files {
        let stats = TraceStats::of(&read_mahimahi(file)?);
        if args.json {
            rows.push(serde_json::json!({ "file": file, "stats": stats }));
        } else {
            text += &described(file, &stats);
        }
    }
    if args.json {
        text = serde_json::to_string_pretty(&rows).context("figures as JSON")? + "\n";
    }
    write_to("-", &|out| out.write_all(text.as_bytes()))
}

fn described(file: &str, stats: &TraceStats) -> String {
    let bins = |b: &link::BinStats| {
        format!(
            "p5/50/95 {:.2}/{:.2}/{:.2} Mbit/s, variation {:.2}",
            b.p5_mbps, b.p50_mbps, b.p95_mbps, b.variation
        )
    };
    let s = stats;
    format!(
        "{file}\n  \
         length           {:.3} s, {} opportunities of 1500 bytes\n  \
         mean rate        {:.3} Mbit/s\n  \
         over 100 ms      {}, {:.1} % empty\n  \
         over 1 s         {}\n  \
         autocorrelation  0.1 s {:.2}, 1 s {:.2}, 5 s {:.2}\n  \
         busy ms          {:.1} %, {:.2} opportunities in each\n  \
         gaps             p50/95/99 {}/{}/{} ms, longest {} ms\n  \
         outages > 200 ms {} ({:.2} per minute), p50/95 {:.2}/{:.2} s\n",
        s.seconds,
        s.opportunities,
        s.mean_mbps,
        bins(&s.bins_100ms),
        s.empty_100ms_share * 100.0,
        bins(&s.bins_1s),
        s.autocorrelation_100ms,
        s.autocorrelation_1s,
        s.autocorrelation_5s,
        s.busy_share * 100.0,
        s.per_busy_ms,
        s.gap_ms_p50,
        s.gap_ms_p95,
        s.gap_ms_p99,
        s.gap_ms_max,
        s.outages,
        s.outages_per_min,
        s.outage_s_p50,
        s.outage_s_p95,
    )
}

fn plot(args: &Plot) -> Result<ExitCode> {
    let trace = read_mahimahi(&args.file)?;
    let title = args.title.as_deref().unwrap_or_else(|| args.file.rsplit('/').next().unwrap_or(&args.file));
    let chart = report::trace_chart(&trace, title);
    let chart = Chart { made_by: crate::outcome::command_line(), ..chart };
    let svg = chart.file(Width::Wide);
    write_to(&args.output, &|out| out.write_all(svg.as_bytes()))
}

fn convert(args: &Convert) -> Result<ExitCode> {
    let text = read(&args.input)?;
    let name = shown(&args.input);
    let trace = match args.from {
        Format::Mahimahi => Trace::parse_mahimahi(&text, name),
        Format::Rates => Trace::parse_rates(&text, name),
        Format::Csv => {
            let rate = args.rate_column.clone().context("--from csv needs --rate-column")?;
            let unit = match args.unit {
                Unit::Bps => RateUnit::Bps,
                Unit::Kbps => RateUnit::Kbps,
                Unit::Mbps => RateUnit::Mbps,
                Unit::Gbps => RateUnit::Gbps,
            };
            Trace::parse_csv(&text, name, &CsvColumns { time: args.time_column.clone(), rate, unit })
        }
    };
    let trace = trace?;
    write_to(&args.output, &|out| match args.to {
        Format::Mahimahi => trace.write_mahimahi(out),
        Format::Rates => trace.write_rates(out, args.bin),
        Format::Csv => trace.write_csv(out, args.bin),
    })
}

fn replay(args: &ReplayArgs) -> Result<ExitCode> {
    let mut text = format!("{:>12}{:>14}{:>14}{:>10}  trace\n", "length", "offered", "delivered", "error");
    let mut is_exact = true;
    for file in &args.files {
        let trace = Arc::new(read_mahimahi(file)?);
        let result = Replay::run(&trace).with_context(|| file.clone())?;
        is_exact &= result.error_share() <= REPLAY_ERROR_MAX;
        text += &format!(
            "{:>12}{:>14}{:>14}{:>9.4}%  {file}\n",
            trace.period().to_string(),
            result.offered.to_string(),
            result.delivered.to_string(),
            result.error_share() * 100.0
        );
    }
    text += "error: sum over 100 ms bins of |delivered - offered| over all that was offered; at most 0.2 % is wanted\n";
    let code = write_to("-", &|out| out.write_all(text.as_bytes()))?;
    Ok(if is_exact { code } else { ExitCode::FAILURE })
}

fn read_mahimahi(file: &str) -> Result<Trace> {
    Ok(Trace::parse_mahimahi(&read(file)?, shown(file))?)
}

fn shown(file: &str) -> &str {
    if file == "-" { "standard input" } else { file }
}

fn read(file: &str) -> Result<String> {
    let mut text = String::new();
    let result = if file == "-" {
        io::stdin().lock().read_to_string(&mut text)
    } else {
        File::open(file).and_then(|mut file| file.read_to_string(&mut text))
    };
    result.with_context(|| format!("cannot read {}", shown(file)))?;
    Ok(text)
}

/// Writes to a file or standard output. Whoever stops reading a pipe has what they wanted.
fn write_to(file: &str, write: &dyn Fn(&mut dyn Write) -> io::Result<()>) -> Result<ExitCode> {
    let result = if file == "-" {
        let mut out = BufWriter::new(io::stdout().lock());
        write(&mut out).and_then(|()| out.flush())
    } else {
        File::create(file).and_then(|file| {
            let mut out = BufWriter::new(file);
            write(&mut out).and_then(|()| out.flush())
        })
    };
    match result {
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => {}
        result => result.with_context(|| {
            format!("cannot write {}", if file == "-" { "standard output" } else { file })
        })?,
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        args: Args,
    }

    fn parse(line: &str) -> Result<Command> {
        let words = std::iter::once("trace").chain(line.split_whitespace());
        Ok(Cli::try_parse_from(words)?.args.command)
    }

    fn run(line: &str) -> Result<ExitCode> {
        main(Args { command: parse(line)? })
    }

    #[test]
    fn every_preset_is_known_and_others_are_refused_by_name() {
        for preset in Preset::ALL {
            assert!(parse(&format!("generate {} --seconds 5 --direction up", preset.name())).is_ok());
        }
        let message = parse("generate 6g").err().unwrap().to_string();
        assert!(message.contains("6g") && message.contains("4g-lte-drive"), "{message}");
        assert!(parse("generate 4g-lte --seconds 0").is_err());
    }

    #[test]
    fn csv_needs_to_know_the_rate_column() {
        assert!(parse("convert a.csv --from csv").err().unwrap().to_string().contains("--rate-column"));
        assert!(parse("convert a.csv --from csv --rate-column DL --unit kbps").is_ok());
    }

    #[test]
    fn a_file_that_cannot_be_read_is_named() {
        let message = crate::error_line(&run("info /nonexistent/a.down").unwrap_err());
        assert!(message.starts_with("cannot read /nonexistent/a.down: "), "{message}");
    }

    #[test]
    fn what_is_generated_is_read_again() -> Result<()> {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).display().to_string();
        let (trace, rates, again) = (path("a.down"), path("a.txt"), path("b.down"));
        run(&format!("generate 3g-evdo --seconds 20 --seed 7 -o {trace}"))?;
        run(&format!("convert {trace} --from mahimahi --to rates -o {rates}"))?;
        run(&format!("convert {rates} --from rates -o {again}"))?;
        run(&format!("plot {trace} -o {}", path("a.svg")))?;
        let (first, second) = (read_mahimahi(&trace)?, read_mahimahi(&again)?);
        assert_eq!(first, make(Preset::Evdo3g, LinkDirection::Down, &Draw { seconds: 20, seed: 7 })?);
        assert!(first.opportunities().abs_diff(second.opportunities()) <= 2);
        Ok(())
    }
}
