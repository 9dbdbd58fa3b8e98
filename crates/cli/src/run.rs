//! `cellerator run`.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Error, Result, bail};
use engine::WindowPolicy;
use io::{Clock, Waiter};
use run::{Answer, Event, EventSink, Job, Log, Question, RunError, Settings, Task, Watched};
use units::Duration;

/// Runs `cellerator run`; an error is one clear line: what, where, what to do.
pub fn main(settings: Settings) -> Result<ExitCode> {
    let given: Vec<OsString> = std::env::args_os().skip_while(|word| word != "run").skip(1).collect();
    let result = match settings.task(given).map_err(Error::msg)? {
        Task::Watch(record, hang_after) => {
            let watched = run::watch(&record, hang_after)?;
            // A service manager starts it anew.
            return Ok(if watched == Watched::Died { ExitCode::FAILURE } else { ExitCode::SUCCESS });
        }
        Task::DryRun(config) => run::dry_run(&config, &mut Log::open(&config.instance_name())),
        Task::Background(words) => return start_in_background(&words).context("run"),
        Task::Run(job) => accelerate(*job),
    };
    result.map(|()| ExitCode::SUCCESS).context("run")
}

/// Interval at which a process in the background is looked at.
const POLL: Duration = Duration::from_millis(10);

/// Starts `cellerator run` with `words` and returns when it answers, which it does once it steers packets.
fn start_in_background(words: &[OsString]) -> Result<ExitCode> {
    let program = std::env::current_exe().context("cannot find this program's own file")?;
    let mut command = Command::new(program);
    command.arg("run").args(words).process_group(0).stdin(Stdio::null());
    io::Lifeline::pass_on(&mut command);
    let mut child = command.spawn().context("cannot start in the background")?;
    let mut waiter = Waiter::new(Duration::ZERO)?;
    loop {
        if let Some(status) = child.try_wait()? {
            bail!("the process in the background has ended at its start ({status})");
        }
        let all = run::find(Path::new(io::INSTANCE_DIRECTORY))?;
        let own = all.into_iter().find(|found| found.process == child.id());
        // Questions are answered from the first turn of its loop on.
        if own.is_some_and(|own| matches!(own.ask(&Question::Status), Ok(Answer::Status(_)))) {
            return Ok(ExitCode::SUCCESS);
        }
        waiter.wait(Some(Clock::now() + POLL))?;
    }
}

fn accelerate(job: Job) -> Result<(), RunError> {
    let mut log = Log::open(&job.config.instance_name());
    run::take_niceness(job.config.niceness)?;
    // All files that others may not read have been read, and there is one thread.
    run::keep_needed_privileges(&job.config.state_directory)?;
    if job.engine.window_policy == WindowPolicy::Opportunistic {
        log.on_event(&Event::PatentClaim);
    }
    run::accelerate(job, &mut log)?.tell(&mut log);
    Ok(())
}
