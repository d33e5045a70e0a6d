//! The process that a lab lives as long as.

use std::io::{self, Read};
use std::sync::{Arc, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{SigSet, Signal, kill};
use nix::unistd::{Pid, setsid};
use weft_lab::{Lab, Plan, Process};

use super::control::{self, Kept};
use super::state::{self, Name, State};
use weft_command::failure::Failure;
use weft_command::output::print_line;
use weft_command::shape::bridge_program;

/// How long a keeper may take to end its lab.
const PATIENCE: Duration = Duration::from_secs(20);

/// What a keeper says, in one line of JSON: the lab, or why there is none.
pub(super) type Report = Result<State, String>;

/// The keeper in the background: takes its plan from standard input, reports on standard output.
pub(super) fn run(name: &Name) -> Result<(), Failure> {
    setsid().map_err(|error| Failure::while_doing("cannot leave the session")(error.into()))?;
    let mut plan = String::new();
    io::stdin().read_to_string(&mut plan).map_err(Failure::while_doing("standard input"))?;
    let plan = serde_json::from_str(&plan).map_err(|error| Failure::Usage(format!("this is no plan: {error}")))?;
    match keep(&plan, name, |state| report(&Ok(state))) {
        Ok(()) => Ok(()),
        Err(failure) => report(&Err::<&State, _>(failure.to_string())),
    }
}

fn report(report: &Result<&State, String>) -> Result<(), Failure> {
    print_line(serde_json::to_string(report).expect("plain values become JSON"))
}

/// Makes a lab, announces it, and keeps it until a signal asks for its end or a part of it has been killed.
pub(super) fn keep(
    plan: &Plan,
    name: &Name,
    announce: impl FnOnce(&State) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let signals: SigSet =
        [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGQUIT, Signal::SIGCHLD].into_iter().collect();
    signals.thread_block().map_err(|error| Failure::while_doing("cannot block signals")(error.into()))?;
    if let Some(other) = State::find(name)? {
        return Err(other.taken());
    }
    let lab = Lab::up_with_wan(plan, &bridge_program()?)?;
    let keeper = Process::find(std::process::id())
        .ok_or_else(|| Failure::Runtime("this process is not in /proc; mount it".to_owned()))?;
    let state = State { name: name.clone(), keeper, plan: plan.clone(), hosts: lab.hosts().to_vec() };
    let path = state.publish()?;
    let lab = Kept::new(Some(lab).into());
    let served = control::serve(&state::socket(&path), Arc::clone(&lab));
    let whole = served.and_then(|()| announce(&state)).and_then(|()| wait(&lab, &signals));
    state::forget(&path)?;
    // A command may be at work with it.
    let down = lab.lock().unwrap_or_else(PoisonError::into_inner).take().map_or(Ok(()), Lab::down);
    whole.and(down.map_err(Failure::from))
}

/// Waits for a signal that asks for the end. A child that has ended may be a part of the lab, without which it is of no
/// use.
fn wait(lab: &Kept, signals: &SigSet) -> Result<(), Failure> {
    loop {
        let signal = signals.wait().map_err(|error| Failure::while_doing("cannot wait for signals")(error.into()))?;
        if signal != Signal::SIGCHLD || !is_whole(lab) {
            return Ok(());
        }
    }
}

fn is_whole(lab: &Kept) -> bool {
    lab.lock().unwrap_or_else(PoisonError::into_inner).as_ref().is_some_and(Lab::is_whole)
}

/// Ends a lab, and waits until it has gone.
pub(super) fn end(name: &Name) -> Result<(), Failure> {
    end_one(&State::get(name)?)
}

/// Ends all labs of this user.
pub(super) fn end_all() -> Result<(), Failure> {
    let labs = State::all()?;
    if labs.is_empty() {
        return print_line("No lab is up.");
    }
    // Each is tried, whatever becomes of the others.
    let ends: Vec<_> = labs.iter().map(end_one).collect();
    ends.into_iter().collect()
}

fn end_one(state: &State) -> Result<(), Failure> {
    let State { name, keeper, .. } = state;
    let id = i32::try_from(keeper.id).map_err(|_| Failure::Runtime(format!("{} is no process id", keeper.id)))?;
    match kill(Pid::from_raw(id), Signal::SIGTERM) {
        // It ends already.
        Ok(()) | Err(nix::Error::ESRCH) => {}
        Err(error) => return Err(Failure::while_doing(format!("cannot end process {id}"))(error.into())),
    }
    let until = Instant::now() + PATIENCE;
    while keeper.is_alive() {
        if Instant::now() > until {
            let message =
                format!("lab {name} does not end: its keeper, process {id}, still runs after {} s", PATIENCE.as_secs());
            return Err(Failure::Runtime(message));
        }
        thread::sleep(Duration::from_millis(2));
    }
    print_line(format_args!("Lab {name} is down."))
}
