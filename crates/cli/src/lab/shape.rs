//! `weft lab shape`.

use std::time::Duration;

use clap::Args;
use weft_lab::{BitsPerSecond, Carrier, Shape};

use super::control::{self, Request};
use super::state::Lab;
use super::target::Target;
use weft_command::failure::Failure;
use weft_command::output::print_line;
use weft_command::shape::{Percent, Time};

/// The arguments on the command line.
#[derive(Args, Debug)]
pub(super) struct Arguments {
    #[command(flatten)]
    lab: Lab,
    /// The link: railL for all that crosses the rail, or H:railL for host H's cable to it, in both directions; wan for
    /// all links between clusters, or a-b for that between clusters a and b
    #[arg(value_name = "LINK")]
    link: Target,
    /// What it carries in each direction: 500M, 1G, 2.5G bits per second
    #[arg(long)]
    rate: Option<BitsPerSecond>,
    /// What may wait for that, in bytes; more is dropped [default: 500000]
    #[arg(long, value_name = "BYTES", requires = "rate")]
    queue: Option<u64>,
    /// How long each frame takes in one direction: 500us, 10ms, 1.5s
    #[arg(long, value_name = "TIME", default_value = "0us")]
    delay: Time,
    /// Up to how much longer, by chance; frames stay in order
    #[arg(long, value_name = "TIME", default_value = "0us")]
    jitter: Time,
    /// Frames that are lost, in percent
    #[arg(long, value_name = "PERCENT", default_value = "0")]
    loss: Percent,
    /// Lost frames in a row, on average [default: as chance has it]
    #[arg(long, value_name = "FRAMES", requires = "loss")]
    burst: Option<u32>,
    /// Frames that others overtake, in percent
    #[arg(long, value_name = "PERCENT", default_value = "0")]
    reorder: Percent,
    /// Up to how much later those come
    #[arg(long, value_name = "TIME", default_value = "1ms")]
    reorder_by: Time,
    /// Frames that come twice, in percent
    #[arg(long, value_name = "PERCENT", default_value = "0")]
    duplicate: Percent,
    /// Frames that come with bits flipped, in percent
    #[arg(long, value_name = "PERCENT", default_value = "0")]
    corrupt: Percent,
    /// Bits that are flipped in such a frame, at most: 1 to 4 [default: 4]
    #[arg(long, value_name = "N")]
    corrupt_bits: Option<u8>,
    /// By what its packets are carried, and those of all links that are shaped after this: queue, the kernel's packet
    /// queues, for IP alone; rings, every frame, one by one [default: that of weft lab up]
    #[arg(long, value_name = "KIND")]
    carrier: Option<Carrier>,
    /// Do nothing to its frames any more
    #[arg(long)]
    off: bool,
}

impl Arguments {
    fn shape(&self) -> Shape {
        Shape {
            rate: self.rate,
            queue_bytes: self.queue,
            delay: self.delay.0,
            jitter: self.jitter.0,
            loss_millionths: self.loss.0,
            burst: self.burst,
            reorder_millionths: self.reorder.0,
            reorder_by: if self.reorder.0 == 0 { Duration::ZERO } else { self.reorder_by.0 },
            duplicate_millionths: self.duplicate.0,
            corrupt_millionths: self.corrupt.0,
            corrupt_bits: self.corrupt_bits,
        }
    }
}

/// Runs the command.
pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let Arguments { lab, link, off, carrier, .. } = arguments;
    let name = &lab.name();
    let shape = arguments.shape();
    match (off, shape.is_nothing()) {
        (false, true) => {
            let words = "say what the link shall do to frames, for instance --delay 10ms --loss 0.5; or --off";
            return Err(Failure::Usage(words.to_owned()));
        }
        (true, false) => return Err(Failure::Usage("--off leaves nothing to do to frames".to_owned())),
        _ => {}
    }
    shape.check()?;
    control::ask(name, &Request::Shape(link.clone(), shape.clone(), *carrier))?;
    if *off {
        return print_line(format_args!("Link {link} of lab {name} has no shape."));
    }
    print_line(format_args!("Link {link} of lab {name} is shaped: {shape}."))
}
