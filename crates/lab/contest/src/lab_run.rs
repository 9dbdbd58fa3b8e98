//! [`LabContest`]: the same line-up between real kernel TCP stacks, in namespaces and in real time.

use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use io::{Clock, Namespace, Signals, Waiter};
use lab::{AcceleratorCommand, Instance, Keep, LabError, Role, Session, server_address};
use link::{Percentiles, Summary};
use scenario::results::Interrupted;
use scenario::{Case, Family, Quantity};
use units::{Bytes, Duration};

use crate::contest::{mean_rate, trace_figures};
use crate::results::{Delays, Document, Run, TraceFigures};
use crate::traffic::{BULK_PORT, PING_PORT, Traffic};
use crate::{Contest, ContestError, Part, PathSettings, Scheme, Settings, TraceSource, Treatment};

/// Time after the run for which pings of its time are waited for.
const PATIENCE: Duration = Duration::from_secs(30);
/// Interval at which signals and the parts of the lab are looked at.
const TURN: Duration = Duration::from_millis(50);

/// Runs the bulk part of a contest in the lab `instance`, one run after the other.
#[derive(Debug)]
pub struct LabContest<'a> {
    /// Contest that is to be run.
    pub contest: &'a Contest,
    /// The lab's name and directory.
    pub instance: &'a Instance,
    /// Ends everything when one comes.
    pub signals: &'a Signals,
    /// The `cellerator` program, for the accelerator.
    pub program: PathBuf,
}

/// Measurements of one run.
struct Measured {
    radio: Summary,
    pings: Delays,
    unanswered: u64,
    problems: Vec<String>,
}

