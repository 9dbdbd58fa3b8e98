//! Scheduling of a thread by the kernel: timer slack, real-time priority, processor.

use units::Duration;

use crate::IoError;

/// Sets how late the kernel may wake the calling thread to save wake-ups (default 50 µs, least 1 ns).
///
/// # Errors
/// When the kernel refuses, which it does not for the calling thread.
pub fn set_timer_slack(slack: Duration) -> Result<(), IoError> {
    // SAFETY: PR_SET_TIMERSLACK takes one integer and no pointers.
    let done = unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, slack.as_nanos().max(1)) };
    if done < 0 { Err(IoError::last("set the timer slack")) } else { Ok(()) }
}

/// Gives the calling thread real-time scheduling (`SCHED_FIFO`) at `priority`, 1 to 99.
///
/// A spinning real-time thread starves everything else on its processor: keep one processor free.
///
/// # Errors
/// Without the privilege, or for a priority out of range.
pub fn set_realtime_priority(priority: u8) -> Result<(), IoError> {
    set_realtime_priority_of(0, priority)
}

/// Gives the main thread of process `pid` real-time scheduling, and with it each thread that it starts later.
/// The caller's own thread is 0.
///
/// # Errors
/// Without the privilege, for a priority out of range, or when there is no such process.
pub fn set_realtime_priority_of(pid: u32, priority: u8) -> Result<(), IoError> {
    if !(1..=99).contains(&priority) {
        return Err(IoError::Invalid {
            what: format!("real-time priority {priority}"),
            why: "allowed are 1 to 99".to_owned(),
        });
    }
    let param = parameters(i32::from(priority));
    // A number that no process can have finds none.
    let pid = libc::pid_t::try_from(pid).unwrap_or(libc::pid_t::MAX);
    // SAFETY: `pid` is a number only; `param` is valid for the duration of the call.
    let done = unsafe { libc::sched_setscheduler(pid, libc::SCHED_FIFO, &raw const param) };
    if done < 0 {
        return Err(IoError::NotPrivileged {
            what: format!("get real-time priority {priority}"),
            capability: "CAP_SYS_NICE",
        });
    }
    Ok(())
}

/// With musl there are further fields, which Linux does not have.
fn parameters(priority: libc::c_int) -> libc::sched_param {
    // SAFETY: sched_param is integers, for which all zero bytes are a valid value.
    let mut param: libc::sched_param = unsafe { std::mem::zeroed() };
    param.sched_priority = priority;
    param
}

/// Gives the calling thread the scheduling of ordinary ones again: threads begin with that of who starts
/// them.
///
/// # Errors
/// When the kernel refuses, which it does not for less than a thread has.
pub fn set_ordinary_priority() -> Result<(), IoError> {
    let param = parameters(0);
    // SAFETY: pid 0 is the calling thread; `param` is valid for the duration of the call.
    let done = unsafe { libc::sched_setscheduler(0, libc::SCHED_OTHER, &raw const param) };
    if done < 0 { Err(IoError::last("get the scheduling of ordinary threads")) } else { Ok(()) }
}

/// Niceness of the calling thread, −20 to 19: whoever has less goes first.
#[must_use]
pub fn niceness() -> i32 {
    // SAFETY: takes numbers only; 0 is the calling thread. It fails for no thread that there is.
    unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) }
}

/// Gives the calling thread another niceness, and with it each thread and process that it starts later.
///
/// # Errors
/// When it is below what the thread has, without the privilege.
pub fn set_niceness(niceness: i32) -> Result<(), IoError> {
    // SAFETY: takes numbers only; 0 is the calling thread.
    let done = unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, niceness) };
    if done < 0 {
        return Err(IoError::NotPrivileged {
            what: format!("take niceness {niceness}"),
            capability: "CAP_SYS_NICE",
        });
    }
    Ok(())
}

/// Keeps the calling thread on one processor, counted from 0.
///
/// # Errors
/// When there is no such processor or the process may not use it.
pub fn pin_to_cpu(cpu: usize) -> Result<(), IoError> {
    let invalid = || IoError::Invalid {
        what: format!("processor {cpu}"),
        why: "this machine or process has no such processor; `nproc` counts them".to_owned(),
    };
    if cpu >= libc::CPU_SETSIZE.unsigned_abs() as usize {
        return Err(invalid());
    }
    // SAFETY: cpu_set_t is plain integers, for which all zero bytes are a valid value.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: `cpu` was checked to be below CPU_SETSIZE, so the write stays inside `set`; pid 0 is the
    // calling thread, and `set` is valid for the size given.
    let done = unsafe {
        libc::CPU_SET(cpu, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set)
    };
    if done < 0 { Err(invalid()) } else { Ok(()) }
}

/// Number of processors this process may use, at least one.
#[must_use]
pub fn cpu_count() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_out_of_range_are_named() {
        assert!(set_realtime_priority(0).unwrap_err().to_string().contains("1 to 99"));
        assert!(pin_to_cpu(100_000).unwrap_err().to_string().contains("processor 100000"));
    }

    #[test]
    fn a_thread_can_be_ordinary_again() {
        let of = || {
            // SAFETY: pid 0 is the calling thread, and there are no pointers.
            unsafe { libc::sched_getscheduler(0) }
        };
        std::thread::spawn(move || {
            // Without the privilege it is ordinary all the time.
            let is_realtime = set_realtime_priority(1).is_ok();
            assert_eq!(of() == libc::SCHED_FIFO, is_realtime);
            set_ordinary_priority().unwrap();
            assert_eq!(of(), libc::SCHED_OTHER);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn a_thread_can_be_nicer() {
        std::thread::spawn(|| {
            let nicer = (niceness() + 3).min(19);
            set_niceness(nicer).unwrap();
            assert_eq!(niceness(), nicer);
            let heir = std::thread::spawn(niceness).join().unwrap();
            assert_eq!(heir, nicer);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn a_thread_can_be_pinned() {
        std::thread::spawn(|| pin_to_cpu(0).unwrap()).join().unwrap();
    }
}
