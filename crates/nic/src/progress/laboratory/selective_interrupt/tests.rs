//! A model checker runs the loop of a thread that calls: an application that visits only when it is called handles what
//! arrives, and is called for nothing else.

use core::time::Duration;
use std::sync::Arc;

use shuttle::thread;
use weft_base::Watch;

use super::CallingSlot;
use crate::progress::handover::tests::{Held, Model, model};
use crate::progress::handover::{EngineGuard, Flag};

impl CallingSlot for Model {
    fn arm_all(hold: &mut Held<'_>) {
        hold.arm();
    }

    fn until_due(_: &mut Held<'_>) -> Option<Duration> {
        None
    }

    fn call(&self, _hold: Held<'_>) {
        self.world.change(|system| {
            assert!(system.arrived > system.handled, "nothing waits");
            system.called = true;
        });
    }
}

/// Callers come, wait and go, while packets arrive; then an application visits only when it is called.
fn is_called_for_what_waits(packets: u32) {
    let model = model(None);
    let run = |act: fn(&Model)| {
        let model = Arc::clone(&model);
        thread::spawn(move || act(&model))
    };
    let server = run(|model| model.handover.serve_by_calling(model, &model.world));
    let caller = run(|model| {
        model.visit();
        model.handover.leave(&model.world);
        model.visit();
    });
    let application = run(|model| {
        loop {
            let mut system = model.world.system.lock().unwrap();
            while !system.called && !system.ended {
                system = model.world.changed.wait(system).unwrap();
            }
            if core::mem::take(&mut system.ended) {
                break;
            }
            system.called = false;
            drop(system);
            model.visit();
        }
    });
    for _ in 0..packets {
        model.world.change(|system| system.arrived += 1);
    }
    caller.join().unwrap();
    let mut system = model.world.system.lock().unwrap();
    while system.handled < system.arrived {
        system = model.world.changed.wait(system).unwrap();
    }
    drop(system);
    model.world.change(|system| system.ended = true);
    model.stop.set(true);
    model.world.wake();
    server.join().unwrap();
    application.join().unwrap();
}

#[test]
fn an_application_is_called_for_what_waits_and_for_nothing_else() {
    shuttle::check_random(|| is_called_for_what_waits(0), 3000);
    shuttle::check_random(|| is_called_for_what_waits(2), 3000);
}