impl LabContest<'_> {
    /// Makes all runs; `progress` hears of each that ends. The limit is computed, as in the simulation.
    ///
    /// # Errors
    /// A scheme or a part that only the simulation has; a lab that cannot be built; an interruption leaves a
    /// document that says so.
    pub fn hold(&self, progress: &(dyn Fn(&str) + Sync)) -> Result<Document, ContestError> {
        let settings = &self.contest.settings;
        if settings.seeds.len() > 1 {
            let problem = "the lab makes each run once; several seeds are simulated";
            return Err(ContestError::setting("seeds", problem));
        }
        if settings.parts != [Part::Bulk] {
            let problem = "the lab has `bulk` only; short and mixed are simulated";
            return Err(ContestError::setting("part", problem));
        }
        let cases: Vec<Case> =
            self.contest.schemes.iter().map(|s| case(s, &settings.path)).collect::<Result<_, _>>()?;
        // Computed before: the lab wants the processors for itself.
        let mut document = self.contest.limits();
        let _loaded = self.load()?;
        match self.make_all(&cases, &mut document, progress) {
            Err(ContestError::Interrupted) => {
                let finished = document.traces.len() + document.runs.len();
                let of = self.contest.traces.len() * (1 + settings.buffers.len() * cases.len());
                document.interrupted = Some(Interrupted { finished, of });
            }
            made => made?,
        }
        Ok(document)
    }

    /// The congestion control in BPF, where a scheme is in the kernel and nobody has loaded it; it goes with the value.
    fn load(&self) -> Result<Option<congestion::ControlProgram>, ContestError> {
        let Some(scheme) = self.contest.schemes.iter().find(|one| one.treatment == Treatment::Kernel) else {
            return Ok(None);
        };
        let failed =
            |error: io::IoError| ContestError::Lab { run: scheme.label.clone(), problem: error.to_string() };
        let mut program = congestion::ControlProgram::load(&congestion::Setup::usual()).map_err(failed)?;
        match program.register() {
            Err(error) if error.is_already_there() => Ok(None),
            done => done.map(|()| Some(program)).map_err(failed),
        }
    }

    fn make_all(
        &self,
        cases: &[Case],
        document: &mut Document,
        progress: &(dyn Fn(&str) + Sync),
    ) -> Result<(), ContestError> {
        let settings = &self.contest.settings;
        for trace in self.contest.traces.iter().filter_map(|traces| traces.first()) {
            document.traces.push(self.idle(trace)?);
            progress(&format!("{}: idle ping", trace.name));
            for &buffer in &settings.buffers {
                for (scheme, case) in self.contest.schemes.iter().zip(cases) {
                    let queue = buffer.bytes(mean_rate(trace, settings.length), settings.path.base_rtt());
                    let name = format!("{}, {buffer}: {scheme}", trace.name);
                    let measured = self.measure(trace, queue, case, scheme, true);
                    let measured = measured.map_err(|error| failed(&name, &error))?;
                    let run = run(trace, (buffer.to_string(), queue), scheme, measured);
                    progress(&format!("{name}: {}", run.in_words()));
                    document.runs.push(run);
                }
            }
        }
        Ok(())
    }

    fn idle(&self, trace: &TraceSource) -> Result<TraceFigures, ContestError> {
        let (scheme, settings): (Scheme, _) = ("direct:cubic".parse()?, &self.contest.settings);
        let case = case(&scheme, &settings.path)?;
        let measured = self.measure(trace, Bytes::new(4_000_000), &case, &scheme, false);
        let measured = measured.map_err(|error| failed(&format!("{}: idle ping", trace.name), &error))?;
        Ok(trace_figures(trace, settings.length, &settings.path, measured.pings))
    }

    fn measure(
        &self,
        trace: &TraceSource,
        queue: Bytes,
        case: &Case,
        scheme: &Scheme,
        has_bulk: bool,
    ) -> Result<Measured, LabError> {
        let length = self.contest.settings.length;
        let Settings { ref seeds, ref path, .. } = self.contest.settings;
        let seed = seeds.first().copied().unwrap_or(1);
        let is_over = &AtomicBool::new(false);
        let line_up = crate::line_up::LineUp { trace, queue, scheme, path, seed, is_over };
        let command = line_up
            .engine()
            .map(|_| AcceleratorCommand::new(&self.program, case).with_feedback(scheme.feedback.is_some()));
        let mut session = Session::build(self.instance, case, command.as_ref())?;
        let server = session.network().namespace(Role::Server);
        let listen = |port: u16| {
            let address = server_address(Family::Ipv4);
            server.run(|| TcpListener::bind((address, port)))?.map_err(|e| socket_error(&e))
        };
        let listeners = (listen(PING_PORT)?, listen(BULK_PORT)?);
        let client = Namespace::open(session.network().namespace(Role::Client).name())?;
        // Last, so that the links' time begins together with the flows.
        session.begin(&line_up.plan(), Keep::Everything)?;
        let traffic =
            Traffic::start(listeners, &Arc::new(client), length, has_bulk).map_err(|e| socket_error(&e))?;
        self.wait(&mut session, &traffic)?;
        // While packets still move: the hosts close, and the accelerator has nothing left to give up.
        let (pings, unanswered, mut problems) = traffic.finish();
        let emulation = session.end()?;
        let from = emulation.links[2].start();
        let to = from + length;
        let offered = emulation.links[2].offered_bytes(from, to);
        let radio = Summary::from_records(&emulation.records[0], offered, from, to);
        problems.extend(emulation.judged(true).why_not);
        Ok(Measured { radio, pings: Percentiles::of(pings).into(), unanswered, problems })
    }

    /// Until the run is over and its pings are answered.
    fn wait(&self, session: &mut Session, traffic: &Traffic) -> Result<(), LabError> {
        let mut waiter = Waiter::new(Duration::ZERO)?;
        let end = Clock::now() + self.contest.settings.length;
        loop {
            let now = Clock::now();
            if now >= end && (traffic.unanswered() == 0 || now >= end + PATIENCE) {
                return Ok(());
            }
            if self.signals.take().is_some() {
                return Err(LabError::Interrupted);
            }
            session.check()?;
            waiter.wait(Some((now + TURN).min(end.max(now + Duration::from_millis(1)))))?;
        }
    }
}

fn failed(run: &str, error: &LabError) -> ContestError {
    match error {
        LabError::Interrupted => ContestError::Interrupted,
        error => ContestError::Lab { run: run.to_owned(), problem: error.to_string() },
    }
}

fn socket_error(error: &std::io::Error) -> LabError {
    LabError::Program { program: "contest".to_owned(), message: error.to_string() }
}

fn run(trace: &TraceSource, (buffer, queue): (String, Bytes), scheme: &Scheme, measured: Measured) -> Run {
    let Measured { radio, pings, unanswered, problems } = measured;
    let mut run = Run {
        trace: trace.name.clone(),
        buffer,
        buffer_bytes: queue.get(),
        scheme: scheme.label.clone(),
        ping_ms: pings,
        pings_unanswered: unanswered,
        problems,
        ..Run::default()
    };
    run.set_radio(&radio);
    run
}

/// The settings of the hosts for a scheme.
fn case(scheme: &Scheme, path: &PathSettings) -> Result<Case, ContestError> {
    let wrong = |problem: String| ContestError::Scheme { text: scheme.label.clone(), problem };
    if scheme.label.contains('?') {
        return Err(wrong("parameters of controllers can be changed in the simulation only".to_owned()));
    }
    let name = scheme.controller.name();
    let window =
        path.window_max.map_or_else(String::new, |max| format!(", \"--window-max\", \"{}\"", Quantity(max)));
    let (control, arguments) = match scheme.treatment {
        // The name that scenarios know it by.
        Treatment::Kernel => (congestion::KERNEL_NAME, String::new()),
        Treatment::Direct => (if name == "new-reno" { "reno" } else { name }, String::new()),
        Treatment::Accelerated => ("cubic", format!("arguments = [\"--controller\", \"{name}\"{window}]")),
        Treatment::Split | Treatment::Drwa => {
            return Err(wrong(format!("`{}` is simulated only", scheme.treatment.name())));
        }
    };
    let memory = memory(path);
    let text = format!(
        "name = \"contest\"\n[client]\ntcp_rmem = \"{memory}\"\n\
         [server]\ntcp_wmem = \"{memory}\"\ncongestion_control = \"{control}\"\n[accelerator]\n{arguments}\n"
    );
    toml::from_str(&text).map_err(|e| wrong(e.message().to_owned()))
}

/// Memory of the hosts' sockets: of twice the buffer Linux offers the buffer as window.
fn memory(path: &PathSettings) -> String {
    let most = (path.host_buffer.get() * 2).max(131_072);
    format!("4096 131072 {most}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemes_become_settings_of_hosts() {
        let path = PathSettings { window_max: Some(Bytes::new(8_000_000)), ..PathSettings::default() };
        let of = |text: &str| case(&text.parse().unwrap(), &path);
        let bbr = of("direct:bbr").unwrap();
        assert_eq!(bbr.server.congestion_control.unwrap().name(), "bbr");
        assert_eq!(bbr.client.rmem().unwrap(), "4096 131072 268435456");
        assert_eq!(of("direct:new-reno").unwrap().server.congestion_control.unwrap().name(), "reno");
        assert_eq!(of("kernel:adaptive").unwrap().server.congestion_control.unwrap().name(), "adaptive");
        let rate = of("accel:rate").unwrap();
        assert_eq!(rate.accelerator.run_arguments(), ["--controller", "rate", "--window-max", "8 MB"]);
        assert_eq!(rate.server.congestion_control.unwrap().name(), "cubic");
        for wrong in ["split:cubic", "drwa:cubic", "accel:rate?alpha=1ms", "direct:fixed"] {
            assert!(of(wrong).is_err(), "{wrong}");
        }
    }
}
